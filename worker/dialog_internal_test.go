package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestLine: what one side says reaches the other once, in order, its end behind it; one that is killed hears what was said before.
func TestLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*job.MaxInputBytes+1)
	for _, tt := range []struct {
		name string
		does func(*line)
		want []job.Input
	}{
		{"said", func(l *line) { l.write([]byte("a\n")) }, []job.Input{{Data: "a\n"}}},
		{"pieces become one", func(l *line) { l.write([]byte("a")); l.write([]byte("\xff\x00")) }, []job.Input{{Data: "a\xff\x00"}}},
		{"an end", func(l *line) { l.end() }, []job.Input{{EOF: true}}},
		{"an end behind the rest", func(l *line) { l.write([]byte("a")); l.end() }, []job.Input{{Data: "a", EOF: true}}},
		{"a lot, and an end", func(l *line) { l.write([]byte(long)); l.end() }, []job.Input{{Data: long, EOF: true}}},
		{"a lot, and killed", func(l *line) { l.write([]byte(long)); l.kill() }, []job.Input{{Data: long, Signal: "SIGKILL"}}},
		{"killed", func(l *line) { l.write([]byte("a")); l.kill() }, []job.Input{{Data: "a", Signal: "SIGKILL"}}},
		{"ended, and killed", func(l *line) { l.end(); l.kill() }, []job.Input{{EOF: true, Signal: "SIGKILL"}}},
		{"nothing", func(l *line) { l.write(nil) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // it fails if a goroutine is left
				l := newLine()
				ctx, cancel := context.WithCancelCause(t.Context())
				var got []job.Input
				done := make(chan error)
				go func() {
					for {
						list, err := l.Next(ctx, len(got))
						got = append(got, list...)
						if err != nil {
							done <- err
							return
						}
					}
				}()
				tt.does(l)
				synctest.Wait()
				over := errors.New("over")
				cancel(over)
				if err := <-done; !errors.Is(err, over) {
					t.Errorf("got %v", err)
				}
				all := job.Input{}
				for _, in := range got { // the reader may be quicker than the next piece
					if len(in.Data) > job.MaxInputBytes || all.EOF || all.Signal != "" && in.Data != "" {
						t.Errorf("got %d bytes in one piece, or behind the end", len(in.Data))
					}
					all = job.Input{Data: all.Data + in.Data, EOF: all.EOF || in.EOF, Signal: all.Signal + in.Signal}
				}
				var want job.Input
				if len(tt.want) > 0 {
					want = tt.want[0]
				}
				if d := cmp.Diff(want, all); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// TestHalfClose: each direction of a dialog ends by itself.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	d := newDialog()
	d.programSays([]byte("last\n"))
	d.toInteractor.end() // the program has ended
	d.interactorSays([]byte("well\n"))
	if got := d.toInteractor.take(); got != (job.Input{Data: "last\n", EOF: true}) {
		t.Errorf("the interactor gets %+v", got)
	}
	if got := d.toProgram.take(); got != (job.Input{Data: "well\n"}) {
		t.Errorf("the program gets %+v", got)
	}
	d.interactorEnded(true)
	d.programSays([]byte("more\n")) // it goes on, and nobody hears it
	if got := d.toProgram.take(); got != (job.Input{EOF: true}) {
		t.Errorf("the program gets %+v, want an end", got)
	}
	select {
	case <-d.over:
	default:
		t.Error("the dialog is not over")
	}
	rejected := newDialog()
	rejected.interactorEnded(false)
	if got := rejected.toProgram.take(); got != (job.Input{Signal: "SIGKILL"}) {
		t.Errorf("a program that was rejected gets %+v", got)
	}
}

// untilEnd is a sandbox of interactors that fail once they hear of an end, or are killed.
type untilEnd struct{ Sandboxes }

func (untilEnd) Run(ctx context.Context, p sandbox.Program, _ sandbox.Sink) (sandbox.Outcome, error) {
	for {
		test, _, err := p.Tests.Next(ctx)
		if err != nil {
			return sandbox.Outcome{}, err
		}
		if _, err := test.Input.Next(ctx, 0); err != nil {
			return sandbox.Outcome{}, err
		}
		if err := p.Tests.Ended(ctx, sandbox.TestOutcome{Status: job.Failed, ExitCode: 137, Signal: "SIGKILL"}); err != nil {
			return sandbox.Outcome{}, err
		}
	}
}

// TestAbandon: an interactor that is ended as its program is run once more, or that fails only as the program ends, keeps what its compile step made, and its sandbox.
// One that fails by itself doesn't.
func TestAbandon(t *testing.T) {
	t.Parallel()
	w := &Worker{Config: Config{Sandboxes: untilEnd{}, Log: slog.New(slog.DiscardHandler), Metrics: metrics.NewWorker(prometheus.NewRegistry(), nil)}}
	c := &checkerProgram{worker: w, kind: job.CheckKattis, key: compiledKey{1}, program: sandbox.Program{Compile: []string{"c++"}, Interactive: true}}
	begun := 0
	c.begin = func() *checkerSandbox { begun++; return c.start(t.Context()) }
	defer c.close()
	w.compiled.put(c.key, []byte("tar"))
	kept := func() string {
		tar, _ := w.compiled.get(c.key, false)
		return string(tar)
	}
	talk := func() *dialog {
		d, ruling, err := c.talk(t.Context(), toCheck{})
		if err != nil || ruling != nil {
			t.Fatalf("got %+v, %v, want a dialog", ruling, err)
		}
		return d
	}
	for range 2 {
		if err := c.abandon(t.Context(), talk()); err != nil || kept() != "tar" || begun != 1 || c.lost > 0 {
			t.Fatalf("got %v, %q is kept, %d sandboxes were begun, %d lost", err, kept(), begun, c.lost)
		}
	}
	if r, err := c.hear(t.Context(), talk(), job.TestTimedOut); err != nil || r.Verdict != job.TestTimedOut || kept() != "tar" || begun != 1 {
		t.Errorf("one whose program waits for ever: got %+v, %v, %q is kept, %d sandboxes were begun", r, err, kept(), begun)
	}
	if r, err := c.hear(t.Context(), talk(), ""); err != nil || r.Verdict != job.JudgeError || kept() != "" {
		t.Errorf("one that fails: got %+v, %v, %q is kept", r, err, kept())
	}
}

// hangs is a sandbox of an interactor that is given up once the program has ended.
type hangs struct{ Sandboxes }

func (hangs) Run(ctx context.Context, p sandbox.Program, _ sandbox.Sink) (sandbox.Outcome, error) {
	test, _, err := p.Tests.Next(ctx)
	if err == nil {
		_, err = test.Input.Next(ctx, 0)
	}
	return sandbox.Outcome{Status: job.TimedOut, ExitCode: job.TimedOutExitCode, Lost: true}, err
}

// TestInteractorHangs: a program that waits for an interactor whose sandbox hangs has not timed out.
func TestInteractorHangs(t *testing.T) {
	t.Parallel()
	c := &checkerProgram{worker: &Worker{Config: Config{Sandboxes: hangs{}}}, kind: job.CheckKattis}
	c.begin = func() *checkerSandbox { return c.start(t.Context()) }
	defer c.close()
	d, ruling, err := c.talk(t.Context(), toCheck{})
	if err != nil || ruling != nil {
		t.Fatalf("got %+v, %v, want a dialog", ruling, err)
	}
	if r, err := c.hear(t.Context(), d, job.TestTimedOut); err != nil || r.Verdict != job.JudgeError {
		t.Errorf("got %+v, %v, want a judge's error", r, err)
	}
}

// hostile is a sandbox of an interactor whose report nobody has thought of.
type hostile struct{ Sandboxes }

func (hostile) Run(ctx context.Context, p sandbox.Program, _ sandbox.Sink) (sandbox.Outcome, error) {
	_, _, _ = p.Tests.Next(ctx)
	panic("index out of range")
}

// TestJudgingPanics: a panic while an interactor's end is judged is an error of the job, and the worker goes on.
func TestJudgingPanics(t *testing.T) {
	t.Parallel()
	c := &checkerProgram{worker: &Worker{Config: Config{Sandboxes: hostile{}}}, kind: job.CheckKattis}
	c.begin = func() *checkerSandbox { return c.start(t.Context()) }
	d, ruling, err := c.talk(t.Context(), toCheck{})
	if err != nil || ruling != nil {
		t.Fatalf("got %+v, %v, want a dialog", ruling, err)
	}
	if _, err := c.hear(t.Context(), d, ""); err == nil || !strings.Contains(err.Error(), "panic: index out of range") {
		t.Errorf("got %v, want the panic", err)
	}
	if got := d.toProgram.take(); got != (job.Input{Signal: "SIGKILL"}) {
		t.Errorf("the program gets %+v, want its end", got)
	}
}

// TestTranscript: who said what, in lines, and no more than is shown.
func TestTranscript(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		said []string // by the program where it begins with >
		want string
	}{
		{"nothing", nil, ""},
		{"lines", []string{"<5\n", ">1\n", "<6\n"}, "< 5\n> 1\n< 6\n"},
		{"lines in pieces", []string{"<5", "<5\n6", "<\n", ">1"}, "< 55\n< 6\n> 1"},
		{"no line's end before the answer", []string{">1", "<5\n", ">2"}, "> 1\n< 5\n> 2"},
		{"empty lines", []string{">\n\n", "<\n"}, "> \n> \n< \n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDialog()
			for _, s := range tt.said {
				if s[0] == '>' {
					d.programSays([]byte(s[1:]))
				} else {
					d.interactorSays([]byte(s[1:]))
				}
			}
			if got := d.transcript(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	d := newDialog()
	for range 100 {
		d.programSays([]byte(strings.Repeat("\n", 10_000)))
	}
	if n := len(d.transcript()); n <= job.ShownOutput || n > 8*job.ShownOutput {
		t.Errorf("a long dialog keeps %d bytes", n)
	}
	var none *dialog
	if none.close(); none.transcript() != "" {
		t.Error("no dialog says something")
	}
}
