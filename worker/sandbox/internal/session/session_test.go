package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// rogue plays the agent over a pipe, perhaps one that was taken over.
type rogue struct {
	t    *testing.T
	act  func(*rogue)
	conn net.Conn // its stdin and stdout
	errs net.Conn
	w    *agentwire.Writer
	deaf bool          // it reads nothing
	slow time.Duration // how long it takes over each frame that it reads
	// sees gets each frame that it reads; nil: nothing does.
	sees func(agentwire.Frame)
	// before is called before Serve.
	before func(*Session)

	told     chan struct{} // closed when the worker has sent the whole program
	prepares chan struct{} // closed when the worker has asked it to preload
	tests    chan struct{} // gets one for each test that the worker has sent
	done     chan struct{} // closed when the worker has said that none follows
	start    []byte        // what the worker sent as Start
	credit   *agentwire.Credit
}

// raw writes to its stdout or stderr. That the other end is closed is for it to say.
func (r *rogue) raw(to net.Conn, p string) {
	if _, err := to.Write([]byte(p)); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		r.t.Error(err)
	}
}

func (r *rogue) send(t agentwire.Type, v any) {
	var payload []byte
	switch v := v.(type) {
	case nil:
	case string:
		payload = []byte(v)
	default:
		var err error
		if payload, err = json.Marshal(v); err != nil {
			r.t.Error(err)
		}
	}
	if err := r.w.Write(t, payload); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		r.t.Error(err)
	}
}

// print sends output as an agent does that minds its credit.
func (r *rogue) print(t agentwire.Type, text string) {
	for text != "" {
		n, err := r.credit.Take(min(len(text), agentwire.MaxPayload))
		if err != nil {
			r.t.Error(err)
			return
		}
		r.send(t, text[:n])
		text = text[n:]
	}
}

func (r *rogue) ready() {
	r.send(agentwire.TypeReady, agentwire.Ready{Protocol: agentwire.Version, Kernel: "Linux version 4.19.0-gvisor #1"})
}

func (r *rogue) started() {
	r.ready()
	<-r.told
	r.send(agentwire.TypeStarted, agentwire.Started{})
}

// listen reads what the worker sends, until the pipe closes.
func (r *rogue) listen() {
	if r.deaf {
		return
	}
	frames := agentwire.FromHostReader(r.conn)
	inTest := false
	for {
		f, err := frames.Next()
		if err != nil {
			return
		}
		time.Sleep(r.slow)
		if r.sees != nil {
			r.sees(f)
		}
		switch f.Type {
		case agentwire.TypeCredit:
			if err := r.credit.Grant(f.Credit()); err != nil {
				r.t.Error(err)
			}
		case agentwire.TypePrepare:
			close(r.prepares)
		case agentwire.TypeStart:
			r.start = append(r.start, f.Payload...)
		case agentwire.TypeTest:
			inTest = true
		case agentwire.TypeDone:
			close(r.done)
		case agentwire.TypeGo:
			if inTest {
				r.tests <- struct{}{}
			} else {
				close(r.told)
			}
		}
	}
}

func (r *rogue) exited() {
	r.started()
	r.send(agentwire.TypeExit, agentwire.Exit{Cause: agentwire.Exited})
}

type discard struct{ stderr strings.Builder }

