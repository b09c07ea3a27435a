package dev

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
)

const (
	maxLog   = 16 << 20 // a log beyond this is moved to NAME.log.1
	tailKept = 15
	maxLine  = 16 << 10
)

// logFile keeps what a child prints, and the last lines of it, and tells of the
// important ones. Safe for concurrent use.
type logFile struct {
	path string
	tell func(line string)

	mu      sync.Mutex
	file    *os.File
	size    int64
	partial []byte
	tail    []string
}

func openLog(path string, tell func(line string)) (*logFile, error) {
	l := &logFile{path: path, tell: tell}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open log: %w", err), f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write keeps p. It never fails: a child must not die for a log that can't be written.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxLog {
		l.rotate()
	}
	if l.file != nil {
		n, err := l.file.Write(p)
		l.size += int64(n)
		if err != nil {
			l.lost(err)
		}
	}
	l.partial = append(l.partial, p...)
	for {
		line, rest, ok := bytes.Cut(l.partial, []byte("\n"))
		if !ok && len(l.partial) < maxLine {
			return len(p), nil
		}
		l.line(string(line[:min(len(line), maxLine)]))
		l.partial = slices.Clone(rest)
	}
}

func (l *logFile) line(s string) {
	l.tail = append(l.tail, s)
	if len(l.tail) > tailKept {
		l.tail = l.tail[1:]
	}
	if l.tell != nil {
		l.tell(s)
	}
}

func (l *logFile) rotate() {
	if err := errors.Join(l.file.Close(), os.Rename(l.path, l.path+".1")); err != nil {
		l.lost(err)
	}
	if err := l.open(); err != nil {
		l.file = nil
		l.lost(err)
	}
}

// lost says that the log is not complete, in the only place that is left.
func (l *logFile) lost(err error) {
	l.line("(the log " + l.path + " is not written: " + err.Error() + ")")
}

// last are the last lines, for the message about a child that died.
func (l *logFile) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := make([]string, len(l.tail))
	for i, line := range l.tail {
		if text, ok := important(line); ok {
			line = text
		}
		lines[i] = "  " + printable(line)
	}
	return strings.Join(lines, "\n")
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// levels are those of log/slog that are worth showing, in words.
var levels = map[string]string{"WARN": "warning", "ERROR": "error"}

// important returns a line of log/slog's JSON as a person reads it, if it is worth
// showing: warnings, errors, how jobs ended and webhooks were received.
func important(line string) (string, bool) {
	var entry map[string]any
	if json.Unmarshal([]byte(line), &entry) != nil {
		return line, strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:")
	}
	level, _ := entry["level"].(string)
	message, _ := entry["msg"].(string)
	_, ofJob := entry["job_id"]
	status, ended := entry["status"]
	if state, ok := entry["state"]; ok && level == "INFO" && ofJob && entry["delivery_id"] != nil {
		return fmt.Sprintf("%s webhook %v (attempt %v, %v answered %v)", entry["job_id"], state, entry["attempt"], entry["endpoint"], status), true
	}
	if level == "INFO" && ofJob && ended {
		return fmt.Sprintf("%s %v", entry["job_id"], status), true
	}
	if levels[level] == "" {
		return "", false
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", levels[level], message)
	for _, name := range []string{"job_id", "delivery_id", "error"} {
		if v, ok := entry[name]; ok {
			fmt.Fprintf(&b, " %s=%v", name, v)
		}
	}
	return b.String(), true
}
