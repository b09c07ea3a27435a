package piston

import (
	"context"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// told is what a client was sent of its program.
type told struct {
	*talk

	compiles bool // there is a compile step
	began    bool
	compiled bool // the end of the compile step was told
	staged   bool // and the stage run
	sent     map[string]int64
	held     string // what stderr ends with that may be Glovebox's word, which is not Piston's
}

// event sends what has happened, and reports whether that was the last.
func (d *told) event(e producer.Event) (over bool, err error) {
	switch e.Type {
	case "":
		ctx, cancel := context.WithTimeout(d.connected, writeTime)
		defer cancel()
		return false, d.socket.Ping(ctx)
	case producer.EventStatus:
		if e.Status == job.Running && !d.began {
			d.began = true
			close(d.running)
			return false, d.begin()
		}
	case producer.EventCompiled:
		if e.Compile.ExitCode != 0 { // the result is next, and has all that the compiler said
			return false, nil
		}
		return false, d.compile(e.Compile)
	case producer.EventStdout, producer.EventStderr:
		return false, d.output(string(e.Type), e.Offset, string(e.Data))
	case producer.EventResult:
		return true, d.end(*e.Job.Result)
	case producer.EventArtifact, producer.EventDisplay, producer.EventGap:
	}
	return false, nil
}

// begin tells the first stage.
func (d *told) begin() error {
	if d.compiles {
		return d.write(message{Type: "stage", Stage: "compile"})
	}
	return d.run()
}

// run tells the last stage, once.
func (d *told) run() error {
	if d.staged {
		return nil
	}
	d.staged = true
	return d.write(message{Type: "stage", Stage: "run"})
}

// compile tells what the compile step came to, once: a program whose worker was lost is compiled again.
func (d *told) compile(c job.Compile) error {
	if d.compiled || !d.compiles {
		return nil
	}
	d.compiled = true
	r := job.Result{Status: job.Succeeded, Compile: &c}
	if c.ExitCode != 0 {
		r.Status = job.CompileFailed
	}
	s := compileStage(r)
	if len(s.stderr) > 0 {
		if err := d.write(message{Type: "data", Stream: producer.Stderr, Data: facade.Valid(s.stderr)}); err != nil {
			return err
		}
	}
	if err := d.write(message{Type: "exit", Stage: "compile", Exit: &ending{s.code, s.signal}}); err != nil || c.ExitCode != 0 {
		return err
	}
	return d.run()
}

// output tells what the program has printed, from an offset on. What was told before, the program has printed again: its worker
// was lost, and another one has sent it the same input.
func (d *told) output(stream string, offset int64, text string) error {
	if stream == producer.Stderr {
		if offset == d.sent[stream]+int64(len(d.held)) {
			text, offset = d.held+text, d.sent[stream]
		}
		d.held = ""
		if before, ok := strings.CutSuffix(text, facade.TimeUp); ok {
			text, d.held = before, facade.TimeUp
		}
	}
	if known := d.sent[stream] - offset; known > 0 {
		text = text[min(known, int64(len(text))):]
		offset += known
	}
	if text == "" {
		return nil
	}
	d.sent[stream] = offset + int64(len(text))
	if err := d.run(); err != nil {
		return err
	}
	return d.write(message{Type: "data", Stream: stream, Data: facade.Valid([]byte(text))})
}

// end tells what is left to tell, and how it ended.
func (d *told) end(r job.Result) error {
	switch r.Status {
	case job.Canceled:
		return facade.BadRequest("the program was canceled")
	case job.InternalError:
		return facade.BadRequest("Glovebox could not run the program")
	}
	if r.Compile != nil {
		if err := d.compile(*r.Compile); err != nil || r.Status == job.CompileFailed {
			return err
		}
	}
	for _, left := range []struct{ stream, text, url string }{{producer.Stdout, r.Stdout, r.StdoutURL}, {producer.Stderr, r.Stderr, r.StderrURL}} {
		if left.url != "" { // the text is not all, or other bytes than those that were told
			continue
		}
		if err := d.output(left.stream, 0, left.text); err != nil {
			return err
		}
	}
	if d.held != "" && r.Status != job.TimedOut { // the program's own word
		if err := d.write(message{Type: "data", Stream: producer.Stderr, Data: d.held}); err != nil {
			return err
		}
	}
	if err := d.run(); err != nil {
		return err
	}
	s := runStage(r, false)
	return d.write(message{Type: "exit", Stage: "run", Exit: &ending{s.code, s.signal}})
}
