package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
)

// script types lines, and Ctrl-C where it says so.
type script struct {
	lines   []string
	prompts []string
}

func (s *script) ReadLine(_ context.Context, prompt string) (string, bool, error) {
	s.prompts = append(s.prompts, prompt)
	if len(s.lines) == 0 {
		return "", false, io.EOF
	}
	line := s.lines[0]
	s.lines = s.lines[1:]
	pasted := strings.TrimPrefix(line, "pasted:")
	if line == "^C" {
		return "", false, errCleared
	}
	return pasted, pasted != line, nil
}

// TestReplReads: which lines are one piece of code.
func TestReplReads(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		lines  []string
		pieces []string
	}{
		{"a line", []string{"x = 1"}, []string{"x = 1\n"}},
		{"nothing", []string{"", "  "}, []string{"", ""}},
		{"a block until an empty line", []string{"if x:", "    f()", "else:", "    g()", "", "y"}, []string{"if x:\n    f()\nelse:\n    g()\n", "y\n"}},
		{"a decorator", []string{"@cache", "def f(): pass", ""}, []string{"@cache\ndef f(): pass\n"}},
		{"an open bracket", []string{"f(", "1)", ""}, []string{"f(\n1)\n"}},
		{"a text of several lines", []string{`s = """a`, `b"""`, ""}, []string{"s = \"\"\"a\nb\"\"\"\n"}},
		{"a whole text of several lines", []string{`s = """a"""`}, []string{"s = \"\"\"a\"\"\"\n"}},
		{"a template of node", []string{"s = `a", "b`", ""}, []string{"s = `a\nb`\n"}},
		{"what is pasted, with its empty lines", []string{"pasted:a = 1", "pasted:", "pasted:b = 2", ""}, []string{"a = 1\n\nb = 2\n"}},
		{"what is given up", []string{"if x:", "^C", "y"}, []string{"", "y\n"}},
		{"the end in a block", []string{"if x:", "    f()"}, []string{"if x:\n    f()\n"}},
	} {
		s := &script{lines: c.lines}
		r := repl{lines: s, prompt: ">>> "}
		for _, want := range c.pieces {
			if got, err := r.read(t.Context()); err != nil || got != want {
				t.Errorf("%s: got %q, %v, want %q", c.name, got, err, want)
			}
		}
		if got, err := r.read(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %q, %v, want the end", c.name, got, err)
		}
	}
}

// TestKeys: Ctrl-C gives up the line, with what was typed before it at once, and nothing else.
func TestKeys(t *testing.T) {
	t.Parallel()
	k := &keys{from: strings.NewReader("abc\x03x\r")}
	got, err := io.ReadAll(k)
	if err != nil || string(got) != "\x05\x15\rx\r" || !k.cleared {
		t.Errorf("got %q, %v, cleared %v", got, err, k.cleared)
	}
}

// TestKittyPicture: what kitty gets, put together again, is the picture.
func TestKittyPicture(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte{0, 1, 0x1b, '\\'}, 3000)
	var b bytes.Buffer
	if err := kittyPicture(&b, content); err != nil {
		t.Fatal(err)
	}
	var joined string
	chunks := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\x1b\\")
	for i, chunk := range chunks[:len(chunks)-1] {
		head, data, _ := strings.Cut(chunk, ";")
		last := i == len(chunks)-2
		if len(data) > kittyChunk || strings.HasSuffix(head, "m=1") == last || strings.Contains(head, "a=T") != (i == 0) {
			t.Errorf("chunk %d of %d: %q with %d bytes", i, len(chunks)-1, head, len(data))
		}
		joined += data
	}
	if got, err := base64.StdEncoding.DecodeString(joined); err != nil || !bytes.Equal(got, content) {
		t.Errorf("got %d bytes, %v, want %d", len(got), err, len(content))
	}
}
