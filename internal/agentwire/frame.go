package agentwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/glovebox-run/glovebox/job"
)

// Version is the protocol's version; the two ends must agree on it.
const Version = 19

// MaxPayload is the most that a frame of any type may carry. frameTypes has each type's own bound,
// MaxStart that of a Start, which takes several frames.
const MaxPayload = 64 << 10

const headerSize = 5

// ErrProtocol is wrapped by every error that the other end's bytes caused.
var ErrProtocol = errors.New("protocol violation")

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// Type says what a frame is.
type Type uint8

// Frames from the worker.
const (
	TypeStart     Type = 1 // a piece of the JSON of [Start]
	TypeFileBegin Type = 2 // [FileBegin]
	TypeFileData  Type = 3
	TypeStdinData Type = 4
	TypeGo        Type = 5  // the inputs are complete
	TypeCredit    Type = 6  // four bytes: how many more bulk bytes the agent may send
	TypeKill      Type = 7  // end the job now, and report what there is; in a session, interrupt the turn
	TypePrepare   Type = 8  // [Prepare]
	TypeResume    Type = 9  // the sandbox goes on from a snapshot: say again what was said before it; in a session, after Pause
	TypeTest      Type = 10 // [Test]
	TypeDone      Type = 11 // no test or turn follows
	TypeTurn      Type = 12 // [Turn]
	TypeRestart   Type = 13 // end the interpreter that executes the turn, and what it has started
	TypePause     Type = 14 // the session is about to be paused
	TypeStdinEnd  Type = 15 // nothing follows on an interactive program's stdin
	TypeSignal    Type = 16 // one byte: the number of a signal for each process of an interactive program
)

// Frames from the agent.
const (
	TypeReady         Type = 65 // [Ready]
	TypeCompileOutput Type = 66
	TypeCompiled      Type = 67 // [Compiled]
	TypeStarted       Type = 68 // [Started]
	TypeStdout        Type = 69
	TypeStderr        Type = 70
	TypeExit          Type = 71 // [Exit]
	TypeArtifactBegin Type = 72 // [ArtifactBegin]
	TypeArtifactData  Type = 73
	TypeArtifactEnd   Type = 74
	TypeSkipped       Type = 75 // [Skipped]
	TypeFault         Type = 76 // [Fault]
	TypeEnd           Type = 77 // [End]
	TypePrepared      Type = 78 // [Prepared]
	TypeRefused       Type = 79 // [Refused]
	TypeCleared       Type = 80 // nothing is left of the run before: a test may come
	TypeTurned        Type = 81 // [Turned]
	TypeShown         Type = 82 // a piece of what an interpreter shows in a turn: lines of JSON, in its own words
)

// frameTypes says which end sends a type, and how long its payload may be.
var frameTypes = map[Type]struct {
	name      string
	least     int
	most      int
	fromAgent bool
	bulk      bool
}{
	TypeStart:         {"start", 1, MaxPayload, false, false},
	TypeFileBegin:     {"file begin", 1, 4096, false, false},
	TypeFileData:      {"file data", 1, MaxPayload, false, false},
	TypeStdinData:     {"stdin data", 1, MaxPayload, false, false},
	TypeGo:            {"go", 0, 0, false, false},
	TypeCredit:        {"credit", 4, 4, false, false},
	TypeKill:          {"kill", 0, 0, false, false},
	TypePrepare:       {"prepare", 1, MaxPayload, false, false},
	TypeResume:        {"resume", 0, 0, false, false},
	TypeTest:          {"test", 1, MaxPayload, false, false},
	TypeDone:          {"done", 0, 0, false, false},
	TypeTurn:          {"turn", 1, 4096, false, false},
	TypeRestart:       {"restart", 0, 0, false, false},
	TypePause:         {"pause", 0, 0, false, false},
	TypeStdinEnd:      {"stdin end", 0, 0, false, false},
	TypeSignal:        {"signal", 1, 1, false, false},
	TypeReady:         {"ready", 1, 4096, true, false},
	TypePrepared:      {"prepared", 1, 8192, true, false},
	TypeCompileOutput: {"compile output", 1, MaxPayload, true, true},
	TypeCompiled:      {"compiled", 1, 4096, true, false},
	TypeStarted:       {"started", 1, 4096, true, false},
	TypeStdout:        {"stdout", 1, MaxPayload, true, true},
	TypeStderr:        {"stderr", 1, MaxPayload, true, true},
	TypeExit:          {"exit", 1, 4096, true, false},
	TypeArtifactBegin: {"artifact begin", 1, 4096, true, false},
	TypeArtifactData:  {"artifact data", 1, MaxPayload, true, true},
	TypeArtifactEnd:   {"artifact end", 0, 0, true, false},
	TypeSkipped:       {"skipped", 1, 4096, true, false},
	TypeRefused:       {"refused", 1, 4096, true, false},
	TypeCleared:       {"cleared", 0, 0, true, false},
	TypeTurned:        {"turned", 1, 4096, true, false},
	TypeShown:         {"shown", 1, MaxPayload, true, true},
	TypeFault:         {"fault", 1, 8192, true, false},
	TypeEnd:           {"end", 1, 4096, true, false},
}

