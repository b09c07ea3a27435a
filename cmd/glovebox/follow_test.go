package main

import (
	"bytes"
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

// TestFollow plays the worker of a job that somebody follows.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	handler, err := api.New(api.Config{Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken("token"): "default"}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	settings := config.File{"GLOVEBOX_URL": srv.URL, "GLOVEBOX_TOKEN": "token", "GLOVEBOX_DATA": t.TempDir()}
	run := func(args ...string) *command {
		c := &command{code: make(chan int, 1)}
		a := &app{stdin: strings.NewReader("print(1)"), stdout: &c.stdout, stderr: &c.stderr, getenv: settings.Get}
		go func() { c.code <- a.run(t.Context(), args) }()
		return c
	}
	until := func(b *gbtest.Buffer, words string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !strings.Contains(b.String(), words); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("got %q, want %q in it", b.String(), words)
			}
		}
	}
	ends := func(c *command, code int, stdout string) {
		t.Helper()
		select {
		case got := <-c.code:
			if got != code || c.stdout.String() != stdout {
				t.Errorf("got exit code %d, %q, %q; want %d, %q", got, c.stdout.String(), c.stderr.String(), code, stdout)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("it goes on: %q, %q", c.stdout.String(), c.stderr.String())
		}
	}
	publish := func(j record.Job, first int, events ...record.Event) {
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
	until(&c.stderr, "job default-")
	id := regexp.MustCompile(`job (\S+)`).FindStringSubmatch(c.stderr.String())[1]
	j := w.Start(t, id)
	publish(j, 1, status(job.Running, 1), text(record.EventStdout, 0, "one\n"), text(record.EventStderr, 0, "\x1b[31m\xff\n"))
	until(&c.stderr, "\x1b[31m\xff\n") // no terminal: every byte
	until(&c.stdout, "one\n")
	late := run("logs", "-f", id)
	until(&late.stdout, "one\n")
	if _, err := w.Records.Requeue(t.Context(), id, 1, "worker-1", record.CostAttempt, 0); err != nil {
		t.Fatal(err)
	}
	until(&c.stderr, "runs again")
	if j, err = w.Worker.Start(t.Context(), id, 2, "worker-1"); err != nil {
		t.Fatal(err)
	}
	publish(j, 1, status(job.Running, 2), text(record.EventStdout, 0, "two\n")) // and not that this is all
	until(&c.stdout, "two\n")
	three := 3
	w.End(t, j, map[string]string{"made.txt": "x"}, func(r *job.Result) { r.Status, r.ExitCode, r.Stdout = job.Failed, &three, "two\n" })
	ends(c, exitFailed, "one\ntwo\n")
	ends(late, exitFailed, "one\ntwo\n")
	for _, words := range []string{"some output is not shown here; glovebox logs " + id, "failed (exit code 3)", "made.txt", "glovebox get --out DIR " + id} {
		until(&c.stderr, words)
	}
	// Of one that ended before anybody watched.
	again := run("submit", "--runtime", "python", "-")
	if code := <-again.code; code != exitOK {
		t.Fatalf("got exit code %d, %s", code, again.stderr.String())
	}
	id = strings.TrimSpace(again.stdout.String())
	w.End(t, w.Start(t, id), nil, nil)
	ends(run("logs", "--follow", id), exitOK, "hello\n")

	waiting := run("submit", "--runtime", "python", "--follow", "--wait=200ms", "-")
	ends(waiting, exitGoesOn, "")
	until(&waiting.stderr, "the job goes on")
	both := run("submit", "--runtime", "python", "--follow", "--json", "-")
	ends(both, exitUsage, "")
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
