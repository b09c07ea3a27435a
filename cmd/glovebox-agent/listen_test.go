package main

import (
	"io"
	"testing"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// TestTakeCredit: whoever reads the worker's frames, each grant is taken once, and a kill is heard.
func TestTakeCredit(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	s, worker := newSession(in, io.Discard), agentwire.NewWriter(out)
	grants := make(chan int64)
	sent := make(chan error, 1)
	go func() {
		defer close(sent)
		start := agentwire.Start{Protocol: agentwire.Version, Command: []string{"x"}, Limits: job.Limits{}.Filled(job.Limits{})}
		if err := worker.WriteStart(start); err != nil {
			sent <- err
			return
		}
		if err := worker.Write(agentwire.TypeGo, nil); err != nil {
			sent <- err
			return
		}
		for n := range grants {
			if n == 0 {
				sent <- worker.Write(agentwire.TypeKill, nil)
			} else if err := worker.WriteCredit(n); err != nil {
				sent <- err
			}
		}
	}()
	for range 2 { // start, go
		if _, err := s.next(); err != nil {
			t.Fatal(err)
		}
	}
	const n = 1000
	take := func() {
		t.Helper()
		grants <- n + agentwire.FrameCost
		if got, err := s.takeCredit(2 * n); got != n || err != nil {
			t.Fatalf("got %d, %v, want %d", got, err, n)
		}
	}
	s.listen()
	s.listen() // it does already
	take()
	s.stopListening()
	for range 100 {
		take()
	}
	for range 2000 { // the goroutine leaves with each grant, which is spent at once
		s.listen()
		s.stopListening()
		take()
		take()
	}
	s.stopListening()
	s.listen()
	take()
	s.stopListening()
	take()
	s.listen()
	grants <- 0
	<-s.killed
	close(grants)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}
