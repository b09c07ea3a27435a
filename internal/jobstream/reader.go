package jobstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// headBytes bounds what is said of a batch as a whole.
const headBytes = 256 << 10

// Item is one job, as JSON that is well-formed.
type Item struct {
	// Index counts jobs from 0.
	Index int
	// Line that the job is in, from 1; 0 in the form that has no lines.
	Line int
	// JSON is valid until the next call of Next.
	JSON []byte
}

// Where says which job it is, for people: "jobs[3] (line 5)".
func (i Item) Where() string {
	if i.Line > 0 {
		return fmt.Sprintf("jobs[%d] (line %d)", i.Index, i.Line)
	}
	return fmt.Sprintf("jobs[%d]", i.Index)
}

// SyntaxError says that what was sent is no batch from some place on: nothing behind
// that place can be told apart.
type SyntaxError struct {
	// Where the fault is: "jobs[3] (line 5)", or "body".
	Where string
	// Message says what is wrong, Allowed what would be right.
	Message, Allowed string
	// TooLarge says that it is only too much.
	TooLarge bool
}

func (e *SyntaxError) Error() string { return e.Where + " " + e.Message + "; allowed: " + e.Allowed }

// Reader reads one batch. Not safe for concurrent use.
type Reader struct {
	// Head is what was said of the batch as a whole, a JSON object, or nil.
	Head []byte
	next func() (Item, error)
	err  error // what ended it
}

// Next returns the next job, and io.EOF behind the last one of a batch that is complete.
// Any other error ends the batch, too: a *[SyntaxError], or what its source failed with.
func (r *Reader) Next() (Item, error) {
	if r.err != nil {
		return Item{}, r.err
	}
	var item Item
	item, r.err = r.next()
	return item, r.err
}

// Holder is a source that is asked before more of a job is read than a buffer holds: bytes
// are those of the job so far. Its error ends the batch.
type Holder interface {
	Hold(bytes int64) error
}

// freeBytes of a job are held without asking.
const freeBytes = 32 << 10

// source is where a batch comes from. It notes why it could not be read on, which must
// not be mistaken for an end.
type source struct {
	r          io.Reader
	read, most int64
	whole      bool  // what is read from where the job begins is held
	begun      int64 // where the job begins that is being read
	held       int64 // of it
	err        error
}

// next begins with another job, at that place.
func (s *source) next(begin int64) { s.begun, s.held = begin, freeBytes }

// hold asks for so many bytes of the job that is being read.
func (s *source) hold(bytes int64) error {
	holder, ok := s.r.(Holder)
	if !ok || bytes <= s.held {
		return nil
	}
	s.held = bytes
	if s.err = holder.Hold(s.held); s.err != nil {
		return s.err
	}
	return nil
}

// errMost is answered beyond what may be read for now.
var errMost = errors.New("read beyond the bound")

func (s *source) Read(p []byte) (int, error) {
	if s.read >= s.most {
		return 0, errMost
	}
	p = p[:min(int64(len(p)), s.most-s.read)]
	if s.whole {
		if err := s.hold(s.read - s.begun + int64(len(p))); err != nil {
			return 0, err
		}
	}
	n, err := s.r.Read(p)
	s.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// fault is a syntax error, unless there is more behind it.
func (s *source) fault(err error, where string, most int64) error {
	var syntax *json.SyntaxError
	switch {
	case s.err != nil:
		return s.err
	case errors.Is(err, errMost):
		return tooLarge(where, most)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &SyntaxError{Where: where, Message: "ends too early", Allowed: "a complete JSON value"}
	case errors.As(err, &syntax):
		return &SyntaxError{Where: where, Message: "is not JSON: " + syntax.Error(), Allowed: "one JSON object"}
	}
	return fmt.Errorf("read %s: %w", where, err)
}

func tooLarge(where string, most int64) error {
	return &SyntaxError{Where: where, Message: "is too large", Allowed: fmt.Sprintf("up to %d bytes", most), TooLarge: true}
}
