package main

import (
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// listener says what reads the worker's frames once a program has begun: a goroutine of its
// own, or takeCredit.
type listener struct {
	mu sync.Mutex
	// running: the goroutine is there, and the only reader.
	running bool
	// stopping: the goroutine ends with the next grant, and takeCredit reads from then on. To be
	// woken by another thread for each grant costs more, in gVisor, than sending what the
	// grant is for.
	stopping bool
	killed   bool
}

// listen handles credit and kill frames, input, tests and turns from now on, unless that is done already. When the worker
// has gone, the agent exits: every process ends with PID 1.
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

// stopListening makes takeCredit the reader, after the next grant. A kill frame is then read
// late, so nothing of the job may run any more.
func (s *session) stopListening() {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	s.listener.stopping = true
}

// handleNext handles the next frame, and reports whether the goroutine must not read any more.
// takeCredit sees that and the grant at once: with only one of the two it would wait for a reader
// that is gone, or read a frame that never comes.
func (s *session) handleNext() (left bool, err error) {
	f, err := s.next()
	if err != nil {
		return false, err
	}
	switch f.Type {
	case agentwire.TypeKill:
		if s.check.Start.Session {
			select {
			case s.interrupt <- struct{}{}:
			default: // once is enough
			}
			return false, nil
		}
		if !s.listener.killed {
			s.listener.killed = true
			close(s.killed)
		}
	case agentwire.TypeRestart:
		select {
		case s.restart <- struct{}{}:
		default:
		}
	case agentwire.TypePause, agentwire.TypeResume:
		s.pauses <- f.Type // there is room: the worker waits for each answer
	case agentwire.TypeTest:
		s.dropSignals() // those that came too late for the test before
		s.feed = nil
		s.coming = coming{test: &test{args: s.check.Test.Args}}
	case agentwire.TypeTurn:
		s.coming = coming{turn: newTurn(s.check.Turn)}
	case agentwire.TypeFileBegin:
		return false, s.beginFile(s.coming.turn)
	case agentwire.TypeFileData:
		return false, s.coming.turn.files.data(f.Payload)
	case agentwire.TypeSignal:
		select {
		case s.signals <- syscall.Signal(f.Payload[0]):
		default: // as many wait already
		}
	case agentwire.TypeStdinEnd:
		s.feed.end()
	case agentwire.TypeStdinData:
		if s.feed != nil {
			s.feed.add(f.Payload)
			return false, nil
		}
		if s.coming.turn != nil {
			s.coming.turn.code = append(s.coming.turn.code, f.Payload...)
			return false, nil
		}
		return false, s.coming.test.stdin.write(f.Payload)
	case agentwire.TypeGo:
		if s.coming.turn != nil {
			return false, s.queueTurn()
		}
		return false, s.queueTest()
	case agentwire.TypeDone:
		close(s.tests)
		close(s.turns)
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

// dropSignals forgets the signals that nobody was sent.
func (s *session) dropSignals() {
	for {
		select {
		case <-s.signals:
		default:
			return
		}
	}
}

// takeCredit waits for credit, and takes it for up to n bytes.
func (s *session) takeCredit(n int) (int, error) {
	for s.mustRead() {
		if _, err := s.handleNext(); err != nil {
			return 0, err
		}
	}
	return s.credit.Take(n) // the goroutine's next grant wakes it, if it has to wait
}

// mustRead reports whether there is no credit, and no goroutine that reads a grant.
func (s *session) mustRead() bool {
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	return !s.listener.running && s.credit.None()
}

// waitForWorker waits until the worker closes the stream, which it does when it has read the
// last frame.
func (s *session) waitForWorker() {
	const timeout = time.Minute // never needed, but nothing may wait for ever
	s.listen()
	time.Sleep(timeout)
}
