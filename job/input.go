package job

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxInputBytes bounds the data of one [Input].
	MaxInputBytes = 64 << 10
	// MaxInputTotal bounds what a job takes in while it runs: all inputs as JSON, and [InputCost] for each. All of
	// it is kept until the job ends, for a worker that has to run it again.
	MaxInputTotal = 256 << 10
	// InputCost is what an input counts beside its JSON.
	InputCost = 64
)

// Input is what a program that runs is sent, where its [Spec] says Interactive: data for its standard input, the end
// of that, a signal; in this order where there are several.
type Input struct {
	// Data is text for its standard input, DataBase64 bytes. Up to [MaxInputBytes].
	Data       string `json:"data,omitempty" doc:"Text for its standard input, up to 64 KiB; programs that read lines want one at its end." example:"42\n"`
	DataBase64 string `json:"data_base64,omitempty" doc:"Instead of data: bytes, in standard base64."`
	// EOF closes its standard input behind the data: nothing more can be sent to it.
	EOF bool `json:"eof,omitempty" doc:"Close its standard input, behind data: a program that reads to the end goes on."`
	// Signal is sent to each of its processes: one of [Signals].
	Signal string `json:"signal,omitempty" doc:"Send each of its processes this signal." enum:"SIGHUP,SIGINT,SIGQUIT,SIGILL,SIGTRAP,SIGABRT,SIGBUS,SIGFPE,SIGKILL,SIGUSR1,SIGSEGV,SIGUSR2,SIGPIPE,SIGALRM,SIGTERM,SIGCHLD,SIGCONT,SIGSTOP,SIGTSTP,SIGTTIN,SIGTTOU,SIGURG,SIGXCPU,SIGXFSZ,SIGVTALRM,SIGPROF,SIGWINCH,SIGIO,SIGPWR,SIGSYS" example:"SIGINT"`
}

// signals are Linux's, by their numbers on x86-64 and ARM64 (signal(7)).
var signals = []string{
	"", "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2",
	"SIGPIPE", "SIGALRM", "SIGTERM", "", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU",
	"SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
}

// SignalNumber is the number of a signal that an [Input] may name, 0 for any other name.
func SignalNumber(name string) int {
	return max(slices.Index(signals, name), 0)
}

// Signals are the names of the signals that an [Input] may name.
func Signals() []string {
	return slices.DeleteFunc(slices.Clone(signals), func(s string) bool { return s == "" })
}

// Bytes returns the data. It fails when DataBase64 is no base64.
func (in Input) Bytes() ([]byte, error) {
	return File{Content: in.Data, ContentBase64: in.DataBase64}.Bytes()
}

// Check returns what is wrong with the input as [Invalid], or nil.
func (in Input) Check() error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	data, err := in.Bytes()
	switch {
	case in.Data != "" && in.DataBase64 != "":
		add("data_base64", Clip(in.DataBase64, 100), "is there beside data", "one of the two")
	case err != nil, strings.ContainsAny(in.DataBase64, "\r\n"): // which Go's decoder passes over
		add("data_base64", Clip(in.DataBase64, 100), "is not base64", "standard base64 with padding (RFC 4648)")
	case !utf8.ValidString(in.Data):
		add("data", nil, "is not UTF-8", "text; bytes go in data_base64")
	case len(data) > MaxInputBytes:
		add("data", fmt.Sprintf("%d bytes", len(data)), "is too large", fmt.Sprintf("up to %d bytes; more in several inputs", MaxInputBytes))
	case len(data) == 0 && !in.EOF && in.Signal == "":
		add("data", nil, "is empty", "data, data_base64, eof or signal")
	}
	if in.Signal != "" && SignalNumber(in.Signal) == 0 {
		add("signal", Clip(in.Signal, 100), "is not known", strings.Join(Signals(), ", "))
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// checkInteractive checks what a job that takes input while it runs can't have.
func (s Spec) checkInteractive(add addFunc) {
	if s.Interactive && s.Graded() {
		add("interactive", true, "can't be together with tests", "nothing: each test has its stdin")
	}
}
