// Package strictjson reads JSON that somebody sent or wrote along the Go type that it is to become, and says all that is wrong with it in the
// words of whoever wrote it. Start at [Decode].
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// MaxFaults bounds how many faults of one text are listed.
	MaxFaults = 32
	// MaxEntries is more than any list or map of a job may have (job.MaxArgs and its
	// like say how many): beyond it, reading on would only cost memory.
	MaxEntries = 4096
)

// Malformed is the fault of a text that is no JSON, or none that Glovebox can read.
type Malformed job.FieldError

func (m Malformed) Error() string { return job.FieldError(m).Error() }

// Decode reads a text: a submitted job, say. It fails with job.Invalid, which lists what has the wrong shape: unknown and repeated fields,
// wrong types, numbers that no field holds; or with Malformed. They call what they find no name for by that of the whole.
//
// It walks the JSON along the type T and builds nothing but one value of it, so
// that a hostile body costs no more than its own size. (huma's validation builds maps
// of everything first, and an error for each unknown field, were there a million.)
func Decode[T any](text []byte, whole string) (v T, err error) {
	fault := func(message, allowed string) (T, error) {
		return v, Malformed{Field: whole, Message: message, Allowed: allowed}
	}
	switch {
	case len(text) == 0:
		return fault("is empty", "one JSON object")
	case !utf8.Valid(text):
		return fault("is not UTF-8", "UTF-8; other bytes go into files[].content_base64")
	case !json.Valid(text):
		return fault(syntaxFault(text), "one JSON object")
	}
	w := walker{scanner: scanner{text: text}}
	err = w.value(reflect.TypeFor[T](), whole, "")
	if err != nil && !errors.Is(err, errEnough) {
		return v, fmt.Errorf("read %s: %w", whole, err)
	}
	if len(w.faults) > 0 {
		return v, w.faults
	}
	err = json.Unmarshal(text, &v)
	var noTime *time.ParseError
	if errors.As(err, &noTime) { // the walk has unescaped the text, and package time reads it with its escapes
		return fault("has a time that is written with escapes", "times such as 2026-11-20T09:00:00Z (RFC 3339)")
	}
	if err != nil {
		return v, fmt.Errorf("decode %s: %w", whole, err)
	}
	return v, nil
}

