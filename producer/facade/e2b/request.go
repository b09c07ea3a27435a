package e2b

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// request is the body of a request, a JSON object. Fields that nobody asks for are ignored.
type request map[string]json.RawMessage

// readRequest reads it; an empty body is an empty object. What it takes is held until the request is answered. It fails with a
// facade.BadRequest.
func readRequest(ctx context.Context, r *http.Request, c *facade.Call) (request, error) {
	q, _, err := readHeld(ctx, r, c)
	return q, err
}

// readHeld is readRequest for a request whose answer takes long: what it takes is held until done.
func readHeld(ctx context.Context, r *http.Request, c *facade.Call) (q request, done func(), err error) {
	body, done, err := readBody(ctx, r, c, zippedRequest)
	if err != nil {
		return nil, nil, err
	}
	if q, err = parseRequest(body); err != nil {
		done()
	}
	return q, done, err
}

func parseRequest(body []byte) (request, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return request{}, nil
	}
	if err := errors.Join(facade.CheckEntries(body, maxEntries), facade.CheckText(body)); err != nil {
		return nil, err
	}
	var q request
	if err := json.Unmarshal(body, &q); err != nil || q == nil {
		return nil, facade.BadRequest("the body is not a JSON object")
	}
	return q, nil
}

// maxEntries is how many entries all objects and arrays of a body may have together.
const maxEntries = 4096

// readBody reads a body, which may be compressed with gzip. What it takes is held until done, which may
// be called more than once.
func readBody(ctx context.Context, r *http.Request, c *facade.Call, z zipped) (body []byte, done func(), err error) {
	body, bodyDone, err := c.Host.Body(ctx)
	if err != nil {
		return nil, nil, err
	}
	switch coding := strings.ToLower(r.Header.Get("Content-Encoding")); coding {
	case "", "identity":
		return body, bodyDone, nil
	case "gzip":
		text, textDone, err := unzip(ctx, c, body, z)
		if err != nil {
			bodyDone()
			return nil, nil, err
		}
		return text, func() { bodyDone(); textDone() }, nil
	default:
		bodyDone()
		return nil, nil, statusError{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Encoding %.40q is not known: want gzip", coding)}
	}
}

// zipped is what may come compressed.
type zipped struct {
	most   int64 // bytes, unzipped
	weight int64 // how many times its size it takes, unzipped
}

var (
	// zippedRequest is far more than code has, and so little that what is made of it fits into the memory for bodies: it is there as it
	// is, and three times while it is read and stored, as a body that is not compressed.
	zippedRequest = zipped{8 << 20, 4}
	// zippedFiles are as much as a whole body may have without it, and are stored as they are.
	zippedFiles = zipped{32 << 20, 1}
)

// unzip decompresses, within the memory that bodies have: once to know how much it is, and once to have it.
func unzip(ctx context.Context, c *facade.Call, body []byte, z zipped) (text []byte, done func(), err error) {
	bad := facade.BadRequest("the body is not compressed with gzip, as its Content-Encoding says")
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, nil, bad
	}
	size, err := io.Copy(io.Discard, io.LimitReader(reader, z.most+1))
	switch {
	case err != nil:
		return nil, nil, bad
	case size > z.most:
		return nil, nil, statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes, unzipped", z.most)}
	}
	if done, err = c.Host.Work(ctx, z.weight*size); err != nil {
		return nil, nil, err
	}
	if err := reader.Reset(bytes.NewReader(body)); err != nil {
		done()
		return nil, nil, bad
	}
	text = make([]byte, size)
	if _, err := io.ReadFull(reader, text); err != nil {
		done()
		return nil, nil, bad
	}
	return text, done, nil
}

// has reports whether a field says anything.
func (q request) has(name string) bool {
	v, ok := q[name]
	return ok && string(v) != "null"
}

// text is a string's value, "" where there is none. It fails with a facade.BadRequest, as all of these.
func (q request) text(name string) (string, error) {
	if !q.has(name) {
		return "", nil
	}
	s, ok := facade.Text(q[name])
	if !ok {
		return "", wrong(name, q[name], "a string")
	}
	return s, nil
}

// texts is an object of strings, nil where there is none.
func (q request) texts(name string) (map[string]string, error) {
	if !q.has(name) {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(q[name], &fields) != nil {
		return nil, wrong(name, q[name], "an object of strings")
	}
	of := make(map[string]string, len(fields))
	for key, v := range fields {
		s, ok := facade.Text(v)
		if !ok {
			return nil, wrong(name+"."+job.Clip(key, 60), v, "a string")
		}
		of[key] = s
	}
	return of, nil
}

// list is an array of strings, nil where there is none.
func (q request) list(name string) ([]string, error) {
	if !q.has(name) {
		return nil, nil
	}
	var items []json.RawMessage
	if json.Unmarshal(q[name], &items) != nil {
		return nil, wrong(name, q[name], "an array of strings")
	}
	of := make([]string, len(items))
	for i, v := range items {
		s, ok := facade.Text(v)
		if !ok {
			return nil, wrong(fmt.Sprintf("%s[%d]", name, i), v, "a string")
		}
		of[i] = s
	}
	return of, nil
}

// number is a whole number of 0 or more; ok is false where there is none.
func (q request) number(name string) (n int64, ok bool, err error) {
	if !q.has(name) {
		return 0, false, nil
	}
	var f float64
	if json.Unmarshal(q[name], &f) != nil || f < 0 || f != math.Trunc(f) || f > math.MaxInt32 {
		return 0, false, wrong(name, q[name], "a whole number of 0 or more")
	}
	return int64(f), true, nil
}

// truth is a boolean, false where there is none.
func (q request) truth(name string) (b bool, err error) {
	if q.has(name) && json.Unmarshal(q[name], &b) != nil {
		return false, wrong(name, q[name], "true or false")
	}
	return b, nil
}

// object is a field that is one; empty where there is none.
func (q request) object(name string) (request, error) {
	var of request
	if q.has(name) && json.Unmarshal(q[name], &of) != nil {
		return nil, wrong(name, q[name], "an object")
	}
	return of, nil
}

func wrong(name string, value json.RawMessage, want string) error {
	return facade.BadRequest(fmt.Sprintf("%s is %s: want %s", name, job.Clip(string(value), 60), want))
}
