package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// typed adds lines to the history of python below a directory, and returns what the next repl finds, the newest first.
func typed(t *testing.T, state string, lines ...string) (found []string) {
	t.Helper()
	h, err := openHistory(state, "python")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		h.Add(line)
	}
	if h.err != nil {
		t.Fatal(h.err)
	}
	if h, err = openHistory(state, "python"); err != nil {
		t.Fatal(err)
	}
	for i := range h.Len() {
		found = append(found, h.At(i))
	}
	return found
}

// TestHistory: what was typed is there the next time, without what nobody wants to see again, and for its owner alone.
func TestHistory(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	path := filepath.Join(state, "glovebox", "history-python")
	got := typed(t, state, "x = 1", "", "   ", "x = 1", "    return ü", "\x1b[2Jhidden", "\xff", strings.Repeat("x", historyLine+1), "x = 1")
	if want := []string{"x = 1", "    return ü", "x = 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // to see it mended
		t.Fatal(err)
	}
	if got := typed(t, state, "y"); len(got) != 4 {
		t.Errorf("got %q, want one more", got)
	}
	if is, err := os.Stat(path); err != nil || is.Mode() != 0o600 {
		t.Errorf("got %v, %v, want mode 0600", is, err)
	}
	for _, runtime := range []string{"", "../x", "a/b", ".x", "x\x00"} {
		if _, err := openHistory(state, runtime); err == nil {
			t.Errorf("%q is taken for a runtime", runtime)
		}
	}
	if err := os.Mkdir(filepath.Join(state, "glovebox", "history-node"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openHistory(state, "node"); err == nil {
		t.Error("a directory is taken for a history")
	}
}

// TestHistoryIsBounded: however much is typed, also at two repls at once, the file stays small and has the newest lines of both.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	other, err := openHistory(state, "python")
	if err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(state, "python")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		h.Add(fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000)))
	}
	other.Add("the other's")
	for i := range 100 {
		h.Add(fmt.Sprintf("more %d %s", i, strings.Repeat("x", 1000)))
	}
	is, err := os.Stat(h.path)
	if err != nil || is.Size() > historyBytes+historyLine || h.err != nil || other.err != nil {
		t.Errorf("got %d bytes, %v, %v, %v", is.Size(), err, h.err, other.err)
	}
	got := typed(t, state)
	if len(got) < 100 || !strings.HasPrefix(got[0], "more 99 ") || !slices.Contains(got, "the other's") {
		t.Errorf("got %d lines, %.20q, want the newest", len(got), got)
	}
	entries, err := os.ReadDir(filepath.Dir(h.path))
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want one file", entries, err)
	}
}
