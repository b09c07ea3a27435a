package piston

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// read takes what the client sends, until it has left or is sent away.
func (t *talk) read() {
	first := true
	for {
		_, text, err := t.socket.Read(t.connected)
		if err != nil {
			t.leave(left{err})
			return
		}
		err = t.take(text, &first)
		if err != nil {
			t.leave(err)
			return
		}
	}
}

// take takes a message. It fails with why that is the last.
func (t *talk) take(text []byte, first *bool) error {
	var m struct{ Type, Stream, Data, Signal json.RawMessage }
	if err := json.Unmarshal(text, &m); err != nil {
		return facade.BadRequest("the message is not a JSON object")
	}
	is := func(v json.RawMessage, want string) bool { s, ok := facade.Text(v); return ok && s == want }
	switch {
	case is(m.Type, "init") && *first:
		*first = false
		t.shorten()
		t.first <- text
	case is(m.Type, "init"):
		return closing{alreadyInitialized, "Already Initialized"}
	case !is(m.Type, "data") && !is(m.Type, "signal"): // Piston doesn't mind, either
	case *first:
		return closing{notYetInitialized, "Not yet initialized"}
	case is(m.Type, "signal"):
		name, _ := facade.Text(m.Signal)
		if job.SignalNumber(name) == 0 {
			return closing{invalidSignal, "Invalid signal"}
		}
		return t.queue(job.Input{Signal: name}, 0)
	case !is(m.Stream, "stdin"):
		return closing{onlyStdin, "Can only write to stdin"}
	default:
		data, _ := facade.Text(m.Data)
		for len(data) > 0 {
			piece := data[:min(len(data), job.MaxInputBytes)]
			data = data[len(piece):]
			in := job.Input{Data: piece}
			if !utf8.ValidString(piece) { // cut within a character
				in = job.Input{DataBase64: base64.StdEncoding.EncodeToString([]byte(piece))}
			}
			if err := t.queue(in, len(piece)); err != nil {
				return err
			}
		}
	}
	return nil
}

// queue keeps input for the program, as much as that may get.
func (t *talk) queue(in job.Input, size int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.had += size + job.InputCost; t.had > job.MaxInputTotal {
		return job.ErrInputFull
	}
	t.waiting = append(t.waiting, in)
	t.more.Signal()
	return nil
}

// next waits for input. ok is false once the program needs no more.
func (t *talk) next() (in job.Input, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) == 0 && !t.over {
		t.more.Wait()
	}
	if t.over {
		return in, false
	}
	in, t.waiting = t.waiting[0], t.waiting[1:]
	return in, true
}

func (t *talk) endInput() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.more.Signal()
}

// inputAgain is the delay before input is sent again to a program that waits for another worker.
const inputAgain = 200 * time.Millisecond

// send sends the program what is queued, once it runs.
func (t *talk) send(ctx context.Context, id string) {
	select {
	case <-t.running:
	case <-ctx.Done():
		return
	}
	for {
		in, ok := t.next()
		if !ok {
			return
		}
		err := t.call.Client.SendInput(ctx, id, in)
		for errors.Is(err, job.ErrNotRunning) && ctx.Err() == nil {
			select {
			case <-time.After(inputAgain):
			case <-ctx.Done():
			}
			err = t.call.Client.SendInput(ctx, id, in)
		}
		switch {
		case errors.Is(err, job.ErrEnded), errors.Is(err, job.ErrNotFound):
			return
		case err != nil:
			t.leave(err)
			return
		}
	}
}
