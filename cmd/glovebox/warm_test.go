package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
)

func TestWarm(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	server.MayRefuse = true // a worker's user tries to list
	s, err := record.Open(t.Context(), record.Config{URL: server.Worker()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run := operate(t, "warm")
	if code, out, said := run(server.Admin()); code != 0 || out != "" || !strings.Contains(said, "nothing is asked for") {
		t.Errorf("nothing yet: got %d, %q, %q", code, out, said)
	}
	if code, _, said := run(server.Admin(), "python", "3"); code != exitFailed || !strings.Contains(said, `"python"`) {
		t.Errorf("nobody lives: got %d, %q", code, said)
	}
	for _, w := range []fleet.Worker{
		{ID: "host-1", Concurrency: 4, Warm: map[string]int{"python": 2, "c": 1}, WarmRoom: map[string]int{"python": 6, "c": 30}},
		{ID: "host-2\x1b", Concurrency: 8, WarmRoom: map[string]int{"python": 100, "x\x1b[2J": 1}},
		{ID: "host-3", Concurrency: 8, WarmRoom: map[string]int{"python": 100}},
		{ID: "host-4", Concurrency: 8, WarmRoom: map[string]int{"python": 100}, Paused: "no S3"},
	} {
		if err := s.Fleet.Beat(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := record.Open(t.Context(), record.Config{URL: server.Admin()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := fleet.Drain(t.Context(), admin.Redis().(*redis.Client), "host-3", nil); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"python"}, exitUsage, []string{"RUNTIME and COUNT"}},
		{[]string{"python", "x"}, exitUsage, []string{`COUNT is "x"`}},
		{[]string{"python", "-1"}, exitUsage, nil},
		{[]string{"python", "10001"}, exitUsage, []string{"0 to 10000"}},
		{[]string{"python", "3", "--for", "59s"}, exitUsage, []string{"--for is 59s"}},
		{[]string{"python", "3", "--for", "25h"}, exitUsage, []string{"--for is 25h"}},
		{[]string{"cobol", "3"}, exitFailed, []string{`"cobol"`, `c python x\u001b[2J`}},
		{[]string{"python", "12", "--for", "90m"}, 0, []string{"12 of 12 sandboxes of python will wait until", "host-1 4 of 4", "8 of 8"}},
		{[]string{"c", "9"}, 0, []string{"3 of 9 sandboxes of c", "host-1 3 of 3", "0 of 6", "room for no more"}},
		{[]string{"python", "24"}, 0, []string{"22 of 24", "host-1 6 of 8", "room for no more"}},
	}
	for _, tt := range tests {
		code, out, said := run(server.Admin(), tt.args...)
		if code != tt.code || out != "" || strings.Contains(said, "\x1b") || strings.Contains(said, "host-3") || strings.Contains(said, "host-4") {
			t.Errorf("%v: got %d, %q, %q", tt.args, code, out, said)
		}
		for _, want := range tt.says {
			if !strings.Contains(said, want) {
				t.Errorf("%v: got %q, want %q", tt.args, said, want)
			}
		}
	}
	code, out, said := run(server.Admin())
	if lines := strings.Split(out, "\n"); code != 0 || len(lines) != 4 || !strings.HasPrefix(lines[1], "c ") || !strings.HasPrefix(lines[2], "python ") {
		t.Errorf("got %d, %q, %q", code, out, said)
	}
	var list []askedWarm
	_, out, _ = run(server.Admin(), "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 2 || list[1].Asked != 24 || list[1].Room != 22 || list[1].Waiting != 2 || list[0].Room != 3 {
		t.Errorf("got %s, %v", out, err)
	}
	if asked, err := s.Fleet.Asked(t.Context()); err != nil || len(asked) != 2 || asked[0].Runtime != "c" || asked[1].Count != 24 {
		t.Errorf("a worker reads %+v, %v", asked, err)
	}
	for _, name := range []string{"c", "python"} {
		if code, _, said := run(server.Admin(), name, "0"); code != 0 || !strings.Contains(said, "nothing is asked for of "+name) {
			t.Errorf("got %d, %q", code, said)
		}
	}
	if asked, err := s.Fleet.Asked(t.Context()); err != nil || len(asked) != 0 {
		t.Errorf("a worker reads %+v, %v", asked, err)
	}
	if code, _, said := run(server.Worker()); code != exitFailed || !strings.Contains(said, `user "default"`) {
		t.Errorf("as a worker: got %d, %q", code, said)
	}
}
