package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Getenv answers the value of a variable, "" when it is not set, as os.Getenv does.
type Getenv func(name string) string

// Reader reads variables and keeps what was wrong with each. Not safe for concurrent use.
type Reader struct {
	getenv Getenv
	errs   []error
}

// NewReader returns a Reader of the environment that getenv answers from.
func NewReader(getenv Getenv) *Reader { return &Reader{getenv: getenv} }

// Err is everything that was wrong so far, one fault a line, or nil.
func (r *Reader) Err() error { return errors.Join(r.errs...) }

// Fault adds a fault of the variable name. The message says what is wrong and what is
// allowed; it must not repeat the value of a secret.
func (r *Reader) Fault(name, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s %s", name, fmt.Sprintf(format, args...)))
}

// String returns the variable, or otherwise if it is not set.
func (r *Reader) String(name, otherwise string) string {
	if v := r.getenv(name); v != "" {
		return v
	}
	return otherwise
}

// Required returns a variable that must be set. what says in words what it holds.
func (r *Reader) Required(name, what string) string {
	v := r.getenv(name)
	if v == "" {
		r.Fault(name, "is not set: want %s", what)
	}
	return v
}

// Secret returns a variable, or what the file holds that its _FILE twin names, or "".
func (r *Reader) Secret(name string) string {
	v, file := r.getenv(name), r.getenv(name+"_FILE")
	switch {
	case v != "" && file != "":
		r.Fault(name, "and %s_FILE are both set: want one", name)
	case file != "":
		b, err := os.ReadFile(file)
		if err != nil {
			r.Fault(name+"_FILE", "can't be read: %v", err)
			return ""
		}
		if v = strings.TrimSpace(string(b)); v == "" {
			r.Fault(name+"_FILE", "names an empty file: %s", file)
		}
	}
	return v
}

// RequiredSecret is [Reader.Secret] for one that must be there.
func (r *Reader) RequiredSecret(name, what string) string {
	before := len(r.errs)
	v := r.Secret(name)
	if v == "" && len(r.errs) == before {
		r.Fault(name, "is not set, nor is %s_FILE: want %s", name, what)
	}
	return v
}

// Int returns a whole number from least to most, or otherwise if it is not set.
func (r *Reader) Int(name string, otherwise, least, most int) int {
	v := r.getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		r.Fault(name, "is %q: want a whole number from %d to %d", v, least, most)
		return otherwise
	}
	return n
}

// Count returns a whole number of units from least to most, as a duration.
func (r *Reader) Count(name string, unit time.Duration, otherwise, least, most int) time.Duration {
	return time.Duration(r.Int(name, otherwise, least, most)) * unit
}

// Bool returns true or false, or otherwise if it is not set.
func (r *Reader) Bool(name string, otherwise bool) bool {
	switch v := r.getenv(name); v {
	case "":
		return otherwise
	case "1", "true", "yes":
		return true
	case "0", "false", "no":
		return false
	default:
		r.Fault(name, "is %q: want true or false", v)
		return otherwise
	}
}

// Choice returns one of allowed, the first of them if it is not set.
func (r *Reader) Choice(name string, allowed ...string) string {
	v := r.getenv(name)
	if v == "" {
		return allowed[0]
	}
	if !slices.Contains(allowed, v) {
		r.Fault(name, "is %q: want %s", v, strings.Join(allowed, " or "))
		return allowed[0]
	}
	return v
}
