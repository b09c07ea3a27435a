package session

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// agentPipes makes the pipes of a sandbox: the worker's ends, and the agent's.
func agentPipes(t *testing.T) (pipes Pipes, in, out, errs *os.File) {
	t.Helper()
	in, workerIn, err := os.Pipe()
	workerOut, out, err2 := os.Pipe()
	workerErr, errs, err3 := os.Pipe()
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{in, out, errs} {
			f.Close() // it may be closed already
		}
	})
	return Pipes{Stdin: workerIn, Stdout: workerOut, Stderr: workerErr}, in, out, errs
}

// TestAwaitEnd: an agent is believed to have ended when its stream has, and in time.
func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent func(in, out *os.File) // after its last frame
		want  bool
	}{
		"ends":           {func(_, out *os.File) { out.Close() }, true},
		"ends when told": {func(in, out *os.File) { _, _ = in.Read(make([]byte, 1)); out.Close() }, true},
		"says more":      {func(_, out *os.File) { _, _ = out.Write(make([]byte, 1000)); out.Close() }, true},
		"stays":          {func(_, _ *os.File) {}, false},
		"never stops": {func(_, out *os.File) {
			for {
				if _, err := out.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, false},
		"talks much, ends": {func(_, out *os.File) { _, _ = out.Write(make([]byte, 2<<20)); out.Close() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipes, in, out, _ := agentPipes(t)
			s := New(time.Now(), pipes)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if err := agentwire.NewWriter(out).WriteJSON(agentwire.TypeFault, agentwire.Fault{Message: "x"}); err != nil {
					t.Error(err)
				}
				c.agent(in, out)
			}()
			timeout := endTimeout
			if c.want { // on a busy machine it may take longer than that
				timeout = time.Minute
			}
			began := time.Now()
			if got := s.endsWithin(timeout); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if took := time.Since(began); took > gbtest.AtOnce {
				t.Errorf("it took %s", took)
			}
			s.Close()
			<-done
		})
	}
}
