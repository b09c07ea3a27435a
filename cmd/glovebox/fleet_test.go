package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// operate runs a command of the operator's with a Redis.
func operate(t *testing.T, command string) func(url string, args ...string) (code int, out, said string) {
	t.Helper()
	return func(url string, args ...string) (code int, out, said string) {
		var stdout, stderr gbtest.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(name string) string {
			return map[string]string{"GLOVEBOX_REDIS_URL": url}[name]
		}}
		code = a.run(t.Context(), append([]string{command}, args...))
		return code, stdout.String(), stderr.String()
	}
}

func TestFleet(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	server.MayRefuse = true // a worker's user tries to list
	s, err := record.Open(t.Context(), record.Config{URL: server.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run := operate(t, "fleet")
	if code, out, said := run(server.Admin()); code != 0 || out != "" || !strings.Contains(said, "no worker lives") {
		t.Errorf("nobody is there: got %d, %q, %q", code, out, said)
	}
	for _, w := range []fleet.Worker{
		{ID: "host-30-cccccccccc", Host: "host-30", Concurrency: 4},
		{ID: "host-2-dddddddddd", Host: "host-2", Concurrency: 4},
		{ID: "host-1-aaaaaaaaaa", Host: "host-1", Version: "v1", Concurrency: 4, Jobs: []string{"default-x"}, Warm: map[string]int{"python": 2, "c": 1}, Labels: job.Labels{"zone": "a", "pool": "exams"}, Only: []string{"pool"}},
		{ID: "host-2-bbbbbbbbbb", Host: "host-2", Version: "v2\x1b[31m", Concurrency: 8, Paused: "no S3"},
	} {
		if err := s.Fleet.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	code, out, said := run(server.Admin())
	for _, want := range []string{"host-1-aaaaaaaaaa", "pool=exams!,zone=a", "1/4", "c:1 python:2", "takes jobs", "host-2-bbbbbbbbbb", "0/8", "paused: no S3"} {
		if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("got %d, %q, %q; want %q and no control character", code, out, said, want)
		}
	}
	if code, _, said := run(server.Admin(), "drain", "host-2"); code != exitUsage || !strings.Contains(said, "name of several: host-2-bbbbbbbbbb, host-2-dddddddddd") {
		t.Errorf("a name of two: got %d, %q", code, said)
	}
	for _, none := range []string{"host-3", "host-", "host-1-aaaaa", "host"} {
		if code, _, said := run(server.Admin(), "drain", none); code != exitFailed || !strings.Contains(said, `"`+none+`"`) {
			t.Errorf("%s, a name of none: got %d, %q", none, code, said)
		}
	}
	drained := func(want bool) {
		t.Helper()
		if is, err := s.Fleet.Drained(t.Context(), "host-1-aaaaaaaaaa"); err != nil || is != want {
			t.Errorf("drained: got %v, %v", is, err)
		}
	}
	if code, _, said := run(server.Admin(), "drain", "host-1"); code != 0 || !strings.Contains(said, "host-1-aaaaaaaaaa takes no more jobs") {
		t.Errorf("got %d, %q", code, said)
	}
	drained(true)
	var list []listedWorker
	_, out, _ = run(server.Admin(), "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 4 || !list[0].Drained || list[0].Running != 1 || list[0].Slots != 4 || list[1].Paused != "no S3" {
		t.Errorf("got %s, %v", out, err)
	}
	// One that is cut off for a while stays drained. What was noted long ago is forgotten.
	if err := s.Fleet.Leave(t.Context(), "host-1-aaaaaaaaaa"); err != nil {
		t.Fatal(err)
	}
	admin, err := record.Open(t.Context(), record.Config{URL: server.Admin()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	admin.Redis().HSet(t.Context(), "gb:drained", "host-9-long-ago", time.Now().Add(-25*time.Hour).UnixMilli())
	if code, _, said := run(server.Admin(), "drain", "host-30"); code != 0 {
		t.Errorf("got %d, %q", code, said)
	}
	drained(true)
	if noted, err := admin.Redis().HLen(t.Context(), "gb:drained").Result(); err != nil || noted != 2 {
		t.Errorf("%d are noted, %v, want the two", noted, err)
	}
	if err := s.Fleet.Beat(t.Context(), fleet.Worker{ID: "host-1-aaaaaaaaaa", Host: "host-1"}); err != nil {
		t.Fatal(err)
	}
	if code, _, said := run(server.Admin(), "resume", "host-1-aaaaaaaaaa"); code != 0 {
		t.Errorf("got %d, %q", code, said)
	}
	drained(false)
	if code, _, said := run(server.Worker()); code != exitFailed || !strings.Contains(said, `user "default"`) {
		t.Errorf("as a worker: got %d, %q", code, said)
	}
}
