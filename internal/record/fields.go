package record

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// fields reads a hash. The first field that can't be read is its err.
type fields struct {
	of  string // what the hash is, for the error
	f   map[string]string
	err error
}

// ErrUnreadable means that a record is not what Glovebox writes: to read it again changes nothing.
var ErrUnreadable = errors.New("the record is unreadable")

func (r *fields) fail(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("read field %s of %s: %w: %w", name, r.of, ErrUnreadable, err)
	}
}

// number is 0 where there is no such field.
func (r *fields) number(name string) int64 {
	if r.f[name] == "" {
		return 0
	}
	n, err := strconv.ParseInt(r.f[name], 10, 64)
	r.fail(name, err)
	return n
}

// at is a time in milliseconds, zero where there is no such field.
func (r *fields) at(name string) time.Time {
	if n := r.number(name); n != 0 {
		return time.UnixMilli(n).UTC()
	}
	return time.Time{}
}
