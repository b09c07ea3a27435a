package dev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImportant(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"level":"INFO","msg":"request","path":"/"}`:                                                                   "",
		`{"level":"INFO","msg":"job ended","job_id":"default-a","status":"failed"}`:                                     "default-a failed",
		`{"level":"WARN","msg":"slow","job_id":"default-a","error":"e"}`:                                                "warning: slow job_id=default-a error=e",
		`{"level":"ERROR","msg":"gone"}`:                                                                                "error: gone",
		`{"level":"INFO","job_id":"j","delivery_id":"d","state":"delivered","status":204,"attempt":1,"endpoint":"h:1"}`: "j webhook delivered (attempt 1, h:1 answered 204)",
		"1:M 20 Nov 2026 * Ready to accept connections":                                                                 "",
		"panic: oh no": "panic: oh no",
	} {
		got, ok := important(line)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %q, %t, want %q", line, got, ok, want)
		}
	}
}

func TestLogFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.log")
	var told []string
	l, err := openLog(path, func(line string) { told = append(told, line) })
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"a", "b\nc\nd", "\n", strings.Repeat("x", maxLine+1), "\n"} {
		if n, err := l.Write([]byte(p)); n != len(p) || err != nil {
			t.Errorf("Write: got %d, %v", n, err)
		}
	}
	if got := strings.Join(told[:3], ","); got != "ab,c,d" {
		t.Errorf("got %q, want ab,c,d", got)
	}
	if len(told[3]) != maxLine {
		t.Errorf("a line of %d bytes: told %d, want %d", maxLine+1, len(told[3]), maxLine)
	}
	if !strings.HasPrefix(l.last(), "  ab\n  c\n  d\n") {
		t.Errorf("got %.40q", l.last())
	}
	// It doesn't grow without end.
	for range 3*maxLog>>20 + 1 {
		if _, err := l.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".1"} {
		if info, err := os.Stat(name); err != nil || info.Size() > maxLog+2<<20 {
			t.Errorf("%s: got %v, %v, want at most %d bytes", name, info, err, maxLog)
		}
	}
}
