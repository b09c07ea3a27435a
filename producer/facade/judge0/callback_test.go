package judge0

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestForgedRuns: what a native job's metadata call its runs, and are others' jobs, is neither sent to its callback nor
// deleted with it; a submission's own runs are.
func TestForgedRuns(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	const secret = "the answer to the exam"
	submit := func(metadata map[string]string) producer.Job {
		t.Helper()
		j, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "bash", Source: "true", Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	fail := func(j producer.Job) {
		t.Helper()
		w.End(t, w.Start(t, j.ID), nil, func(r *job.Result) {
			one := 1
			r.Status, r.ExitCode, r.Stdout = job.Failed, &one, secret
		})
	}
	victims := []producer.Job{submit(nil), submit(map[string]string{runKey: "unknown"})}
	for _, victim := range victims {
		fail(victim)
	}
	callback := "https://attacker.example"
	for _, tt := range []struct { // its own last, which are deleted
		name   string
		runs   []producer.Job
		runsOf string
		own    bool
	}{
		{"no secret", victims, "", false},
		{"a wrong secret", victims, "1", false},
		{"its own", victims[1:], "unknown", true},
	} {
		name := tt.name
		s := submission{LanguageID: 46, NumberOfRuns: 2, CPUTime: 5, Callback: &callback, RunsOf: tt.runsOf}
		for _, j := range tt.runs {
			s.Runs = append(s.Runs, j.ID)
		}
		metadata, err := s.keep(t.Context(), &facade.Call{Client: w.Client})
		if err != nil {
			t.Fatal(err)
		}
		forged := submit(metadata)
		result := w.End(t, w.Start(t, forged.ID), nil, nil)
		message, err := Message(t.Context(), w.Client, result)
		if err != nil || strings.Contains(string(message), base64.StdEncoding.EncodeToString([]byte(secret))) != tt.own {
			t.Errorf("%s: got %s, %v, want the runs' output in it: %t", name, message, err, tt.own)
		}
		if err := purge(t.Context(), &facade.Call{Client: w.Client}, forged.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, run := range tt.runs {
			if _, err := w.Client.Get(t.Context(), run.ID); errors.Is(err, job.ErrNotFound) != tt.own {
				t.Errorf("%s: looking for a run got %v, want it gone: %t", name, err, tt.own)
			}
		}
	}
}

// TestMessageOfRuns: a callback waits for the runs that end after that of the token.
func TestMessageOfRuns(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	submit := func(metadata map[string]string) producer.Job {
		t.Helper()
		j, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "bash", Source: "true", Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	other := submit(map[string]string{runKey: "unknown"})
	callback := "https://example.com"
	s := submission{LanguageID: 46, NumberOfRuns: 2, CPUTime: 5, Callback: &callback, RunsOf: "unknown", Runs: []string{other.ID}}
	metadata, err := s.keep(t.Context(), &facade.Call{Client: w.Client})
	if err != nil {
		t.Fatal(err)
	}
	result := w.End(t, w.Start(t, submit(metadata).ID), nil, nil)
	if message, err := Message(t.Context(), w.Client, result); !errors.Is(err, direct.ErrNotYet) {
		t.Errorf("the other runs: got %s, %v, want ErrNotYet", message, err)
	}
	w.End(t, w.Start(t, other.ID), nil, nil)
	if message, err := Message(t.Context(), w.Client, result); err != nil || len(message) == 0 {
		t.Errorf("all have ended: got %s, %v", message, err)
	}
}
