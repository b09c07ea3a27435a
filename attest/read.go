package attest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

// MaxResult bounds what [ParseResult] reads.
const MaxResult = 16 << 20

// ParseResult reads a result, or the webhook message that carries one, so that it means
// the same to every other reader. It refuses what parsers disagree about: a name that
// appears more than once, or in capitals, which Go would take for ours; half of a surrogate pair.
func ParseResult(b []byte) (job.Result, error) {
	e, err := ParseExecuted(b)
	return e.Result, err
}

// ParseExecuted reads a line of a session's transcript, or a result, as [ParseResult] does.
func ParseExecuted(b []byte) (job.Executed, error) {
	var e job.Executed
	b, err := strictly(b)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return job.Executed{}, fmt.Errorf("read result: %w", err)
	}
	if e.ID == "" || !e.Status.Final() {
		return job.Executed{}, errors.New("read result: it is no result of a job: id or a final status is missing")
	}
	return e, nil
}

// strictly returns the result as every parser reads it.
func strictly(b []byte) ([]byte, error) {
	switch {
	case len(b) > MaxResult:
		return nil, fmt.Errorf("read result: larger than %d MiB", MaxResult>>20)
	case !utf8.Valid(b) || halfPair(b):
		return nil, errors.New("read result: it is not Unicode")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := unambiguous(d, "", 0); err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read result: something comes after it")
	}
	var message struct {
		ID   json.RawMessage `json:"id"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(b, &message); err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	if message.ID != nil && message.Data != nil {
		return nil, errors.New("read result: it has id and data: a result or a message is wanted")
	}
	if message.Data != nil {
		b = message.Data
	}
	return b, nil
}

// maxDepth is beyond what a result nests.
const maxDepth = 16

// unambiguous reads one value, whose own name is given.
func unambiguous(d *json.Decoder, name string, depth int) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, nested := t.(json.Delim)
	if !nested {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("it nests deeper than %d", maxDepth)
	}
	seen := map[string]bool{}
	for d.More() {
		inner := name
		if open == '{' {
			t, err := d.Token()
			if err != nil {
				return err
			}
			inner, _ = t.(string) // a name is nothing else
			// A media type, by which a result of an execution is named, has a slash: it can be taken for no name of ours.
			mediaType := name == "data" && job.ValidMediaType(inner)
			if name != "metadata" && name != "env" && !mediaType && !ours(inner) {
				return fmt.Errorf("%.60q is no name that Glovebox writes", inner)
			}
			if seen[inner] {
				return fmt.Errorf("%.60q appears more than once", inner)
			}
			seen[inner] = true
		}
		if err := unambiguous(d, inner, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// ours reports whether a name is spelled as ours are, or is DSSE's payloadType.
// encoding/json would take Status for status, which other parsers don't.
func ours(name string) bool {
	return name == "payloadType" || !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_'
	})
}

// halfPair reports whether valid JSON has an escape of one half of a surrogate pair. Go
// reads U+FFFD there, which others don't.
func halfPair(b []byte) bool {
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		i++
		if high := escaped(b[i-1:]); utf16.IsSurrogate(high) {
			if utf16.DecodeRune(high, escaped(b[min(i+5, len(b)):])) == utf8.RuneError {
				return true
			}
			i += 10 // beyond the pair
		}
	}
	return false
}

// escaped returns the \uXXXX that b begins with, or -1.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
