// Package jsonvalue finds values in JSON by pointer, so that they need not be pasted into text. Start
// at [Decode] and [Find].
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// maxDepth bounds how deep arrays and objects are nested.
	maxDepth = 64
	// maxNumber and maxExponent bound a number's text and exponent: calculations with it are exact, and
	// 1e999999 has a million digits.
	maxNumber   = 64
	maxExponent = 308
)

// Decode reads one JSON value of a stranger's. Numbers stay as they are written.
func Decode(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, errors.New("is not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is more than one JSON value")
	}
	return v, check(v, 0)
}

func check(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		n, err := strconv.Atoi(exponent)
		if len(v) > maxNumber || exponent != "" && (err != nil || n > maxExponent || n < -maxExponent) {
			return fmt.Errorf("has a number of more than %d characters, or with an exponent beyond %d", maxNumber, maxExponent)
		}
	case []any:
		for _, item := range v {
			if err := check(item, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, item := range v {
			if err := check(item, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// Count is how many values there are in v, itself included.
func Count(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			n += Count(item)
		}
	case map[string]any:
		for _, item := range v {
			n += Count(item)
		}
	}
	return n
}

// Weight is about how many bytes v takes in memory, as Decode makes it. That is 7 times its size as JSON for most of what programs write, 46 times
// for {"a":0} again and again, and 67 times at most: a map has room for eight entries at least.
func Weight(v any) int64 {
	const (
		boxed  = 16 + 8 // a text's or a list's head, and what its bytes are rounded up by
		item   = 16 + 8 // of a list, which has room for more
		object = 48
		eight  = 288 // entries
		entry  = 64  // each beyond eight
	)
	n := int64(0)
	switch v := v.(type) {
	case string:
		n = boxed + int64(len(v))
	case json.Number:
		n = boxed + int64(len(v))
	case []any:
		n = boxed + item*int64(len(v))
		for _, in := range v {
			n += Weight(in)
		}
	case map[string]any:
		n = object
		if len(v) > 0 {
			n += eight + entry*int64(max(0, len(v)-8))
		}
		for key, in := range v {
			n += 8 + int64(len(key)) + Weight(in)
		}
	}
	return n
}

// Exceeds reports whether v is larger than so many bytes as JSON. It looks at no more of v than that, as
// one value may be in v many times.
func Exceeds(v any, most int) bool { return left(v, most) < 0 }

// left is what v leaves of so many bytes, or less than 0.
func left(v any, most int) int {
	switch v := v.(type) {
	case string:
		most -= len(v) + len(`""`)
	case json.Number:
		most -= len(v)
	case []any:
		most -= len("[]") - 1
		for _, item := range v {
			if most = left(item, most-len(",")); most < 0 {
				break
			}
		}
	case map[string]any:
		most -= len("{}") - 1
		for key, item := range v {
			if most = left(item, most-len(`"":,`)-len(key)); most < 0 {
				break
			}
		}
	default: // true, false, null
		most -= len("null")
	}
	return most
}

// Find returns what the pointer finds in v, and whether that is there.
func Find(v any, pointer string) (any, bool) {
	words, ok := job.ParsePointer(pointer)
	if !ok {
		return nil, false
	}
	for _, w := range words {
		switch in := v.(type) {
		case map[string]any:
			if v, ok = in[w]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(w)
			if err != nil || i < 0 || i >= len(in) || strconv.Itoa(i) != w {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// Clone returns a value that shares no list and no object with v.
func Clone(v any) any { return Map(v, func(v any) any { return v }) }

// Map is Clone in which f replaces each value that is no list and no object.
func Map(v any, f func(any) any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = Map(item, f)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			object[key] = Map(item, f)
		}
		return object
	}
	return f(v)
}

// Text is text as it is, and any other value as JSON.
func Text(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	b, err := job.Marshal(v)
	return string(b), err
}