func (t Type) String() string {
	if k, ok := frameTypes[t]; ok {
		return k.name
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Bulk reports whether the payload of such a frame is paid for with credit.
func (t Type) Bulk() bool { return frameTypes[t].bulk }

// Frame is one message. Its payload is the receiver's to keep.
type Frame struct {
	Type    Type
	Payload []byte
}

// Decode reads the payload's JSON into v, and refuses what v has no field for.
func (f Frame) Decode(v any) error {
	if err := unmarshal(f.Payload, v); err != nil {
		return violation("%s: %v", f.Type, err)
	}
	return nil
}

// Cost is how much credit the frame uses up.
func (f Frame) Cost() int64 {
	if !f.Type.Bulk() {
		return 0
	}
	return int64(len(f.Payload)) + FrameCost
}

// Credit returns the grant that a credit frame carries.
func (f Frame) Credit() int64 { return int64(binary.BigEndian.Uint32(f.Payload)) }

// Reader reads the frames of one direction. It is for one goroutine.
type Reader struct {
	r         io.Reader
	fromAgent bool
	header    [headerSize]byte
}

// FromAgentReader reads what an agent sends.
func FromAgentReader(r io.Reader) *Reader { return &Reader{r: r, fromAgent: true} }

// FromHostReader reads what a worker sends.
func FromHostReader(r io.Reader) *Reader { return &Reader{r: r} }

// Next returns the next frame. The error is io.EOF only between two frames; one that
// wraps [ErrProtocol] means that the stream can't be trusted from here on.
func (r *Reader) Next() (Frame, error) {
	if _, err := io.ReadFull(r.r, r.header[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return Frame{}, violation("the stream ends inside a header")
		}
		return Frame{}, err
	}
	t, n := Type(r.header[0]), binary.BigEndian.Uint32(r.header[1:])
	k, known := frameTypes[t]
	switch {
	case !known || k.fromAgent != r.fromAgent:
		return Frame{}, violation("unexpected %s", t)
	case int64(n) < int64(k.least) || int64(n) > int64(k.most):
		return Frame{}, violation("%s of %d bytes, allowed are %d to %d", t, n, k.least, k.most)
	}
	f := Frame{Type: t, Payload: make([]byte, n)}
	if _, err := io.ReadFull(r.r, f.Payload); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return Frame{}, violation("the stream ends inside %s", t)
		}
		return Frame{}, err
	}
	return f, nil
}

// Writer writes frames, each in one call of the writer below, or those between Hold and Release. It may be used by
// several goroutines at once.
type Writer struct {
	mu       sync.Mutex
	w        io.Writer
	buf      []byte // nothing except what is held
	held     bool
	payloads [][]byte // the parts of buf that WriteFrom has filled
}

// maxHeld is how many bytes a Writer holds before it writes them all the same.
const maxHeld = MaxPayload

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, buf: make([]byte, 0, headerSize+4096)}
}

// Write sends one frame.
func (w *Writer) Write(t Type, payload []byte) error {
	k, known := frameTypes[t]
	if !known || len(payload) < k.least || len(payload) > k.most {
		return fmt.Errorf("write frame %s: %d bytes are not allowed", t, len(payload))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf, byte(t))
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(payload)))
	w.buf = append(w.buf, payload...)
	if w.held && len(w.buf) < maxHeld && t != TypeFault { // nothing else may come after that
		return nil
	}
	if err := w.flush(); err != nil {
		return fmt.Errorf("write frame %s: %w", t, err)
	}
	return nil
}

// flush writes what is in buf. Its caller has locked mu.
func (w *Writer) flush() error {
	_, err := w.w.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

// Hold keeps the frames that follow until Release, so that the other end wakes up once for all of them. It is for frames that nobody else
// has to wait for.
func (w *Writer) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// Release writes what is held, if anything, and ends Hold.
func (w *Writer) Release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	if len(w.buf) == 0 {
		return nil
	}
	if err := w.flush(); err != nil {
		return fmt.Errorf("write held frames: %w", err)
	}
	return nil
}

// WriteJSON sends v as one frame.
func (w *Writer) WriteJSON(t Type, v any) error {
	b, err := job.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frame %s: %w", t, err)
	}
	return w.Write(t, b)
}

// WriteChunks sends p in as many frames of the type as it needs, none if p is empty.
func (w *Writer) WriteChunks(t Type, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), MaxPayload)
		if err := w.Write(t, p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// WriteFrom sends n bytes in as few frames of the type as they need, all of them, and what is held, in one call
// of the writer below. fill is given their payloads to fill, in order.
func (w *Writer) WriteFrom(t Type, n int, fill func(payloads [][]byte) error) error {
	if k := frameTypes[t]; n < 1 || k.least > 1 || k.most != MaxPayload {
		return fmt.Errorf("write frames %s: %d bytes are not allowed", t, n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	frames := (n + MaxPayload - 1) / MaxPayload
	held := len(w.buf)
	w.buf = slices.Grow(w.buf, n+frames*headerSize)[:held+n+frames*headerSize]
	w.payloads = w.payloads[:0]
	for left := w.buf[held:]; len(left) > 0; {
		size := min(len(left)-headerSize, MaxPayload)
		left[0] = byte(t)
		binary.BigEndian.PutUint32(left[1:], uint32(size))
		w.payloads = append(w.payloads, left[headerSize:headerSize+size])
		left = left[headerSize+size:]
	}
	if err := fill(w.payloads); err != nil {
		w.buf = w.buf[:held]
		return err
	}
	if err := w.flush(); err != nil {
		return fmt.Errorf("write frames %s: %w", t, err)
	}
	return nil
}

// WriteStart sends s.
func (w *Writer) WriteStart(s Start) error {
	b, err := job.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode frame start: %w", err)
	}
	if len(b) > MaxStart {
		return fmt.Errorf("write frame start: %d bytes, allowed are %d", len(b), MaxStart)
	}
	return w.WriteChunks(TypeStart, b)
}

// WriteCredit grants n bytes.
func (w *Writer) WriteCredit(n int64) error {
	if n <= 0 || n > maxGrant {
		return fmt.Errorf("write frame credit: %d is out of range", n)
	}
	return w.Write(TypeCredit, binary.BigEndian.AppendUint32(nil, uint32(n)))
}
