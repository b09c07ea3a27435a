package e2b

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// pidKey is where the metadata of an execution has the number by which clients know the program that it runs.
const pidKey = "e2b.pid"

// process answers a call of envd's service of processes.
func process(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	x, err := sandboxOf(ctx, r, c)
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	q, done, err := readCall(ctx, r, c)
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	switch method := r.PathValue("method"); method {
	case "Start":
		startProcess(ctx, w, r, c, x, q, done)
	case "Connect":
		connectProcess(ctx, w, r, c, x, q, done)
	case "List":
		listProcesses(w, r, c, x)
	default:
		failCall(w, r, c, callError{"unimplemented", fmt.Sprintf("%.40s of processes is not there: want Start, Connect, List or SendSignal; nothing can be written to a program that runs", method)})
	}
}

// startProcess runs a program, and tells what it prints as it comes. done gives back what the request takes.
func startProcess(ctx context.Context, w http.ResponseWriter, r *http.Request, c *facade.Call, x job.Session, q request, done func()) {
	ctx, cancel := withTimeout(ctx, r)
	defer cancel()
	execution, pid, err := prepareProcess(x, q)
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	id, err := c.Execute(ctx, x.ID, execution)
	done() // a program that runs holds nothing of the body
	if err != nil {
		failCall(w, r, c, executionFault(err))
		return
	}
	c.Host.Note(id)
	p := &watched{stream: stream{w: w}, call: c, id: id, pid: pid}
	if err := p.tell(ctx); err != nil {
		p.fail(r, errors.Join(err, c.Abandon(ctx, id))) // nobody reads what it prints now
	}
}

// connectProcess tells what a program prints that was started before, from its beginning. done gives back what the request takes.
func connectProcess(ctx context.Context, w http.ResponseWriter, r *http.Request, c *facade.Call, x job.Session, q request, done func()) {
	ctx, cancel := withTimeout(ctx, r)
	defer cancel()
	pid, err := pidOf(q)
	done()
	if err == nil {
		err = c.Host.May(job.ScopeRead) // another client's output, maybe
	}
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	found, err := findProcess(ctx, c, x, pid)
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	p := &watched{stream: stream{w: w}, call: c, id: found.ID, pid: pid}
	if err := p.tell(ctx); err != nil {
		p.fail(r, err)
	}
}

// withTimeout ends a call when the client says that it is over.
func withTimeout(ctx context.Context, r *http.Request) (context.Context, context.CancelFunc) {
	if ms, err := strconv.ParseInt(r.Header.Get("Connect-Timeout-Ms"), 10, 64); err == nil && ms > 0 && ms < 1e10 {
		return context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
	}
	return context.WithCancel(ctx)
}

// prepareProcess reads what is to be run.
func prepareProcess(x job.Session, q request) (e job.SessionExecution, pid int, err error) {
	if q.has("pty") {
		return e, 0, callError{"unimplemented", "there are no terminals here"}
	}
	if stdin, err := q.truth("stdin"); err != nil || stdin {
		return e, 0, errors.Join(err, callError{"unimplemented", "nothing can be written to a program that runs: want stdin false"})
	}
	config, err := q.object("process")
	if err != nil {
		return e, 0, err
	}
	cmd, err := config.text("cmd")
	if err != nil {
		return e, 0, err
	}
	args, err := config.list("args")
	if err != nil {
		return e, 0, err
	}
	envs, err := config.texts("envs")
	if err != nil {
		return e, 0, err
	}
	cwd, err := config.text("cwd")
	if err != nil {
		return e, 0, err
	}
	if cmd == "" {
		return e, 0, facade.BadRequest("process.cmd is missing: want a program")
	}
	if cwd == "" {
		cwd = home
	}
	if cwd, err = absolute(cwd); err != nil {
		return e, 0, err
	}
	of := errand{"do": "run", "cmd": cmd, "args": append([]string{}, args...), "envs": envs, "cwd": cwd}
	if envs == nil {
		of["envs"] = map[string]string{}
	}
	if e, err = of.execution(x); err != nil {
		return e, 0, err
	}
	pid = 1 + rand.IntN(1<<22) //nolint:gosec // a number to find it by, which is checked against the tenant's own
	e.Metadata[pidKey] = strconv.Itoa(pid)
	inEnvd(x, &e)
	return e, pid, nil
}

