package piston

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// What a connection is closed with, in Piston's words.
const (
	alreadyInitialized websocket.StatusCode = 4000
	notInitialized     websocket.StatusCode = 4001 // in time
	notifiedError      websocket.StatusCode = 4002
	notYetInitialized  websocket.StatusCode = 4003
	onlyStdin          websocket.StatusCode = 4004
	invalidSignal      websocket.StatusCode = 4005
	completed          websocket.StatusCode = 4999
)

const (
	// initTime is how long a client may take to say what is to be run. Piston gives it a second, which is little on a busy machine.
	initTime = 5 * time.Second
	// initBytes is how long the first message may be, of Piston's own 100 kB, and messageBytes each of the others.
	initBytes, messageBytes = 1 << 20, 128 << 10
	// initWeight is how many times its size a first message takes: as it is, as it is decoded, and as a job.
	initWeight = 4
	// keepalive is how long nothing is sent.
	keepalive = 15 * time.Second
	// writeTime is what sending a message, and the answer to a ping, may take.
	writeTime = 30 * time.Second
	// closeTime is what closing may take: the library waits for the rest of a message for as long as it comes.
	closeTime = 5 * time.Second
)

// connect runs a program whose output is sent while it runs, and which reads what comes meanwhile.
func connect(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Upgrade", "websocket")
		writeMessage(w, http.StatusUpgradeRequired, "connect is a WebSocket")
		return
	}
	given, err := c.Host.Work(r.Context(), initWeight*initBytes) // for the first message; so many may connect at once
	if err != nil {
		refuseExecute(w, r, c, err)
		return
	}
	// Any page may connect, as it may post to execute: its token is in a header, which browsers don't add by themselves.
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // the client was told
	}
	socket.SetReadLimit(initBytes)
	// What ends the program does not end the connection yet: the client is to hear why.
	connected, disconnect := context.WithCancel(r.Context())
	ctx, leave := context.WithCancelCause(connected)
	t := &talk{call: c, socket: socket, connected: connected, given: given, shorten: func() { socket.SetReadLimit(messageBytes) }, first: make(chan []byte, 1), running: make(chan struct{}), leave: leave}
	t.more.L = &t.mu
	var reader sync.WaitGroup
	defer reader.Wait()
	defer disconnect()
	defer socket.CloseNow() //nolint:errcheck // it is closed already, or nobody is there
	reader.Go(t.read)
	why := t.serve(ctx)
	if cause := context.Cause(ctx); cause != nil {
		why = cause // what was wrong with a message, say
	}
	leave(nil)
	if errors.As(why, &left{}) {
		return
	}
	control := http.NewResponseController(w)
	_ = errors.Join(control.SetReadDeadline(time.Now().Add(closeTime)), control.SetWriteDeadline(time.Now().Add(closeTime))) // else the connection is gone

	t.close(why) //nolint:contextcheck // what ends the program does not end the connection
}

// talk is one connection.
type talk struct {
	call   *facade.Call
	socket *websocket.Conn
	// connected ends with the connection; leave ends what is served on it.
	connected context.Context //nolint:containedctx // it is the connection's
	leave     context.CancelCauseFunc
	given     func()      // gives back what the first message takes
	shorten   func()      // bounds the messages behind it
	first     chan []byte // the first message, once

	running chan struct{} // closed when the program runs

	mu      sync.Mutex
	more    sync.Cond
	waiting []job.Input // for the program
	had     int         // as job.MaxInputTotal counts it
	over    bool
}

// closing is why a connection is closed by us.
type closing struct {
	code   websocket.StatusCode
	reason string
}

func (c closing) Error() string { return c.reason }

// left is why nothing more is read: the client has left, or broken the protocol, of which the library has told it.
type left struct{ error }

