package tools

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// glovebox is one that was made up.
type glovebox struct {
	Glovebox

	stream  string // what Open opens; "" for nothing
	session job.Session
	job     producer.Job
	events  func(ctx context.Context, yield func(producer.Event, error) bool)
}

func (g glovebox) Open(context.Context, string, string) (*producer.Download, error) {
	if g.stream == "" {
		return nil, job.ErrNotFound
	}
	return &producer.Download{ReadCloser: io.NopCloser(strings.NewReader(g.stream)), Size: int64(len(g.stream))}, nil
}

func (g glovebox) Session(context.Context, string) (job.Session, error) { return g.session, nil }

func (g glovebox) Get(context.Context, string) (producer.Job, error) { return g.job, nil }

func (g glovebox) Runtimes(context.Context) ([]producer.Runtime, error) {
	return []producer.Runtime{{Name: "bash"}, {Name: "python", Aliases: []string{"py"}}, {Name: "multi", Languages: []string{"python", "node"}}}, nil
}

func (g glovebox) Watch(ctx context.Context, _, _ string) iter.Seq2[producer.Event, error] {
	return func(yield func(producer.Event, error) bool) { g.events(ctx, yield) }
}

// TestLongStream: of a stream that a result has the beginning of alone, a model reads the end.
func TestLongStream(t *testing.T) {
	t.Parallel()
	whole := "é" + strings.Repeat("w", 200_000) + "éValueError: no\n"
	head := whole[:job.InlineOutput]
	read := Caller{Glovebox: glovebox{stream: whole}}.stream(t.Context(), "x", producer.Stderr, head, "there", 100)
	if want := fmt.Sprintf("%s\n… %d bytes are left out here …\n%s", whole[:50], len(whole)-100, whole[len(whole)-50:]); read != want {
		t.Errorf("got %q, want %q", read, want)
	}
	var reported error
	lost := Caller{Glovebox: glovebox{}, Report: func(err error) { reported = err }}.stream(t.Context(), "x", producer.Stderr, head, "there", 100)
	if want := whole[:100] + "\n… what follows could not be read …\n"; lost != want || reported == nil {
		t.Errorf("got %q and %v, want %q and why", lost, reported, want)
	}
	if got := (Caller{}).stream(t.Context(), "x", producer.Stdout, "a\uFFFDb", "there", 100); got != "a\uFFFDb" {
		t.Errorf("a short one that is no text: got %q", got)
	}
}

// TestProgressIsTheLastLine: a line that comes too soon to be told is told later, unless another comes.
func TestProgressIsTheLastLine(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	printed := func(ctx context.Context, yield func(producer.Event, error) bool) {
		for _, line := range []string{"one", "two", "", "three"} {
			yield(producer.Event{Type: producer.EventStdout, Data: []byte(line + "\n")}, nil)
		}
		<-ctx.Done()
	}
	var told []string
	c := Caller{Glovebox: glovebox{events: printed}, Progress: func(line string) {
		if told = append(told, line); line == "three" {
			stop()
		}
	}}
	c.tell(ctx, "x")
	if !slices.Contains(told, "three") || len(told) > 2 {
		t.Errorf("got %q, want the first and the last, or the last alone", told)
	}
}

// TestExecutes: a session keeps its language.
func TestExecutes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		session, language string
		ok                bool
	}{
		{"python", "python", true},
		{"python", "py", true},
		{"py", "python", true},
		{"multi", "python", true},
		{"multi", "node", false},
		{"python", "bash", false},
		{"gone", "gone", true},
		{"gone", "python", false},
	} {
		err := Caller{Glovebox: glovebox{session: job.Session{Runtime: c.session}}}.executes(t.Context(), "x", c.language)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "this session executes "+c.session) {
			t.Errorf("%s in a session of %s: got %v", c.language, c.session, err)
		}
	}
}

// TestGetExecution: of an execution that lasted longer than its call, get_job says what became of the session.
func TestGetExecution(t *testing.T) {
	t.Parallel()
	r := &job.Result{ID: "x", Status: job.TimedOut, Session: &job.ExecutionState{ID: "s", State: job.StateLost}}
	c := Caller{Glovebox: glovebox{job: producer.Job{Summary: job.Summary{ID: "x", Status: job.TimedOut}, Result: r}}}
	a, err := getJob().Call(t.Context(), c, []byte(`{"job_id":"x"}`))
	if err != nil || a.SessionID != "s" || a.Outcome.SessionID != "s" || a.Outcome.State != job.StateLost || !strings.Contains(a.Content[0].Text, "variables are lost") {
		t.Errorf("got %+v, %+v, %v", a, a.Outcome, err)
	}
}

// TestEmptyFile: a text without anything in it is none that every host takes.
func TestEmptyFile(t *testing.T) {
	t.Parallel()
	content, err := Caller{}.fileContent(t.Context(), "x", job.Artifact{Name: "a.txt"})
	if err != nil || len(content) != 1 || content[0].Text != "a.txt is empty.\n" {
		t.Errorf("got %+v, %v", content, err)
	}
}
