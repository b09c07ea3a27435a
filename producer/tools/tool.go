package tools

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Glovebox is what tools work with: the API's client, or the one over Redis.
type Glovebox interface {
	producer.Jobs
	producer.Watcher
	producer.Files
	producer.Catalog
	producer.Sessions
	// InputFile returns a file of an execution: with its content if that is small, else as an upload.
	InputFile(ctx context.Context, name string, content []byte) (job.File, error)
}

// MaxWait is how long a call may take by default: most programs that ask on a model's behalf give up
// after a minute.
const MaxWait = 50 * time.Second

// Caller says for whom a tool is called, and how long that may take.
type Caller struct {
	Glovebox Glovebox
	// MaxWait bounds a call. A job that lasts longer goes on, and the answer says how to ask for it.
	MaxWait time.Duration
	// Report, if set, is told what went wrong in Glovebox: a model is only told to try again.
	Report func(err error)
	// Remote says that Glovebox is away over a network: each request that changes something has an idempotency key, and is repeated where its answer is lost.
	Remote bool
	// Progress, if set, is told the last line that a program printed, at most twice a second.
	Progress func(line string)
}

// key is the idempotency key of a request.
func (c Caller) key() string {
	if !c.Remote {
		return ""
	}
	return rand.Text()
}

// Tool is something that a model can call.
type Tool struct {
	Name  string
	Title string
	// Description is for the model.
	Description string
	// Scopes are those that a token needs.
	Scopes []job.Scope
	// ReadOnly: a call changes nothing.
	ReadOnly bool
	// Input is the JSON Schema of its arguments.
	Input json.RawMessage
	// textOnly: its answers have no Outcome.
	textOnly bool
	// destructive: what it ends is gone. Done twice, it is as done once.
	destructive bool
	call        func(ctx context.Context, c Caller, arguments []byte) (Answer, error)
}

// The tools' names.
const (
	RunCode      = "run_code"
	GetJob       = "get_job"
	ReadFile     = "read_file"
	WriteFile    = "write_file"
	ListSessions = "list_sessions"
	EndSession   = "end_session"
)

// Tools returns the tools, always in the same order. languages are the names of runtimes that
// run_code can be given; none: any.
func Tools(languages []string) []Tool {
	return []Tool{runCode(languages), getJob(), readFile(), writeFile(), listSessions(), endSession()}
}

// ErrNoTool is what Find answers for a name that no tool has.
var ErrNoTool = errors.New("there is no such tool; there are " + RunCode + ", " + GetJob + ", " + ReadFile + ", " + WriteFile + ", " + ListSessions + " and " + EndSession)

// Find returns the tool of that name, or ErrNoTool.
func Find(name string) (Tool, error) {
	for _, t := range Tools(nil) {
		if t.Name == name {
			return t, nil
		}
	}
	return Tool{}, ErrNoTool
}

// Call calls the tool with a JSON object of arguments. What is wrong with these, and what Glovebox
// refuses, is an answer for the model to read, with IsError. Call fails with ctx's error, and
// then has asked for the end of the job.
func (t Tool) Call(ctx context.Context, c Caller, arguments []byte) (Answer, error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = []byte("{}")
	}
	answer, err := t.callSafely(ctx, c, arguments)
	if err != nil && ctx.Err() != nil {
		return Answer{}, ctx.Err()
	}
	if err != nil {
		if _, known := said(err); !known {
			c.report(err)
		}
		return failed(err), nil
	}
	return answer, nil
}

// callSafely makes an error of a panic: servers call tools where nobody else would.
func (t Tool) callSafely(ctx context.Context, c Caller, arguments []byte) (answer Answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("tool %s: panic: %v\n%s", t.Name, v, debug.Stack())
		}
	}()
	return t.call(ctx, c, arguments)
}

func (c Caller) report(err error) {
	if c.Report != nil {
		c.Report(err)
	}
}

// decode reads arguments. What is wrong with them is said in words that a model can mend them by.
func decode[T any](arguments []byte) (T, error) {
	in, err := strictjson.Decode[T](arguments, "arguments")
	if err != nil {
		err = argumentError(err.Error())
	}
	return in, err
}

// argumentError says what is wrong with a call's arguments.
type argumentError string

func (e argumentError) Error() string { return string(e) }

// Languages returns the names of the runtimes that programs can have; none while no worker has
// published any.
func Languages(ctx context.Context, catalog producer.Catalog) ([]string, error) {
	runtimes, err := catalog.Runtimes(ctx)
	if err != nil && !errors.Is(err, job.ErrNoRuntimes) {
		return nil, err
	}
	names := make([]string, 0, len(runtimes))
	for _, r := range runtimes {
		names = append(names, r.Name)
	}
	return names, nil
}
