package grading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

// maxDepth bounds how deeply a JSON document is nested.
const maxDepth = 1000

// value is a JSON value, and where it ends in its document.
type value struct {
	is any // nil, bool, string, json.Number, []value or map[string]value
	at int
}

// sameJSON wants the same JSON value.
func sameJSON(answer, output *side) (*job.Difference, error) {
	a, o, diff, err := wholeBoth(answer, output, MaxJSON, MaxJSON)
	if diff != nil || err != nil {
		return diff, err
	}
	want, fault := parseJSON(a)
	if fault != nil {
		return nil, &AnswerError{"is no JSON document: " + fault.problem}
	}
	got, fault := parseJSON(o)
	if fault != nil {
		return differAt(o, fault.at, "a JSON document", excerpt([]byte(fault.problem), 0)), nil
	}
	d := differJSON("$", want, got)
	if d == nil {
		return nil, nil
	}
	at := max(0, min(d.at, len(o))-1) // the value's last byte
	return differAt(o, at, excerpt([]byte(d.want), 0), excerpt([]byte(d.got), 0)), nil
}

// jsonFault is where a text is no JSON document, and why.
type jsonFault struct {
	at      int
	problem string
}

// parseJSON reads one document and nothing beside it.
func parseJSON(text []byte) (value, *jsonFault) {
	if !utf8.Valid(text) { // the decoder would replace what is not
		return value{}, &jsonFault{0, "it is not UTF-8"}
	}
	p := jsonParser{json.NewDecoder(bytes.NewReader(text))}
	p.UseNumber()
	v, err := p.value(0)
	if err == nil {
		if _, err = p.Token(); errors.Is(err, io.EOF) {
			return v, nil
		} else if err == nil {
			err = errors.New("there is more after it")
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early")
	}
	return v, &jsonFault{min(int(p.InputOffset()), len(text)), err.Error()}
}

type jsonParser struct{ *json.Decoder }

func (p jsonParser) value(depth int) (v value, err error) {
	t, err := p.Token()
	if err != nil {
		return v, err
	}
	v = value{t, int(p.InputOffset())}
	delim, nested := t.(json.Delim)
	if !nested {
		return v, nil
	}
	if depth == maxDepth {
		return v, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	var list []value
	var object map[string]value
	if delim == '{' {
		object = map[string]value{}
	}
	for p.More() {
		key := ""
		if delim == '{' {
			t, err := p.Token()
			if err != nil {
				return v, err
			}
			key, _ = t.(string) // the decoder takes nothing else for one
		}
		inner, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		if delim == '{' {
			object[key] = inner
		} else {
			list = append(list, inner)
		}
	}
	if _, err := p.Token(); err != nil { // the end of it
		return v, err
	}
	if v.is = list; delim == '{' {
		v.is = object
	}
	return v, nil
}

// jsonDifference is where two values differ, and how, by a path such as $.a[2].
type jsonDifference struct {
	at        int
	want, got string
}

func differJSON(path string, want, got value) *jsonDifference {
	differs := func(w, g string) *jsonDifference { return &jsonDifference{got.at, path + ": " + w, path + ": " + g} }
	switch w := want.is.(type) {
	case []value:
		g, ok := got.is.([]value)
		if !ok {
			break
		}
		for i := range min(len(w), len(g)) {
			if d := differJSON(fmt.Sprintf("%s[%d]", shortPath(path), i), w[i], g[i]); d != nil {
				return d
			}
		}
		if len(w) != len(g) {
			return differs(fmt.Sprintf("%d elements", len(w)), fmt.Sprintf("%d elements", len(g)))
		}
		return nil
	case map[string]value:
		g, ok := got.is.(map[string]value)
		if !ok {
			break
		}
		for _, k := range slices.Sorted(maps.Keys(w)) {
			inner, ok := g[k]
			if !ok {
				return differs("has "+quoted(k), "lacks it")
			}
			if d := differJSON(shortPath(path)+"."+k, w[k], inner); d != nil {
				return d
			}
		}
		for _, k := range slices.Sorted(maps.Keys(g)) {
			if _, ok := w[k]; !ok {
				return differs("has no "+quoted(k), "has it")
			}
		}
		return nil
	case json.Number:
		if g, ok := got.is.(json.Number); ok && canonical(w.String()) == canonical(g.String()) {
			return nil
		}
	default:
		if isScalar(got.is) && w == got.is {
			return nil
		}
	}
	return differs(shown(want.is), shown(got.is))
}

// isScalar holds for values that Go can compare.
func isScalar(v any) bool {
	switch v.(type) {
	case []value, map[string]value:
		return false
	}
	return true
}

// shortPath keeps paths readable, and their memory small where documents are nested deeply.
func shortPath(path string) string {
	const most = 64
	if len(path) <= most {
		return path
	}
	return "…" + strings.ToValidUTF8(path[len(path)-most+len("…"):], "")
}

func quoted(key string) string { return fmt.Sprintf("%q", excerpt([]byte(key), 0)) }

// shown is a value in few words.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case []value:
		return "an array"
	case map[string]value:
		return "an object"
	case string:
		return quoted(v)
	default:
		return fmt.Sprint(v)
	}
}

// canonical is the same for all ways to write a JSON number. One that is longer than MaxNumber is text.
func canonical(n string) string {
	if len(n) > MaxNumber {
		return n
	}
	mantissa, exponent, _ := strings.Cut(strings.ToLower(n), "e")
	sign := ""
	if rest, negative := strings.CutPrefix(mantissa, "-"); negative {
		sign, mantissa = "-", rest
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	short := strings.TrimRight(digits, "0")
	e := shift(exponent, len(digits)-len(short)-len(fraction))
	return sign + short + "e" + e
}

// shift adds n to an exponent of any digits, of which there are few.
func shift(exponent string, n int) string {
	e, ok := new(big.Int).SetString(strings.TrimPrefix(exponent, "+"), 10)
	if !ok { // there is none
		e = new(big.Int)
	}
	return e.Add(e, big.NewInt(int64(n))).String()
}
