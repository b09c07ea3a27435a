package jobstream

import (
	"bytes"
	"encoding/json"
	"io"
)

// Object reads one JSON object whose jobs have at most so many bytes each. It reads up
// to the list of jobs to know the Head.
func Object(r io.Reader, most int64) (*Reader, error) {
	src := &source{r: r, whole: true}
	o := &object{src: src, dec: json.NewDecoder(src), most: most}
	head, err := o.head()
	if err != nil {
		return nil, err
	}
	return &Reader{Head: head, next: o.next}, nil
}

type object struct {
	src   *source
	dec   *json.Decoder
	most  int64
	index int
	raw   json.RawMessage
}

// allow lets the decoder read so many bytes from where it is.
func (o *object) allow(bytes int64) { o.src.most = o.dec.InputOffset() + bytes + 1 }

// head reads what stands before the jobs, and returns it as an object of its own.
func (o *object) head() ([]byte, error) {
	const where = "body"
	o.allow(headBytes)
	o.src.next(headBytes) // which is bounded already
	token, err := o.dec.Token()
	if err != nil {
		return nil, o.src.fault(err, where, headBytes)
	}
	if token != json.Delim('{') {
		return nil, &SyntaxError{Where: where, Message: "is not an object", Allowed: `{"jobs": [{…}, …]}`}
	}
	head := []byte{'{'}
	for o.dec.More() {
		token, err := o.dec.Token()
		if err != nil {
			return nil, o.src.fault(err, where, headBytes)
		}
		name, _ := token.(string) // a well-formed object has no other names
		if name == "jobs" {
			return append(head, '}'), o.openList()
		}
		var value json.RawMessage
		if err := o.dec.Decode(&value); err != nil {
			return nil, o.src.fault(err, where, headBytes)
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if len(head) > 1 {
			head = append(head, ',')
		}
		head = append(append(append(head, quoted...), ':'), value...)
	}
	if _, err := o.dec.Token(); err != nil {
		return nil, o.src.fault(err, where, headBytes)
	}
	return nil, &SyntaxError{Where: where, Message: "has no jobs", Allowed: `{"jobs": [{…}, …]}`}
}

func (o *object) openList() error {
	token, err := o.dec.Token()
	if err != nil {
		return o.src.fault(err, "jobs", headBytes)
	}
	if token != json.Delim('[') {
		return &SyntaxError{Where: "jobs", Message: "is not an array", Allowed: `[{…}, …]`}
	}
	return nil
}

func (o *object) next() (Item, error) {
	item := Item{Index: o.index}
	o.allow(o.most + headBytes) // the space before a job is not the job's
	o.src.next(o.dec.InputOffset())
	if !o.dec.More() {
		return Item{}, o.end(item.Where())
	}
	o.raw = o.raw[:0]
	if cap(o.raw) > 1<<20 {
		o.raw = nil // one large job must not cost its size for ever
	}
	if err := o.dec.Decode(&o.raw); err != nil {
		return Item{}, o.src.fault(err, item.Where(), o.most)
	}
	if int64(len(o.raw)) > o.most {
		return Item{}, tooLarge(item.Where(), o.most)
	}
	o.index++
	item.JSON = o.raw
	return item, nil
}

// end reads what has to follow the jobs: the end of the list, of the object and of the body.
func (o *object) end(where string) error {
	if _, err := o.dec.Token(); err != nil { // the list's end, or what stands in its place
		return o.src.fault(err, where, o.most)
	}
	token, err := o.dec.Token()
	if err != nil {
		return o.src.fault(err, "body", headBytes)
	}
	if token != json.Delim('}') {
		return &SyntaxError{Where: "body", Message: "goes on behind jobs", Allowed: "jobs as the last field"}
	}
	o.allow(2 * headBytes)
	rest, err := io.ReadAll(io.MultiReader(o.dec.Buffered(), o.src))
	if err != nil {
		return o.src.fault(err, "body", headBytes)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return &SyntaxError{Where: "body", Message: "goes on behind its end", Allowed: "one JSON object"}
	}
	return io.EOF
}
