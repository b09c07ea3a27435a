package main

import (
	"os"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// listener is who reads what the worker sends once a program has begun: a goroutine of its
// own, or what takes credit.
type listener struct {
	mu sync.Mutex
	// running: the goroutine is there, and the one reader.
	running bool
	// stopping: it ends with the next grant, and who takes credit reads from then on. To be
	// woken by another thread for each grant costs more, in gVisor, than what it is spent on.
	stopping bool
	killed   bool
}

// listen serves credit and kill from now on, unless that is done already. When the worker
// has gone, nobody is left to run for: the exit of PID 1 takes every process with it.
func (s *session) listen() {
	l := &s.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = false
	if l.running {
		return
	}
	l.running = true
	go func() {
		for {
			left, err := s.handleNext()
			if err != nil {
				os.Exit(71)
			}
			if left {
				return
			}
		}
	}()
}

// stopListening makes takeCredit read, as soon as that can be. A kill is heard later then,
// so nothing of the job may run any more.
func (s *session) stopListening() {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	s.listener.stopping = true
}

// handleNext takes the next frame, and reports whether the goroutine must not read any more. Whoever
// takes credit sees that and the grant at once: with one and not the other it would wait for a
// reader that is none, or read what never comes.
func (s *session) handleNext() (left bool, err error) {
	f, err := s.next()
	if err != nil {
		return false, err
	}
	switch f.Type {
	case agentwire.TypeKill:
		if !s.listener.killed {
			s.listener.killed = true
			close(s.killed)
		}
	case agentwire.TypeCredit:
		l := &s.listener
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.stopping {
			l.running = false
		}
		return l.stopping, s.credit.Grant(f.Credit())
	}
	return false, nil
}

// takeCredit waits for credit for up to n bytes.
func (s *session) takeCredit(n int) (int, error) {
	for s.mustRead() {
		if _, err := s.handleNext(); err != nil {
			return 0, err
		}
	}
	return s.credit.Take(n) // the goroutine's next grant wakes it, if it has to wait
}

// mustRead reports whether there is no credit, and nobody who reads of more.
func (s *session) mustRead() bool {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	return !s.listener.running && s.credit.None()
}

// waitForWorker waits until the worker has gone, which it does when it has read the
// last frame, and says so by closing the stream.
func (s *session) waitForWorker() {
	const patience = time.Minute // nobody should need it, but nothing may last for ever
	s.listen()
	time.Sleep(patience)
}