func (*discard) Stdout([]byte) error     { return nil }
func (d *discard) Stderr(p []byte) error { d.stderr.Write(p); return nil }
func (*discard) Artifact(_ context.Context, _ string, _ int64, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// serve serves the task with that agent, until both have ended.
func serve(t *testing.T, task Task, cgroup *fakeCgroup, agent *rogue) (*Session, error) {
	t.Helper()
	here, there := net.Pipe()
	errs, complaints := net.Pipe()
	agent.t, agent.conn, agent.errs, agent.w = t, there, complaints, agentwire.NewWriter(there)
	agent.told, agent.prepares, agent.credit = make(chan struct{}), make(chan struct{}), agentwire.NewCredit()
	agent.tests, agent.done = make(chan struct{}, 100), make(chan struct{})
	s := New(time.Now(), Pipes{Stdin: here, Stdout: here, Stderr: errs})
	if cgroup != nil {
		s.Cgroup = cgroup
	}
	var agents sync.WaitGroup
	agents.Go(agent.listen)
	agents.Go(func() { agent.act(agent) })
	if agent.before != nil {
		agent.before(s)
	}
	err := s.Serve(t.Context(), task, time.Minute)
	s.Close()
	there.Close()
	agents.Wait()
	return s, err
}

// against serves a program with an agent that does as act says.
func against(t *testing.T, deaf bool, slow time.Duration, act func(*rogue)) (sandbox.Outcome, error) {
	t.Helper()
	limits := job.Limits{WallMS: 1000, Artifacts: 2, ArtifactMB: 1, OutputKB: 1}.Filled(job.Limits{})
	program := sandbox.Program{Command: []string{"x"}, Stdin: []byte("x"), Limits: limits}
	s, err := serve(t, Task{Program: program, Sink: &discard{}}, nil, &rogue{deaf: deaf, slow: slow, act: act})
	return s.Outcome, err
}

func TestRogueAgent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		act  func(*rogue)
		err  error  // what it is,
		says string // or says; neither: no error
		want job.Status
		deaf bool
		slow time.Duration
	}{
		{name: "reads nothing", act: func(r *rogue) { r.ready() }, deaf: true, err: os.ErrDeadlineExceeded},
		{name: "reads too slowly", act: func(r *rogue) { r.ready() }, slow: 25 * time.Second, err: io.ErrClosedPipe},
		{name: "complains for ever", act: func(r *rogue) {
			r.started()
			for range 20 {
				r.raw(r.errs, strings.Repeat("x", 64<<10))
			}
		}, err: agentwire.ErrProtocol},
		{name: "drips an artifact", act: func(r *rogue) {
			r.exited()
			r.send(agentwire.TypeArtifactBegin, agentwire.ArtifactBegin{Name: "a", Size: 1000})
			for range 1000 {
				time.Sleep(10 * time.Second)
				r.send(agentwire.TypeArtifactData, "x")
			}
		}, err: errOverdue},
		{name: "drips skipped files", act: func(r *rogue) {
			r.exited()
			for range job.MaxSkipped {
				time.Sleep(50 * time.Second)
				r.send(agentwire.TypeSkipped, agentwire.Skipped{Name: "x", Reason: "y"})
			}
		}, err: errOverdue},
		{name: "good", act: func(r *rogue) { r.exited(); r.send(agentwire.TypeEnd, agentwire.End{}) }, want: job.Succeeded},
		{name: "silent from the start", act: func(*rogue) {}, err: errOverdue},
		{name: "another kernel", act: func(r *rogue) {
			r.send(agentwire.TypeReady, agentwire.Ready{Protocol: agentwire.Version, Kernel: "Linux version 6.1.0 #1 -gvisor"})
		}, err: sandbox.ErrUnavailable},
		{name: "another protocol", act: func(r *rogue) {
			r.send(agentwire.TypeReady, agentwire.Ready{Protocol: agentwire.Version + 1, Kernel: "Linux version 4.19.0-gvisor"})
		}, err: agentwire.ErrProtocol},
		{name: "gone before the end", act: func(r *rogue) { r.exited(); r.conn.Close() }, err: ErrNoEnd},
		{name: "gone inside a frame", act: func(r *rogue) { r.started(); r.raw(r.conn, "\x46\x00"); r.conn.Close() }, err: ErrNoEnd},
		{name: "fault", act: func(r *rogue) { r.ready(); r.send(agentwire.TypeFault, agentwire.Fault{Message: "no cgroups"}) }, says: "agent: no cgroups"},
		{name: "fault at once", act: func(r *rogue) { r.send(agentwire.TypeFault, agentwire.Fault{Message: "not gVisor"}) }, says: "agent: not gVisor"},
		{name: "never ends the program", act: func(r *rogue) { r.started() }, want: job.TimedOut},
		{name: "prints for ever", act: func(r *rogue) {
			r.started()
			for range 2 {
				r.send(agentwire.TypeStdout, strings.Repeat("x", 1024))
			}
		}, err: agentwire.ErrProtocol},
		{name: "stops in an artifact", act: func(r *rogue) {
			r.exited()
			r.send(agentwire.TypeArtifactBegin, agentwire.ArtifactBegin{Name: "a", Size: 10})
			r.send(agentwire.TypeArtifactData, "abc")
		}, err: errOverdue},
		{name: "ends in an artifact", act: func(r *rogue) {
			r.exited()
			r.send(agentwire.TypeArtifactBegin, agentwire.ArtifactBegin{Name: "a", Size: 10})
			r.send(agentwire.TypeArtifactData, "abc")
			r.conn.Close()
		}, err: ErrNoEnd},
		{name: "climbs", act: func(r *rogue) {
			r.exited()
			r.send(agentwire.TypeArtifactBegin, agentwire.ArtifactBegin{Name: "../../etc/passwd"})
		}, err: agentwire.ErrProtocol},
		{name: "killed without a reason", act: func(r *rogue) {
			r.started()
			r.send(agentwire.TypeExit, agentwire.Exit{Cause: agentwire.Killed})
		}, says: "nobody asked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, err := against(t, tt.deaf, tt.slow, tt.act)
				switch {
				case tt.err != nil && !errors.Is(err, tt.err), tt.err == nil && tt.says == "" && err != nil,
					tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
					t.Errorf("got %v, want %v %s", err, tt.err, tt.says)
				}
				if tt.want != "" && o.Status != tt.want {
					t.Errorf("got %s, want %s", o.Status, tt.want)
				}
			})
		})
	}
}

// TestStderr: what the agent writes to stderr is kept, and little of it.
func TestStderr(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	errs, complaints := net.Pipe()
	s := New(time.Now(), Pipes{Stdin: here, Stdout: here, Stderr: errs})
	agent := &rogue{t: t, conn: there}
	for range 3 {
		agent.raw(complaints, strings.Repeat("x", 3000))
	}
	complaints.Close()
	there.Close()
	s.Close()
	if n := len(s.Stderr()); n != maxStderrKept {
		t.Errorf("got %d bytes of stderr, want %d", n, maxStderrKept)
	}
}

func TestQueueKeepsOrder(t *testing.T) {
	t.Parallel()
	q := newQueue()
	for i := range 10 {
		q.push(event{Frame: agentwire.Frame{Payload: []byte{byte(i)}}})
	}
	q.end(ErrNoEnd)
	for i := range 10 {
		if e, err := q.pop(t.Context(), time.Second); err != nil || e.Payload[0] != byte(i) {
			t.Errorf("got %v, %v, want %d", e, err, i)
		}
	}
	if _, err := q.pop(t.Context(), time.Second); !errors.Is(err, ErrNoEnd) {
		t.Errorf("got %v, want ErrNoEnd", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cause")
	cancel(cause)
	if _, err := newQueue().pop(ctx, time.Second); !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
}
