package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// historyBytes is how large a history's file may become. Beyond that, its older half goes.
	historyBytes = 256 << 10
	// historyLine bounds a line that is kept, bytes: what is longer was pasted.
	historyLine = 4 << 10
)

// history is what was typed at repls of one runtime before, in a file that nobody but its owner reads. It is the history of
// a term.Terminal.
type history struct {
	path  string
	lines []string // the newest last
	size  int64    // of the file
	err   error    // why a line was not kept, the first time
}

// historyOf is what follows history- in a file's name: the name of a runtime, as an API says it.
var historyOf = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// openHistory reads the history of a runtime below the directory for such things ($XDG_STATE_HOME).
func openHistory(state, runtime string) (*history, error) {
	if !historyOf.MatchString(runtime) {
		return nil, fmt.Errorf("open history: %.80q is no name of a runtime", runtime)
	}
	h := &history{path: filepath.Join(state, "glovebox", "history-"+runtime)}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	is, err := os.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h, nil
	case err == nil && !is.Mode().IsRegular():
		err = fmt.Errorf("%s is no file", h.path)
	case err == nil:
		err = errors.Join(os.Chmod(h.path, 0o600), h.read())
	}
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	return h, nil
}

// read reads the end of the file.
func (h *history) read() error {
	f, err := os.Open(h.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if h.size, err = f.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	from := max(h.size-historyBytes, 0)
	b, err := io.ReadAll(io.NewSectionReader(f, from, historyBytes))
	if err != nil {
		return err
	}
	text := string(b)
	if from > 0 { // in the midst of a line
		_, text, _ = strings.Cut(text, "\n")
	}
	h.lines = nil
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); remembered(line) {
			h.lines = append(h.lines, line)
		}
	}
	return nil
}

// remembered reports whether a line is kept. One that moves the cursor would, when it is shown again, be another than it looks.
func remembered(line string) bool {
	control := func(r rune) bool { return !unicode.IsPrint(r) }
	return strings.TrimSpace(line) != "" && len(line) <= historyLine && utf8.ValidString(line) && !strings.ContainsFunc(line, control)
}

// Add is of term.History.
func (h *history) Add(line string) {
	if !remembered(line) || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if err := h.write(line + "\n"); err != nil && h.err == nil {
		h.err = fmt.Errorf("keep history: %w", err)
	}
}

// write appends to the file at once: other terminals may append to it, too, and this process may be killed.
func (h *history) write(line string) error {
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if h.size += int64(len(line)); h.size > historyBytes {
		return h.shorten()
	}
	return nil
}

// shorten writes the file anew with its newer half.
func (h *history) shorten() error {
	if err := h.read(); err != nil {
		return err
	}
	var text strings.Builder
	from, size := len(h.lines), 0
	for from > 0 && size+len(h.lines[from-1])+1 <= historyBytes/2 {
		from--
		size += len(h.lines[from]) + 1
	}
	h.lines = h.lines[from:]
	for _, line := range h.lines {
		text.WriteString(line + "\n")
	}
	f, err := os.CreateTemp(filepath.Dir(h.path), "history-*") // which nobody else may read
	if err != nil {
		return err
	}
	_, err = f.WriteString(text.String())
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), h.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	h.size = int64(size)
	return nil
}

// Len is of term.History.
func (h *history) Len() int { return len(h.lines) }

// At is of term.History: 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// stateDir is where programs keep what is to be there the next time.
func (a *app) stateDir() (string, error) {
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir, nil
	}
	home := a.getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("open history: neither XDG_STATE_HOME nor HOME says where")
	}
	return filepath.Join(home, ".local", "state"), nil
}
