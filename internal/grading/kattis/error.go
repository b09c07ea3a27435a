package kattis

import (
	"fmt"

	"github.com/glovebox-run/glovebox/job"
)

// Error says what is wrong with a package, or what of it this build can't do.
type Error struct {
	File    string // relative to the package
	Key     string // of a YAML file: "limits.memory"; "" for the file as a whole
	Problem string
}

func (e *Error) Error() string {
	if e.Key == "" {
		return e.File + ": " + e.Problem
	}
	return e.File + ": " + e.Key + ": " + e.Problem
}

func faultf(file, key, format string, args ...any) error {
	return &Error{file, key, fmt.Sprintf(format, args...)}
}

// unsupported names what this build can't do yet.
func unsupported(file, key, what string) error {
	return faultf(file, key, "%s not supported yet", what)
}

// clip shortens a value for an error message.
func clip(s string) string { return job.Clip(s, 64) }
