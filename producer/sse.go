package producer

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

const (
	// maxSSEEvent bounds one event of a stream, its lines together: a result, which has
	// to fit in one.
	maxSSEEvent = maxAnswer + 1<<10
	// maxSSEName bounds an event's type and ID.
	maxSSEName = 200
)

var errSSETooLong = errors.New("an event of the stream is too long")

// sseEvent is one event of a stream of server-sent events, or, without data, a sign of
// life.
type sseEvent struct {
	id, name string
	data     []byte
}

// sseReader reads server-sent events as the HTML standard defines them, within bounds.
// Retry times are not read: who reads decides for itself when to come back.
type sseReader struct {
	r      *bufio.Reader
	begun  bool // the byte order mark is past
	cr     bool // the last line ended in a carriage return: a line feed is a part of that
	line   []byte
	length int // of the event's lines so far
}

func newSSEReader(r io.Reader) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 32<<10)}
}

// next returns the next event or comment. An event that the stream ends in the midst of
// is not one: then the error is io.EOF, or why the stream broke off.
func (s *sseReader) next() (sseEvent, error) {
	var e sseEvent
	s.length = 0
	var hasData bool
	for {
		line, err := s.readLine()
		if err != nil {
			return sseEvent{}, err
		}
		if len(line) == 0 {
			if hasData {
				e.data = e.data[:len(e.data)-1] // the last line's feed
				return e, nil
			}
			e = sseEvent{} // an event without data is none
			s.length = 0
			continue
		}
		field, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			if !hasData && e.id == "" && e.name == "" {
				return sseEvent{}, nil // a comment says that somebody is there
			}
		case "data":
			hasData = true
			e.data = append(append(e.data, value...), '\n')
		case "event":
			if len(value) > maxSSEName {
				return sseEvent{}, errSSETooLong
			}
			e.name = value
		case "id":
			if len(value) > maxSSEName {
				return sseEvent{}, errSSETooLong
			}
			if !strings.ContainsRune(value, 0) {
				e.id = value
			}
		}
	}
}

// readLine returns a line without its end, valid until the next call.
func (s *sseReader) readLine() ([]byte, error) {
	if !s.begun {
		s.begun = true
		if mark, err := s.r.Peek(3); err == nil && string(mark) == "\uFEFF" {
			_, _ = s.r.Discard(3) // it is in the buffer
		}
	}
	s.line = s.line[:0]
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			return nil, err
		}
		cr := s.cr
		s.cr = b == '\r'
		switch {
		case b == '\n' && cr:
			continue
		case b == '\n', b == '\r':
			return s.line, nil
		}
		if s.length++; s.length > maxSSEEvent {
			return nil, errSSETooLong
		}
		s.line = append(s.line, b)
	}
}
