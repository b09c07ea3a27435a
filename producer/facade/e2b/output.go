package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// output is a stream of which a client is told.
type output struct {
	told int64 // bytes, with those that are held
	gap  bool  // events were dropped: the rest is told at the end
	held []byte
}

// take is what of an event is to be told now.
func (o *output) take(e producer.Event) []byte {
	if o.gap || e.Offset != o.told {
		o.gap = true
		return nil
	}
	return o.pass(e.Data)
}

// pass is what of the stream's next bytes is to be told now. What may be facade.TimeUp is held until there is more.
func (o *output) pass(b []byte) []byte {
	o.told += int64(len(b))
	if len(o.held) > 0 {
		b = append(o.held, b...)
		o.held = nil
	}
	if rest, found := bytes.CutSuffix(b, []byte(facade.TimeUp)); found {
		b, o.held = rest, []byte(facade.TimeUp)
	}
	return b
}

// last is what of the bytes that were held is the program's.
func (o *output) last(r job.Result) []byte {
	if r.Status == job.TimedOut {
		return nil
	}
	return o.held
}

// rest tells what was not told of the streams yet.
func (t *telling) rest(ctx context.Context, r job.Result) error {
	for _, s := range []struct {
		name string
		*output
	}{{producer.Stdout, &t.stdout}, {producer.Stderr, &t.stderr}} {
		tell := func(b []byte) error { return t.text(s.name, b) }
		if err := restOf(ctx, t.call, r, s.name, s.output, tell); err != nil {
			return err
		}
		if err := tell(s.last(r)); err != nil {
			return err
		}
	}
	return nil
}

// chunk is how many bytes of a stream are told in a line.
const chunk = 64 << 10

// restOf tells what the stream of a result has that was not told: an execution may end before it is watched, and events are dropped where there
// are too many.
func restOf(ctx context.Context, c *facade.Call, r job.Result, stream string, o *output, tell func([]byte) error) error {
	f, size, err := c.Stream(ctx, r, stream)
	if err != nil {
		return err
	}
	defer f.Close()
	if size <= o.told {
		return nil
	}
	if _, err := io.CopyN(io.Discard, f, o.told); err != nil {
		return fmt.Errorf("read %s of execution %s: %w", stream, r.ID, err)
	}
	buffer, kept := make([]byte, chunk), 0
	for {
		n, err := io.ReadFull(f, buffer[kept:])
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("read %s of execution %s: %w", stream, r.ID, err)
		}
		have := buffer[:kept+n]
		cut := len(have)
		if !last { // facade.TimeUp is passed on whole
			cut = len(job.WholeCharacters(have[:len(have)-len(facade.TimeUp)]))
		}
		if err := tell(o.pass(have[:cut])); err != nil || last {
			return err
		}
		kept = copy(buffer, have[cut:])
	}
}