// close says why, in Piston's ways.
func (t *talk) close(why error) {
	var c closing
	switch {
	case why == nil:
		c = closing{completed, "Job Completed"}
	case errors.As(why, &c):
	default:
		_ = t.write(message{Type: "error", Message: t.words(why)}) // the client may have left
		c = closing{notifiedError, "Notified Error"}
	}
	_ = t.socket.Close(c.code, c.reason) // likewise
}

// words are what the client is told of an error.
func (t *talk) words(err error) string {
	var bad facade.BadRequest
	var invalid job.Invalid
	switch {
	case errors.As(err, &bad):
		return bad.Error()
	case errors.Is(err, facade.ErrNoPlace):
		return noPlace(t.call)
	case errors.As(err, &invalid) && len(invalid) > 0:
		return inOurWords(invalid[0])
	}
	_, said := facade.Say(t.call.Host.Problem(t.connected, err))
	return said
}

// message is what is sent.
type message struct {
	Type     string  `json:"type"`
	Language string  `json:"language,omitempty"` // of a runtime
	Version  string  `json:"version,omitempty"`
	Stage    string  `json:"stage,omitempty"` // of a stage or an exit
	Stream   string  `json:"stream,omitempty"`
	Data     string  `json:"data,omitempty"`
	Message  string  `json:"message,omitempty"` // of an error
	Exit     *ending `json:"-"`
}

// ending is what an exit has besides, be it null.
type ending struct {
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
}

func (t *talk) write(m message) error {
	var v any = m
	if m.Exit != nil {
		v = struct {
			message
			ending
		}{m, *m.Exit}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.connected, writeTime)
	defer cancel()
	return t.socket.Write(ctx, websocket.MessageText, text)
}

// serve runs what the first message says, to its end. It fails with why it has not come to that.
func (t *talk) serve(ctx context.Context) error {
	timer := time.NewTimer(initTime)
	defer timer.Stop()
	var first []byte
	select {
	case first = <-t.first:
	case <-timer.C:
		return closing{notInitialized, "Initialization Timeout"}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	program, id, err := t.submit(ctx, first)
	if err != nil {
		return err
	}
	sending, stop := context.WithCancel(ctx)
	var sender sync.WaitGroup
	defer sender.Wait()
	defer t.endInput()
	defer stop()
	sender.Go(func() { t.send(sending, id) })
	err = t.write(message{Type: "runtime", Language: program.Language, Version: program.Version}) //nolint:contextcheck // likewise
	if err == nil {
		err = t.tell(ctx, id, program)
	}
	if err != nil { // nobody reads any more what it does
		err = errors.Join(err, t.call.Abandon(ctx, id))
	}
	return err
}

// submit makes a job of the first message.
func (t *talk) submit(ctx context.Context, first []byte) (runtime, string, error) {
	defer t.given()
	program, spec, err := specOf(ctx, t.call, first)
	if err != nil {
		return program, "", err
	}
	spec.Stdin, spec.Interactive, spec.Stream = "", true, true
	id, err := t.call.Submit(ctx, spec)
	if err == nil {
		t.call.Host.Note(id)
	}
	return program, id, err
}

// tell sends what the program does, until it has ended.
func (t *talk) tell(ctx context.Context, id string, program runtime) error {
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	waits := time.AfterFunc(t.call.Patience(patience), func() { stop(facade.ErrNoPlace) })
	defer waits.Stop()
	told := &told{talk: t, compiles: program.compiles(), sent: map[string]int64{}}
	for e, err := range t.call.Host.Watch(watching, id, keepalive) {
		switch {
		case watching.Err() != nil:
			return context.Cause(watching)
		case err != nil:
			return err
		}
		if e.Type == producer.EventStatus && e.Status == job.Running {
			waits.Stop()
		}
		if over, err := told.event(e); err != nil || over { //nolint:contextcheck // likewise
			return err
		}
	}
	if err := context.Cause(watching); err != nil {
		return err
	}
	return errors.New("the program's events ended without its end")
}
