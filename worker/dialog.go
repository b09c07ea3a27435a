package worker

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/grading"
	"github.com/glovebox-run/glovebox/job"
)

// dialog is what a program and an interactor say to each other in one test. Each is in a sandbox of its own, and what one prints is
// passed on to the other here, as it comes.
type dialog struct {
	toProgram, toInteractor *line
	// over is closed when the interactor has ended, or its sandbox.
	over  chan struct{}
	files []io.Closer // what the interactor reads
	more  int         // how many passes may follow

	mu      sync.Mutex
	text    []byte // the beginning, as [job.TestResult.Interaction]
	speaker byte   // of the last line of text
}

func newDialog() *dialog {
	return &dialog{toProgram: newLine(), toInteractor: newLine(), over: make(chan struct{})}
}

func (d *dialog) programSays(p []byte) {
	d.note('>', p)
	d.toInteractor.write(p)
}

func (d *dialog) interactorSays(p []byte) {
	d.note('<', p)
	d.toProgram.write(p)
}

// interactorEnded lets the program go on alone, or ends it where nothing that it does makes the test accepted any more.
func (d *dialog) interactorEnded(accepted bool) {
	if accepted {
		d.toProgram.end()
	} else {
		d.toProgram.kill()
	}
	close(d.over)
}

// note keeps the beginning of what is said.
func (d *dialog) note(speaker byte, p []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.text) > job.ShownOutput {
		return
	}
	if n := len(d.text); n > 0 && d.text[n-1] != '\n' && d.speaker != speaker {
		d.text = append(d.text, '\n')
	}
	d.speaker = speaker
	for _, part := range bytes.SplitAfter(p[:min(len(p), job.ShownOutput)], []byte("\n")) {
		if n := len(d.text); len(part) > 0 && (n == 0 || d.text[n-1] == '\n') {
			d.text = append(d.text, speaker, ' ')
		}
		d.text = append(d.text, part...)
	}
}

func (d *dialog) transcript() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.text)
}

// close closes what the interactor was to read. It reads no more.
func (d *dialog) close() {
	if d == nil {
		return
	}
	for _, f := range d.files {
		_ = f.Close() // the sandbox may have closed it
	}
}

// line is one direction of a dialog, and the [sandbox.Input] of the side that listens. It holds what was said until the sandbox takes
// it, which the limits on the output of the side that speaks bound.
type line struct {
	mu     sync.Mutex
	said   []byte
	ended  bool
	killed bool
	more   chan struct{}
}

func newLine() *line { return &line{more: make(chan struct{}, 1)} }

func (l *line) write(p []byte) { l.change(func() { l.said = append(l.said, p...) }) }

// end closes the listener's standard input, behind what was said.
func (l *line) end() { l.change(func() { l.ended = true }) }

// kill ends the listener.
func (l *line) kill() { l.change(func() { l.killed = true }) }

func (l *line) change(as func()) {
	l.mu.Lock()
	as()
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// Next is [sandbox.Input.Next]: each piece is given once.
func (l *line) Next(ctx context.Context, _ int) ([]job.Input, error) {
	for {
		if in := l.take(); in != (job.Input{}) {
			return []job.Input{in}, nil
		}
		select {
		case <-l.more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take takes a piece of what was said, which is copied on its way. An end comes with the last.
func (l *line) take() job.Input {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.said), job.MaxInputBytes)
	in := job.Input{Data: string(l.said[:n])}
	if l.said = l.said[n:]; len(l.said) > 0 {
		return in
	}
	in.EOF = l.ended
	if l.killed {
		in.Signal = "SIGKILL"
	}
	l.said, l.ended, l.killed = nil, false, false
	return in
}

// lastWord is how long an interactor has to end by itself after a program that failed, before it hears of that end. A program that says
// something wrong and then crashes gives a wrong answer, whichever end is seen first.
const lastWord = time.Second

// talk begins a dialog on a test: the interactor gets the test's data, and the program is to be started. A ruling says that
// there can be none.
func (c *checkerProgram) talk(ctx context.Context, t toCheck, files ...io.Closer) (*dialog, *grading.Ruling, error) {
	d := newDialog()
	d.files, d.more = files, t.more
	t.output = content{strings.NewReader(""), 0}
	ruling, err := c.give(ctx, t, d)
	if err != nil || ruling != nil {
		d.close()
		return nil, ruling, err
	}
	return d, nil, nil
}

// hear returns what the dialog comes to, once the program has ended; program is the verdict that this alone leads to, or "".
func (c *checkerProgram) hear(ctx context.Context, d *dialog, program job.Verdict) (grading.Ruling, error) {
	first := false
	if program != "" {
		patience := time.NewTimer(lastWord)
		defer patience.Stop()
		select {
		case <-d.over:
			first = true
		case <-patience.C:
		case <-ctx.Done():
		}
	}
	d.toInteractor.end()
	o, ended, err := c.outcome(ctx)
	d.close()
	switch {
	case err != nil:
		return grading.Ruling{}, err
	case ended != nil:
		return grading.RuleDialog(program, *ended, first), nil
	}
	return c.doubted(grading.RuleDialog(program, c.rule(o, d.more), first)), nil // that it fails as it is ended says nothing of it
}

// abandon ends a dialog whose program has gone, or is to be run once more. That the interactor fails then says nothing of it.
func (c *checkerProgram) abandon(ctx context.Context, d *dialog) error {
	d.toInteractor.kill()
	_, _, err := c.outcome(ctx)
	d.close()
	return err
}