// syntaxFault says where a text is not JSON.
func syntaxFault(text []byte) string {
	err := json.Unmarshal(text, new(any)) // it checks before it builds
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return "is not JSON"
	}
	before := text[:min(max(syntax.Offset-1, 0), int64(len(text)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("is not JSON at line %d, column %d: %s", line, column, syntax)
}

var errEnough = errors.New("enough faults")

// walker compares JSON with a Go type. The JSON is well-formed.
type walker struct {
	scanner

	faults job.Invalid
}

func (w *walker) fault(field string, value any, message, allowed string) error {
	w.faults = append(w.faults, job.FieldError{Field: clip(field), Value: value, Message: message, Allowed: allowed})
	if len(w.faults) == MaxFaults {
		return errEnough
	}
	return nil
}

// value reads one value, which field calls by its path; prefix is what the paths of
// its own fields start with.
func (w *walker) value(t reflect.Type, field, prefix string) error {
	token := w.next()
	if token[0] == 'n' { // null is as good as absent
		return nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		return w.time(token, field)
	case reflect.TypeFor[json.RawMessage](): // its reader checks the rest
		begin := w.at - len(token)
		w.skipTo(depth(token))
		return w.characters(w.text[begin:w.at], field)
	case reflect.TypeFor[job.Value]():
		if token[0] == '"' {
			return w.characters(token, field)
		}
		if token[0] != '{' {
			return w.wrong(token, field, `text, or {"from": "/params/NAME"}`)
		}
		return w.pointer(field)
	}
	number := token[0] == '-' || token[0] >= '0' && token[0] <= '9'
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		if token[0] != '{' {
			return w.wrong(token, field, "an object")
		}
		return w.object(t, field, prefix)
	case reflect.Slice:
		if token[0] != '[' {
			return w.wrong(token, field, "an array")
		}
		for i := 0; w.more(); i++ {
			if i == MaxEntries {
				return w.tooMany(field)
			}
			item := field + "[" + strconv.Itoa(i) + "]"
			if err := w.value(t.Elem(), item, item+"."); err != nil {
				return err
			}
		}
		w.next()
	case reflect.String:
		if token[0] != '"' {
			return w.wrong(token, field, "a string")
		}
		return w.characters(token, field)
	case reflect.Int, reflect.Int64:
		if !number {
			return w.wrong(token, field, "a whole number")
		}
		if _, err := strconv.ParseInt(string(token), 10, 64); err != nil {
			return w.fault(field, clip(string(token)), "is not a whole number that Glovebox can hold", "a whole number, written without point or exponent")
		}
	case reflect.Float64:
		if !number {
			return w.wrong(token, field, "a number")
		}
		if _, err := strconv.ParseFloat(string(token), 64); err != nil {
			return w.fault(field, clip(string(token)), "is not a number that Glovebox can hold", "a number")
		}
	case reflect.Bool:
		if token[0] != 't' && token[0] != 'f' {
			return w.wrong(token, field, "true or false")
		}
	default:
		return fmt.Errorf("no JSON for %s", t)
	}
	return nil
}

// pointer reads the object of a job.Value.
func (w *walker) pointer(field string) error {
	begin := w.at
	err := w.object(reflect.TypeFor[job.Value](), field, field+".")
	var v job.Value
	if err == nil && len(w.faults) == 0 && v.UnmarshalJSON(append([]byte("{"), w.text[begin:w.at]...)) != nil {
		err = w.fault(field+".from", nil, "is missing", "a JSON pointer: /params/NAME")
	}
	return err
}

func (w *walker) time(token []byte, field string) error {
	const want = "a time such as 2026-11-20T09:00:00Z (RFC 3339)"
	if token[0] != '"' {
		return w.wrong(token, field, want)
	}
	s := unquoted(token)
	var t time.Time
	// RFC 3339 has a point before the fraction of a second; a comma is read as well.
	if err := t.UnmarshalText([]byte(s)); err != nil || strings.Contains(s, ",") {
		return w.fault(field, clip(s), "is not a time", want)
	}
	// It reads some that can't be written again, as they are or in UTC: an offset of 24 hours, and the year 10000.
	_, err := t.MarshalText()
	_, inUTC := t.UTC().MarshalText()
	if err != nil || inUTC != nil {
		return w.fault(field, clip(s), "is out of range", want)
	}
	return nil
}

func (w *walker) object(t reflect.Type, field, prefix string) error {
	seen := map[string]bool{}
	for w.more() {
		if len(seen) == MaxEntries {
			return w.tooMany(field)
		}
		token := w.next()
		if LoneSurrogate(token) != nil { // its name is none to call it by
			if err := w.characters(token, field); err != nil {
				return err
			}
			w.skip()
			continue
		}
		name := unquoted(token)
		inside, known := memberOf(t, name)
		var err error
		switch {
		case !known:
			err = w.fault(prefix+name, nil, "is not a known field", strings.Join(slices.Sorted(maps.Keys(membersOf(t))), ", "))
			w.skip()
		case seen[name]:
			err = w.fault(prefix+name, nil, "appears more than once", "each field once")
			w.skip()
		default:
			seen[name] = true
			err = w.entry(inside, prefix+name)
		}
		if err != nil {
			return err
		}
	}
	w.next()
	return nil
}

// entry reads what a struct or map holds under a name. It refuses an empty list or text where the field's tag says so: whoever sends
// tests: [] wants the program graded, and it would not be.
func (w *walker) entry(m member, field string) error {
	w.skipSpace()
	begin := w.at
	if err := w.value(m.value, field, field+"."); err != nil {
		return err
	}
	if m.wants != "" && emptyJSON(w.text[begin:w.at], m.value.Kind()) {
		return w.fault(field, nil, "is empty", m.wants)
	}
	return nil
}

// wants is what a field has to have that may be left out, but not be empty; "" for others.
func wants(f reflect.StructField) string {
	switch {
	case !strings.HasSuffix(f.Tag.Get("json"), ",omitempty"): // its own check says more
		return ""
	case f.Tag.Get("minItems") == "1":
		return "one entry or more; without the field there are none"
	case f.Tag.Get("minLength") == "1":
		return "a text; without the field there is none"
	}
	return ""
}

// emptyJSON reports whether a value is the empty one of a slice or string.
func emptyJSON(value []byte, kind reflect.Kind) bool {
	if kind == reflect.String {
		return string(value) == `""`
	}
	return kind == reflect.Slice && value[0] == '[' && len(bytes.TrimSpace(value[1:len(value)-1])) == 0
}

// characters refuses strings in JSON whose escapes are no characters. encoding/json reads U+FFFD in their place, without a word: what ran
// would be another program than was sent. Python's json.dumps writes them for bytes that it could not decode (surrogateescape).
func (w *walker) characters(text []byte, field string) error {
	escape := LoneSurrogate(text)
	if escape == nil {
		return nil
	}
	return w.fault(field, string(escape), "has an escape that is half a character", "UTF-8, or escapes of whole characters, such as \\ud83d\\ude00; other bytes go into files[].content_base64")
}

// tooMany ends the walk.
func (w *walker) tooMany(field string) error {
	return errors.Join(w.fault(field, nil, "has too many entries", fmt.Sprintf("far fewer than %d", MaxEntries)), errEnough)
}

// wrong notes that token is not what it should be, and skips what it opens.
func (w *walker) wrong(token []byte, field, want string) error {
	var value any
	switch token[0] {
	case '{':
		value = "an object"
	case '[':
		value = "an array"
	case '"':
		value = clip(unquoted(token))
	case 't', 'f':
		value = token[0] == 't'
	default:
		value = clip(string(token))
	}
	if err := w.fault(field, value, "is not "+want, want); err != nil {
		return err
	}
	w.skipTo(depth(token))
	return nil
}

// member is what a struct or map holds under a name.
type member struct {
	value reflect.Type
	wants string // what it has to have that may be left out, but not be empty; "" for others
}

// memberOf is what a struct or map holds under that name.
func memberOf(t reflect.Type, name string) (member, bool) {
	if t.Kind() == reflect.Map {
		return member{value: t.Elem()}, true
	}
	f, ok := membersOf(t)[name]
	return f, ok
}

// structs has the fields of each struct type that was met, by name. They are as many as the types that Decode is called for.
var structs sync.Map // of map[string]member by reflect.Type

func membersOf(t reflect.Type) map[string]member {
	if known, ok := structs.Load(t); ok {
		return known.(map[string]member)
	}
	fields := map[string]member{}
	for f := range t.Fields() { // what is embedded has the names that are left
		if f.Anonymous {
			maps.Copy(fields, membersOf(f.Type))
		}
	}
	for f := range t.Fields() {
		if name := jsonName(f); !f.Anonymous && name != "-" {
			fields[name] = member{f.Type, wants(f)}
		}
	}
	structs.Store(t, fields)
	return fields
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// clip shortens what a stranger sent.
func clip(s string) string { return job.Clip(s, 120) }
