package jsonvalue_test

import (
	"fmt"
	"runtime"
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

// TestWeight compares weights with what values take of the heap, those among them that take most for their size.
func TestWeight(t *testing.T) { //nolint:paralleltest // the heap is everybody's
	object := func(n int) string {
		text := `{"0":0`
		for i := range n - 1 {
			text += fmt.Sprintf(`,"%d":0`, i+1)
		}
		return text + "}"
	}
	for _, text := range []string{
		`{"a":0}`, `{}`, `[]`, `0`, `12345`, `null`, `"ab"`, `{"name":"x","n":1}`, `{"name":"Some One","mail":"some@example.com","score":12.5,"tags":["a","b"]}`,
		strings.Repeat(`{"":`, 60) + "0" + strings.Repeat("}", 60), strings.Repeat("[", 60) + strings.Repeat("]", 60),
		object(8), object(9), object(15), object(100), object(900), object(8000), `"` + strings.Repeat("x", 1000) + `"`,
	} {
		document := []byte("[" + strings.Repeat(text+",", max(1, 64<<10/(len(text)+1))-1) + text + "]")
		kept := make([]any, 4)
		began := heap()
		for i := range kept {
			var err error
			if kept[i], err = jsonvalue.Decode(document); err != nil {
				t.Fatal(err)
			}
		}
		took := float64(heap()-began) / float64(len(kept))
		if got := float64(jsonvalue.Weight(kept[0])); got < 0.75*took || got > 2*took { // 0.85 without the race detector, which has small texts take more
			t.Errorf("%.40s: got %.0f bytes, it takes %.0f", text, got, took)
		}
	}
}

// heap is how much memory is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first has found is free
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
