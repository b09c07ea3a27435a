package strictjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/strictjson"
)

func TestFromYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              `null`,
		"# nothing":                     `null`,
		"retry: {max: 2, on: [failed]}": `{"retry":{"max":2,"on":["failed"]}}`, // YAML 1.1 has true for on
		"[yes, no, off, y, NO]":         `["yes","no","off","y","NO"]`,
		"[true, False, null, ~, ]":      `[true,false,null,null]`,
		"a: 123456789012345678901234567890\nb: 1e3\nc: -0.10": `{"a":123456789012345678901234567890,"b":1e3,"c":-0.10}`,
		"at: 2026-11-29T10:00:00Z\nday: 2026-11-29":           `{"at":"2026-11-29T10:00:00Z","day":"2026-11-29"}`,
		"1: a\ntrue: b\n'2': c":                               `{"1":"a","true":"b","2":"c"}`,
		"text: |\n  a \"b\"\n  é\n":                           `{"text":"a \"b\"\né\n"}`,
		"a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a":        `{"a":{"x":1,"y":2},"b":{"y":3,"x":1},"c":{"x":1,"y":2}}`,
		"b: {<<: [{x: 1}, {x: 2, z: 3}]}":                     `{"b":{"x":1,"z":3}}`,
		`{"a":"\ud83d\ude00"}`:                                `{"a":"\ud83d\ude00"}`,
		"a:":                                                  `{"a":null}`,
		"--- \na: 1\n...\n---\n# nothing\n":                   `{"a":1}`,
		"x: &k key\n*k : 1":                                   `{"x":"key","key":1}`,
		"a: 1e999\nb: !!str 1e999\nc: '1'":                    `{"a":1e999,"b":"1e999","c":"1"}`,
	} {
		got, err := strictjson.FromYAML([]byte(text), 1000)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"a: 1\nb: 2\na: 3":       `line 3: "a" appears more than once, first in line 1`,
		"a: 0777":                "line 1: 0777 is a number that JSON has not",
		"a: [1, 0x1F]":           "0x1F",
		"a: .inf":                ".inf",
		"a: 1\n---\nb: 2":        "more than one document",
		"a: !!binary aGk=":       "!!binary is not known",
		"a: !secret x":           "!secret is not known",
		"{[a]: 1}":               "a key is no text",
		"<<: 1":                  "merges what is no mapping",
		"a: &a [*a]":             "nested deeper than 100 levels",
		"a: &a {<<: *a}":         "merges more than 100 levels",
		"a: 'x":                  "yaml: ", // the library's own words
		strings.Repeat("[", 300): "yaml: ",
		"a: " + strings.Repeat("x", 1001) + "\nb: 1": "line 2: it has more than 1000 bytes",
		"a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c]": "more than 1000 bytes",
	} {
		if got, err := strictjson.FromYAML([]byte(text), 1000); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestYAMLMerges: what merges twice what merges twice is refused before that takes long.
func TestYAMLMerges(t *testing.T) {
	t.Parallel()
	text := "a0: &a0 {x: 1}\n"
	for n := range 60 {
		text += fmt.Sprintf("a%d: &a%d {<<: [*a%d, *a%d]}\n", n+1, n+1, n, n)
	}
	if got, err := strictjson.FromYAML([]byte(text), 1<<20); err == nil || !strings.Contains(err.Error(), "merges more than 10000 mappings") {
		t.Errorf("got %.100s, %v", got, err)
	}
}

// FuzzFromYAML: what is not refused is JSON, and no more of it than may be.
func FuzzFromYAML(f *testing.F) {
	for _, seed := range []string{"a: 1\nb: [x, {y: z}]", "a: &a {x: 1}\nb: {<<: *a}", "? a\n: b", "- !!str 1\n- !!int '1'", "\"\\ud800\"", "a: !!float 1", "!!null a: b", "--- |\n x\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const most = 10_000
		got, err := strictjson.FromYAML(text, most)
		if err == nil && !json.Valid(got) {
			t.Errorf("%q: got %q", text, got)
		}
		if len(got) > max(len(text), most)+8*len(text)+100 {
			t.Errorf("%q: got %d bytes", text, len(got))
		}
	})
}