// watched is a program of which a client is told.
type watched struct {
	stream

	call           *facade.Call
	id             string
	pid            int
	stdout, stderr output
}

// What is told of a program. Bytes are base64.
type (
	processMessage struct {
		Event processEvent `json:"event"`
	}
	processEvent struct {
		Start     *processStart `json:"start,omitempty"`
		Data      *processData  `json:"data,omitempty"`
		End       *processEnd   `json:"end,omitempty"`
		Keepalive *struct{}     `json:"keepalive,omitempty"`
	}
	processStart struct {
		PID int `json:"pid"`
	}
	processData struct {
		Stdout []byte `json:"stdout,omitempty"`
		Stderr []byte `json:"stderr,omitempty"`
	}
	processEnd struct {
		ExitCode int    `json:"exitCode"`
		Exited   bool   `json:"exited"`
		Status   string `json:"status"`
		Error    string `json:"error,omitempty"`
	}
)

// tell follows the program to its end.
func (p *watched) tell(ctx context.Context) error {
	for e, err := range p.call.Host.Watch(ctx, p.id, keepalive) {
		switch {
		case err != nil:
		case e.Type == "":
			err = p.event(processEvent{Keepalive: &struct{}{}})
		case e.Type == producer.EventStatus && !p.begun:
			err = p.event(processEvent{Start: &processStart{p.pid}})
		case e.Type == producer.EventStdout:
			err = p.data(processData{Stdout: p.stdout.take(e)})
		case e.Type == producer.EventStderr:
			err = p.data(processData{Stderr: p.stderr.take(e)})
		case e.Type == producer.EventResult:
			return p.end(ctx, *e.Job.Result)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("watch execution %s: it has no end", p.id)
}

func (p *watched) event(e processEvent) error { return p.send(0, processMessage{e}) }

func (p *watched) data(d processData) error {
	if len(d.Stdout)+len(d.Stderr) == 0 {
		return nil
	}
	return p.event(processEvent{Data: &d})
}

// end tells how the program ended.
func (p *watched) end(ctx context.Context, r job.Result) error {
	var fault error
	if r.Status != job.Failed || r.ExitCode == nil || *r.ExitCode == refusedCode && refusedBy(ctx, p.call, r) {
		fault = faultOf(ctx, p.call, r)
	}
	interrupted := r.Status == job.Canceled && (r.Error == nil || r.Error.Code != job.CodeSessionEnded)
	if fault != nil && !interrupted {
		return fault
	}
	err := p.rest(ctx, r, producer.Stdout, &p.stdout, func(b []byte) error { return p.data(processData{Stdout: b}) })
	if err == nil && !interrupted { // else there is what the one who runs it says of that
		err = p.rest(ctx, r, producer.Stderr, &p.stderr, func(b []byte) error { return p.data(processData{Stderr: b}) })
	}
	said := processEnd{Exited: true, Status: "exit status 0"}
	switch {
	case interrupted:
		said = processEnd{ExitCode: -1, Status: "signal: killed", Error: "signal: killed"}
	case r.Status != job.Succeeded:
		said.ExitCode = *r.ExitCode
		said.Status = fmt.Sprintf("exit status %d", said.ExitCode)
		said.Error = said.Status
	}
	if err == nil {
		err = p.event(processEvent{End: &said})
	}
	if err == nil {
		err = p.send(endOfStream, streamEnd{})
	}
	return err
}

// rest tells what was not told of a stream yet.
func (p *watched) rest(ctx context.Context, r job.Result, stream string, o *output, tell func([]byte) error) error {
	if err := restOf(ctx, p.call, r, stream, o, tell); err != nil {
		return err
	}
	return tell(o.last(r))
}

// refusedBy reports whether it is envdProgram that ended so, and not the program that it ran.
func refusedBy(ctx context.Context, c *facade.Call, r job.Result) bool {
	var said callError
	return errors.As(faultOf(ctx, c, r), &said) && said.Code != "internal"
}

// fail tells that no more will be heard of the program.
func (p *watched) fail(r *http.Request, err error) {
	said := callErrorOf(r, p.call, err)
	if errors.Is(err, context.DeadlineExceeded) {
		said = callError{"deadline_exceeded", "the program ran longer than the call may take"}
	}
	if p.begun {
		_ = p.send(endOfStream, streamEnd{&said}) // the client may have left
		return
	}
	refuseCall(p.w, r, said)
}

// pidOf is the program that a call is about.
func pidOf(q request) (int, error) {
	of, err := q.object("process")
	if err != nil {
		return 0, err
	}
	pid, ok, err := of.number("pid")
	if err == nil && !ok {
		err = facade.BadRequest("process.pid is missing: want a number")
	}
	return int(pid), err
}

// programs are the executions of programs that have not ended.
func programs(ctx context.Context, c *facade.Call, x job.Session) ([]job.Summary, error) {
	page, err := c.Client.ListExecutions(ctx, x.ID, producer.SessionListOptions{Limit: job.MaxWaitingTurns + 1})
	if err != nil {
		return nil, err
	}
	list := slices.Clone(page.Jobs)
	// Behind the one that runs any number may have come and been canceled.
	if !slices.ContainsFunc(list, func(e job.Summary) bool { return e.ID == x.Execution }) && x.Execution != "" {
		e, err := c.Client.Get(ctx, x.Execution)
		if err != nil && !errors.Is(err, job.ErrNotFound) {
			return nil, err
		}
		list = append(list, e.Summary)
	}
	return slices.DeleteFunc(list, func(e job.Summary) bool { return e.Metadata[pidKey] == "" || e.Status.Final() }), nil
}

// findProcess fails with a callError where there is none of that number.
func findProcess(ctx context.Context, c *facade.Call, x job.Session, pid int) (job.Summary, error) {
	list, err := programs(ctx, c, x)
	if err != nil {
		return job.Summary{}, err
	}
	for _, e := range list {
		if e.Metadata[pidKey] == strconv.Itoa(pid) {
			return e, nil
		}
	}
	return job.Summary{}, callError{"not_found", fmt.Sprintf("process with pid %d not found", pid)}
}

// listed is a program in a list.
type listed struct {
	PID    int            `json:"pid"`
	Config map[string]any `json:"config"`
}

func listProcesses(w http.ResponseWriter, r *http.Request, c *facade.Call, x job.Session) {
	err := c.Host.May(job.ScopeRead)
	var list []job.Summary
	if err == nil {
		list, err = programs(r.Context(), c, x)
	}
	if err != nil {
		failCall(w, r, c, err)
		return
	}
	all := []listed{}
	for _, e := range list {
		pid, _ := strconv.Atoi(e.Metadata[pidKey]) // ours
		all = append(all, listed{pid, map[string]any{"cmd": "/bin/bash", "args": []string{}, "envs": struct{}{}}})
	}
	facade.Write(w, http.StatusOK, map[string]any{"processes": all})
}

// signalProcess ends a program: no other signal can be sent.
func signalProcess(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	x, err := sandboxOf(ctx, r, c)
	var q request
	if err == nil {
		q, _, err = readCall(ctx, r, c)
	}
	var pid int
	if err == nil {
		pid, err = pidOf(q)
	}
	var found job.Summary
	if err == nil {
		found, err = findProcess(ctx, c, x, pid)
	}
	if err == nil {
		c.Host.Note(found.ID)
		_, err = c.Client.Cancel(ctx, found.ID)
	}
	if err != nil && !errors.Is(err, job.ErrEnded) {
		failCall(w, r, c, err)
		return
	}
	facade.Write(w, http.StatusOK, struct{}{})
}
