package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// command is a glovebox that runs, in this process.
type command struct {
	stdout, stderr gbtest.Buffer
	code           chan int
}

// played is an API whose worker a test plays.
type played struct {
	*producertest.Env
	settings config.File
}

func newPlayed(t *testing.T) *played {
	t.Helper()
	w := producertest.New(t, "")
	w.Runtimes(t)
	handler, err := api.New(api.Config{Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken("token"): "default"}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return &played{w, config.File{"GLOVEBOX_URL": srv.URL, "GLOVEBOX_TOKEN": "token", "GLOVEBOX_DATA": t.TempDir()}}
}

// run starts a glovebox that reads stdin, and is told to end when ctx does.
func (p *played) run(ctx context.Context, stdin string, args ...string) *command {
	c := &command{code: make(chan int, 1)}
	a := &app{stdin: strings.NewReader(stdin), stdout: &c.stdout, stderr: &c.stderr, getenv: p.settings.Get}
	go func() { c.code <- a.run(ctx, args) }()
	return c
}

// awaitPrinted waits for words in what was printed.
func awaitPrinted(t *testing.T, b *gbtest.Buffer, words string) {
	t.Helper()
	gbtest.Eventually(t, words+" is printed", func() bool { return strings.Contains(b.String(), words) })
}

// ends waits for the command's end.
func (c *command) ends(t *testing.T, code int, stdout string) {
	t.Helper()
	select {
	case got := <-c.code:
		if got != code || c.stdout.String() != stdout {
			t.Errorf("got exit code %d, %q, %q; want %d, %q", got, c.stdout.String(), c.stderr.String(), code, stdout)
		}
	case <-time.After(gbtest.AtOnce):
		t.Fatalf("it goes on: %q, %q", c.stdout.String(), c.stderr.String())
	}
}

// TestFollow plays the worker of a job that somebody follows.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := newPlayed(t)
	run := func(args ...string) *command { return w.run(t.Context(), "print(1)", args...) }
	publish := func(j record.Record, first int, events ...record.Event) {
		t.Helper()
		if err := w.Worker.Publish(t.Context(), j, first, events); err != nil {
			t.Fatal(err)
		}
	}
	status := func(status job.Status, attempt int) record.Event {
		b, err := json.Marshal(record.StatusChange{Status: status, Attempt: attempt})
		if err != nil {
			t.Fatal(err)
		}
		return record.Event{Type: record.EventStatus, Data: b}
	}
	text := func(kind record.EventType, offset int64, s string) record.Event {
		return record.Event{Type: kind, Offset: offset, Data: []byte(s)}
	}

	c := run("submit", "--runtime", "python", "--follow", "-")
	awaitPrinted(t, &c.stderr, "job default-")
	id := regexp.MustCompile(`job (\S+)`).FindStringSubmatch(c.stderr.String())[1]
	j := w.Start(t, id)
	publish(j, 1, status(job.Running, 1), text(record.EventStdout, 0, "one\n"), text(record.EventStderr, 0, "\x1b[31m\xff\n"))
	awaitPrinted(t, &c.stderr, "\x1b[31m\xff\n") // no terminal: every byte
	awaitPrinted(t, &c.stdout, "one\n")
	late := run("logs", "-f", id)
	awaitPrinted(t, &late.stdout, "one\n")
	if _, err := w.Records.Requeue(t.Context(), id, 1, "worker-1", record.CostAttempt, 0); err != nil {
		t.Fatal(err)
	}
	awaitPrinted(t, &c.stderr, "runs again")
	j, err := w.Worker.Start(t.Context(), id, 2, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	publish(j, 1, status(job.Running, 2), text(record.EventStdout, 0, "two\n")) // and not that this is all
	awaitPrinted(t, &c.stdout, "two\n")
	three := 3
	w.End(t, j, map[string]string{"made.txt": "x"}, func(r *job.Result) { r.Status, r.ExitCode, r.Stdout = job.Failed, &three, "two\n" })
	c.ends(t, exitFailed, "one\ntwo\n")
	late.ends(t, exitFailed, "one\ntwo\n")
	for _, words := range []string{"some output is not shown here; glovebox logs " + id, "failed (exit code 3)", "made.txt", "glovebox get --out DIR " + id} {
		awaitPrinted(t, &c.stderr, words)
	}
	// Of one that ended before anybody watched.
	again := run("submit", "--runtime", "python", "-")
	if code := <-again.code; code != exitOK {
		t.Fatalf("got exit code %d, %s", code, again.stderr.String())
	}
	id = strings.TrimSpace(again.stdout.String())
	w.End(t, w.Start(t, id), nil, nil)
	run("logs", "--follow", id).ends(t, exitOK, "hello\n")

	waiting := run("submit", "--runtime", "python", "--follow", "--wait=200ms", "-")
	waiting.ends(t, exitGoesOn, "")
	awaitPrinted(t, &waiting.stderr, "the job goes on")
	both := run("submit", "--runtime", "python", "--follow", "--json", "-")
	both.ends(t, exitUsage, "")
}

func TestShownInPieces(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"é\tx\n", "\x1b]0;t\x07", "a\u009b2J\u009b", "\u00a9\u0085"} {
		var pieces bytes.Buffer
		w := &shown{w: &pieces}
		for i := range len(s) {
			if n, err := w.Write([]byte(s[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if got, want := pieces.String(), string(showControls([]byte(s))); got != want {
			t.Errorf("%q byte by byte: got %q, want %q", s, got, want)
		}
	}
}
