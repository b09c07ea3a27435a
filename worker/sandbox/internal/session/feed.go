package session

import (
	"context"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// feed sends the program what comes for it, until stop is called. It does not wait for an agent that has stopped to read: Close does,
// when the stream is closed. stopped is closed once no more is sent.
func (s *Session) feed(ctx context.Context, input sandbox.Input) (stop func(), stopped <-chan struct{}) {
	ctx, stop = context.WithCancel(ctx)
	done := make(chan struct{})
	s.reader.Go(func() {
		defer close(done)
		for n := 0; ; {
			list, err := input.Next(ctx, n)
			if err != nil { // it says so itself, where that is of interest
				return
			}
			n += len(list)
			for _, in := range list {
				if ctx.Err() != nil || s.sendInput(in) != nil { // of a stream that has broken the reader knows why
					return
				}
			}
		}
	})
	return stop, done
}

func (s *Session) sendInput(in job.Input) error {
	data, err := in.Bytes()
	if err != nil { // nobody of ours has written that
		data = []byte(in.DataBase64)
	}
	if err := s.out.WriteChunks(agentwire.TypeStdinData, data); err != nil {
		return err
	}
	if in.EOF {
		if err := s.out.Write(agentwire.TypeStdinEnd, nil); err != nil {
			return err
		}
	}
	if n := job.SignalNumber(in.Signal); n > 0 {
		return s.out.Write(agentwire.TypeSignal, []byte{byte(n)})
	}
	return nil
}
