package jsonvalue_test

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
)

// TestFind has the examples of RFC 6901, section 5, and what points at nothing.
func TestFind(t *testing.T) {
	t.Parallel()
	document, err := jsonvalue.Decode([]byte(`{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"null":null,"big":12345678901234567890}`))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]string{
		"/foo": `["bar","baz"]`, "/foo/0": "bar", "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4", "/i\\j": "5",
		"/k\"l": "6", "/ ": "7", "/m~0n": "8", "/null": "null", "/big": "12345678901234567890",
	} {
		v, ok := jsonvalue.Find(document, pointer)
		if got, err := jsonvalue.Text(v); !ok || err != nil || got != want {
			t.Errorf("%s: got %s, %v, %v, want %s", pointer, got, ok, err, want)
		}
	}
	for _, pointer := range []string{"foo", "/foo/2", "/foo/01", "/foo/-", "/foo/-1", "/none", "/foo/0/x", "/m~2n", "/m~", "/null/x"} {
		if v, ok := jsonvalue.Find(document, pointer); ok {
			t.Errorf("%s: got %v, want nothing", pointer, v)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "1 2", "nul", "1e309", "1e-309", "1e99999999999999999999", strings.Repeat("1", 65), strings.Repeat("[", 66) + strings.Repeat("]", 66)} {
		if v, err := jsonvalue.Decode([]byte(text)); err == nil {
			t.Errorf("%.40s: got %v", text, v)
		}
	}
}

// TestExceeds: a value that is there many times counts each time, and is not read to its end.
func TestExceeds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"text"`, `[1,"a",null]`, `{"a":[1,{"b":"c"}],"d":true}`} {
		v, err := jsonvalue.Decode([]byte(text))
		if err != nil || jsonvalue.Exceeds(v, len(text)+2) || !jsonvalue.Exceeds(v, len(text)-3) {
			t.Errorf("%s: got another size than %d, %v", text, len(text), err)
		}
	}
	var v any = "x"
	for range 60 { // 2^60 values
		v = []any{v, v}
	}
	if !jsonvalue.Exceeds(v, 1<<20) {
		t.Error("2^60 values are not larger than 1 MiB")
	}
}
