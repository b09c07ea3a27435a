package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// followed prints what a job prints, while it does.
type followed struct {
	stdout, stderr io.Writer // of a job
	remarks        io.Writer // of ours
	id             string

	running func() // called when it starts

	begun   bool // the job printed something
	missing bool // and something before that was not shown
}

// follow prints what the job prints until it has ended, or for at most so long.
func (a *app) follow(ctx context.Context, jobs *producer.Client, id string, most time.Duration) (job.Result, error) {
	watching, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	r, err := a.watch(watching, jobs, id, func() {})
	if err != nil {
		err = a.gaveUp(ctx, watching, id, most, err)
	}
	return r, err
}

// watch prints what the job prints until it has ended. It calls running when the job starts.
func (a *app) watch(ctx context.Context, jobs *producer.Client, id string, running func()) (job.Result, error) {
	f := &followed{stdout: untrusted(a.stdout), stderr: untrusted(a.stderr), remarks: a.stderr, id: id, running: running}
	for e, err := range jobs.Watch(ctx, id, "") {
		if err != nil {
			return job.Result{}, err
		}
		if e.Type == producer.EventResult {
			r := *e.Job.Result
			if !f.begun { // it ended before anybody could watch it
				return r, a.printOutput(ctx, jobs, r)
			}
			return r, nil
		}
		if err := f.show(e); err != nil {
			return job.Result{}, err
		}
	}
	return job.Result{}, errors.New("the events of the job ended without its result")
}

func (f *followed) show(e producer.Event) error {
	var err error
	switch e.Type {
	case producer.EventStdout:
		if err = f.begin(); err == nil {
			_, err = f.stdout.Write(e.Data)
		}
	case producer.EventStderr:
		if err = f.begin(); err == nil {
			_, err = f.stderr.Write(e.Data)
		}
	case producer.EventGap:
		if f.missing = true; f.begun {
			err = f.begin()
		}
	case producer.EventStatus:
		if e.Status == job.Running {
			f.running()
		}
		if e.Status == job.Held {
			_, err = fmt.Fprintf(f.remarks, "glovebox: a rule holds the job until somebody approves it: glovebox approvals show %s\n", f.id)
		}
		if e.Status == job.Queued && f.begun {
			f.begun = false
			_, err = fmt.Fprintln(f.remarks, "glovebox: the job's worker was lost; it runs again, from the beginning")
		}
	case producer.EventArtifact, producer.EventCompiled, producer.EventDisplay, producer.EventResult:
	}
	return err
}

// begin says what is missing before what comes. Where nothing comes, all of it is printed at the end.
func (f *followed) begin() (err error) {
	if f.missing {
		_, err = fmt.Fprintf(f.remarks, "glovebox: some output is not shown here; glovebox logs %s prints all of it once the job has ended\n", f.id)
	}
	f.begun, f.missing = true, false
	return err
}
