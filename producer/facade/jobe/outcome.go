package jobe

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// What a run comes to, as Jobe numbers it. 19, an illegal system call, is not told from other signals.
const (
	compileError  = 11
	runtimeError  = 12
	timeLimit     = 13
	success       = 15
	memoryLimit   = 17
	internalError = 20
	overload      = 21
)

// outcome is the answer to a run.
type outcome struct {
	RunID          string
	Outcome        int
	CmpInfo        string
	Stdout, Stderr []byte
}

// write answers it.
func (o outcome) write(w http.ResponseWriter) {
	facade.WriteObject(w, http.StatusOK, func(to *facade.Object) {
		to.Field("run_id", o.RunID)
		to.Field("outcome", o.Outcome)
		to.Field("cmpinfo", o.CmpInfo)
		to.Text("stdout", escaper(o.Stdout), o.Stdout)
		to.Text("stderr", escaper(o.Stderr), o.Stderr)
	})
}

// overloaded is the answer where no place was free.
func overloaded() outcome { return outcome{RunID: "0", Outcome: overload} }

// saysTimeLimit is what a program prints that itself ran another out of time.
var saysTimeLimit = regexp.MustCompile(`time ?limit exceeded`)

// answer says what a run came to, by Jobe's rules: anything on stderr is a runtime error, and an exit code alone
// is none.
func answer(ctx context.Context, c *facade.Call, l language, r job.Result) (outcome, error) {
	o := outcome{RunID: r.ID, Outcome: success}
	if r.Status == job.CompileFailed {
		o.Outcome, o.CmpInfo = compileError, escape([]byte(facade.CompileOutput(r)))
		if o.CmpInfo == "" { // it passed a limit
			o.CmpInfo = "The compiler was stopped: it took too long, or too much memory"
		}
		return o, nil
	}
	var err error
	if o.Stdout, err = c.Bytes(ctx, r, producer.Stdout); err != nil {
		return o, err
	}
	if o.Stderr, err = c.Bytes(ctx, r, producer.Stderr); err != nil {
		return o, err
	}
	if l.isTidied() {
		if err := c.HoldFor(ctx, r, producer.Stderr, tidyWeight*int64(len(o.Stderr))); err != nil {
			return o, err
		}
	}
	o.Stderr = l.tidy(o.Stderr)
	switch r.Status {
	case job.Canceled, job.InternalError:
		o.Outcome = internalError
		return o, nil
	case job.TimedOut:
		o.Outcome, o.Stderr = timeLimit, nil
		return o, nil
	case job.OutOfMemory:
		if r.Signal == "SIGKILL" { // else its language told it, as where address space is bounded
			o.Outcome = memoryLimit
			return o, nil
		}
	}
	switch {
	case r.Signal == "SIGSEGV":
		o.Outcome, o.Stderr = runtimeError, nil
		return o, nil
	case r.Signal != "":
		o.Stderr = fmt.Appendf(o.Stderr, "warning: command terminated with signal %d\n", facade.SignalNumber(r.Signal))
	}
	if r.Error != nil && r.ExitCode == nil { // nothing ran
		o.Stderr = append(o.Stderr, r.Error.Message...)
	}
	switch {
	case saysTimeLimit.Match(o.Stderr):
		o.Outcome, o.Stderr = timeLimit, nil
	case len(o.Stderr) > 0, r.Status == job.OutOfMemory:
		o.Outcome = runtimeError
	}
	return o, nil
}

// octavesOwn are messages that mean nothing, which Octave prints as it ends.
var octavesOwn = regexp.MustCompile(`(?:\s*error: (?:No such file or directory|ignoring octave_execution_exception[^\n]*))*\s*$`)

// isTidied reports whether tidy makes another text.
func (l language) isTidied() bool { return l.id == "java" || l.id == "octave" }

// tidyWeight is how many times its size a text takes that tidy makes: two bytes become nine.
const tidyWeight = 5

// tidy takes from stderr what a language has on it without reason, as Jobe does.
func (l language) tidy(stderr []byte) []byte {
	switch l.id {
	case "java":
		return bytes.ReplaceAll(stderr, []byte("\n\t"), []byte("\n        "))
	case "octave":
		plain := bytes.ReplaceAll(stderr, []byte("\r"), nil)
		if end := octavesOwn.FindIndex(plain); end != nil {
			plain = plain[:end[0]]
		}
		return plain
	}
	return stderr
}

// escape is text as it is. Of other bytes, those that are not printable ASCII become \xNN each.
func escape(b []byte) string { return escaper(b)(b) }

// escaper escapes pieces of b as escape does the whole.
func escaper(b []byte) func(piece []byte) string {
	if utf8.Valid(b) {
		return func(piece []byte) string { return string(piece) }
	}
	return escapeBytes
}

func escapeBytes(b []byte) string {
	size := 0
	for _, c := range b {
		if size++; !plain(c) {
			size += len(`xff`)
		}
	}
	const hex = "0123456789abcdef"
	var s strings.Builder
	s.Grow(size)
	for _, c := range b {
		if plain(c) {
			s.WriteByte(c)
		} else {
			s.Write([]byte{'\\', 'x', hex[c>>4], hex[c&15]})
		}
	}
	return s.String()
}

// plain reports whether a byte is as it is in what is escaped.
func plain(c byte) bool { return c >= ' ' && c <= '~' || c == '\n' || c == '\r' || c == '\t' }
