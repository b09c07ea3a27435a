package jobstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
)

// Lines reads JSON Lines whose jobs have at most so many bytes each. It reads up to the
// first job to know the Head.
func Lines(r io.Reader, most int64) (*Reader, error) {
	src := &source{r: r, most: math.MaxInt64}
	l := &lines{src: src, buffered: bufio.NewReaderSize(src, 32<<10), most: most}
	item, err := l.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	head, isHead, headErr := headLine(item)
	if headErr != nil {
		return nil, headErr
	}
	if isHead {
		l.index = 0
		return &Reader{Head: head, next: l.next}, nil
	}
	first := true
	return &Reader{next: func() (Item, error) {
		if first {
			first = false
			return item, err
		}
		return l.next()
	}}, nil
}

type lines struct {
	src         *source
	buffered    *bufio.Reader
	most        int64
	index, line int
	long        []byte // a line that is longer than what is buffered
}

// next returns the next line that isn't blank.
func (l *lines) next() (Item, error) {
	for {
		text, err := l.read()
		l.line++
		item := Item{Index: l.index, Line: l.line, JSON: bytes.TrimSpace(text)}
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return Item{}, l.src.fault(err, item.Where(), l.most)
		case len(item.JSON) > 0:
			l.index++
			return item, l.valid(item)
		case err != nil:
			return Item{}, io.EOF
		}
	}
}

// read returns the next line, with io.EOF for the last one.
func (l *lines) read() ([]byte, error) {
	text, err := l.buffered.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	if cap(l.long) > 1<<20 {
		l.long = nil // one large job must not cost its size for ever
	}
	l.long = l.long[:0]
	l.src.next(0)
	for {
		if int64(len(l.long))+int64(len(text)) > l.most+1 { // a line's end is not the job's
			return nil, errMost
		}
		if err := l.src.hold(int64(len(l.long) + len(text))); err != nil {
			return nil, err
		}
		l.long = append(l.long, text...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
		text, err = l.buffered.ReadSlice('\n')
	}
}

func (l *lines) valid(item Item) error {
	if int64(len(item.JSON)) > l.most {
		return tooLarge(item.Where(), l.most)
	}
	if json.Valid(item.JSON) {
		return nil
	}
	return l.src.fault(json.Unmarshal(item.JSON, new(any)), item.Where(), l.most) // says where; it checks before it builds
}

// headLine returns what a first line says of the batch, if it is one that does.
func headLine(item Item) (head []byte, ok bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(item.JSON))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, false, nil //nolint:nilerr // an empty batch, or some other value, which is no head
	}
	if name, err := dec.Token(); err != nil || name != "batch" {
		return nil, false, nil //nolint:nilerr // the JSON is well-formed, so it is an empty object
	}
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return nil, false, err
	}
	if dec.More() {
		return nil, false, &SyntaxError{Where: "line 1", Message: "has other fields beside batch", Allowed: `{"batch": {…}}, and the jobs in lines of their own`}
	}
	if len(raw) > headBytes {
		return nil, false, tooLarge("batch", headBytes)
	}
	return raw, true, nil
}
