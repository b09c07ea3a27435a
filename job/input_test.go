package job_test

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
)

func TestInputCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in           job.Input
		field, words string // of the error; "" for none
	}{
		"text":                {job.Input{Data: "1\n"}, "", ""},
		"bytes":               {job.Input{DataBase64: "AP8="}, "", ""},
		"an end":              {job.Input{EOF: true}, "", ""},
		"a signal":            {job.Input{Signal: "SIGWINCH"}, "", ""},
		"all":                 {job.Input{Data: "1", EOF: true, Signal: "SIGKILL"}, "", ""},
		"as much as may be":   {job.Input{Data: strings.Repeat("x", job.MaxInputBytes)}, "", ""},
		"nothing":             {job.Input{}, "data", "is empty"},
		"both":                {job.Input{Data: "1", DataBase64: "AP8="}, "data_base64", "one of the two"},
		"no base64":           {job.Input{DataBase64: "AP8"}, "data_base64", "RFC 4648"},
		"lines of base64":     {job.Input{DataBase64: "AP8=\n"}, "data_base64", "RFC 4648"},
		"no text":             {job.Input{Data: "\xff"}, "data", "data_base64"},
		"too much":            {job.Input{Data: strings.Repeat("x", job.MaxInputBytes+1)}, "data", "65536"},
		"another signal":      {job.Input{Signal: "SIGRTMIN"}, "signal", "SIGINT"},
		"a signal's number":   {job.Input{Signal: "9"}, "signal", "SIGKILL"},
		"a signal in letters": {job.Input{Signal: "sigint"}, "signal", "SIGINT"},
	} {
		err := c.in.Check()
		if c.field == "" && err != nil || c.field != "" && (err == nil || !strings.HasPrefix(err.Error(), c.field+": ") || !strings.Contains(err.Error(), c.words)) {
			t.Errorf("%s: got %v, want %s %s", name, err, c.field, c.words)
		}
	}
}

// TestSignals: the numbers are those of this system, which is of one of the two architectures.
func TestSignals(t *testing.T) {
	t.Parallel()
	all := job.Signals()
	if len(all) != 30 {
		t.Errorf("got %d signals", len(all))
	}
	for _, name := range all {
		if got, want := syscall.Signal(job.SignalNumber(name)), unix.SignalNum(name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
	if job.SignalNumber("") != 0 || job.SignalNumber("x") != 0 {
		t.Error("what is no signal has a number")
	}
}
