package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/shell"
)

const maxFileBytes = 64 << 10

// File is the variables of an env file: lines NAME=value, # comments, blank lines.
// A value is everything behind the first "=", to the end of the line, without single
// quotes around it: there are no escapes and nothing is ever expanded.
type File map[string]string

// ReadFile reads an env file. It refuses one that others may read or write, or that
// belongs to another user: it holds secrets, and says where they are sent. A file that
// is not there is fs.ErrNotExist.
func ReadFile(path string) (File, error) {
	// O_NONBLOCK, so that a FIFO of that name can't hang us.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open settings: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at settings %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read settings %s: it is no regular file", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("read settings %s: its mode is %04o, so others may read or change the secrets in it: chmod 600 %s", path, perm, path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return nil, fmt.Errorf("read settings %s: it belongs to uid %d, not to you: chown it, or remove it", path, st.Uid)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read settings %s: %w", path, err)
	}
	file, err := ParseFile(b)
	if err != nil {
		return nil, fmt.Errorf("read settings %s: %w", path, err)
	}
	return file, nil
}

// ParseFile parses the contents of an env file.
func ParseFile(b []byte) (File, error) {
	if len(b) > maxFileBytes {
		return nil, fmt.Errorf("larger than %d KiB", maxFileBytes>>10)
	}
	file := File{}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if t := strings.TrimSpace(line); t == "" || t[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		switch {
		case !ok || !validName(name):
			return nil, fmt.Errorf("line %d: want NAME=value, NAME of A-Z, 0-9 and _", i+1)
		case !validValue(value):
			return nil, fmt.Errorf("line %d: the value of %s has a control character or is not UTF-8", i+1, name)
		}
		if _, twice := file[name]; twice {
			return nil, fmt.Errorf("line %d: %s appears more than once", i+1, name)
		}
		file[name] = unquoted(value)
	}
	return file, nil
}

// unquoted takes the single quotes off that are around a value, as systemd does.
func unquoted(value string) string {
	if inner, ok := strings.CutPrefix(value, "'"); ok && strings.Index(inner, "'") == len(inner)-1 && inner != "" {
		return inner[:len(inner)-1]
	}
	return value
}

// quoted puts single quotes around a value that a shell, told to read the file, would take for something else. One
// with such quotes in it stays as it is: they would not be taken off again.
func quoted(value string) string {
	if value == "" || strings.Contains(value, "'") {
		return value
	}
	return shell.Quote(value)
}

// Get answers as os.Getenv does: it is a [Getenv].
func (f File) Get(name string) string { return f[name] }

// Write replaces the file at path, mode 0600, in one step: a reader sees the old file
// or the new one. comment goes on top.
func (f File) Write(path, comment string) (err error) {
	var b bytes.Buffer
	for line := range strings.Lines(comment) {
		fmt.Fprintf(&b, "# %s\n", strings.TrimRight(line, "\n"))
	}
	names := make([]string, 0, len(f))
	for name, value := range f {
		if !validName(name) || !validValue(value) || unquoted(value) != value {
			return fmt.Errorf("write settings: %q can't be written to an env file", name)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s=%s\n", name, quoted(f[name]))
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".env-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	defer func() {
		if removeErr := os.Remove(tmp.Name()); err != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}()
	_, err = tmp.Write(b.Bytes())
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

func validName(s string) bool {
	for i, r := range s {
		if (r < 'A' || r > 'Z') && r != '_' && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

func validValue(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
