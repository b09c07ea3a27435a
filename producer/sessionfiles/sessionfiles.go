// Package sessionfiles lists, reads and changes the files of a session. Each call is an execution of the session ([job.FilesLanguage]): it waits for its turn, is in the transcript, attested
// and replayed as any other, and has the rights of the session's code. Names are below the session's directory, and no link is followed.
package sessionfiles

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Client has the sessions: [producer.Client], say.
type Client interface {
	producer.Jobs
	producer.Sessions
	producer.Files
}

// List returns a page of what a directory holds, "" for the session's own; after is the Next of the page before. It fails as Put does.
func List(ctx context.Context, c Client, session, dir, after string) (job.FileList, error) {
	r, err := do(ctx, c, session, job.FileCommand{Do: job.ListFiles, Name: dir, After: after}, nil)
	if err != nil {
		return job.FileList{}, err
	}
	return job.ParseFileList(r.Stdout)
}

// Read has a file made an artifact of an execution, whose id it returns, and what is known of it: [producer.Files] has it under [producer.ArtifactPath] of its name. It fails as Put does.
func Read(ctx context.Context, c Client, session, name string) (execution string, file job.Artifact, err error) {
	r, err := do(ctx, c, session, job.FileCommand{Do: job.ReadFile, Name: name}, nil)
	if err != nil {
		return "", file, err
	}
	for _, a := range r.Artifacts {
		if a.Name == name {
			return r.ID, a, nil
		}
	}
	why := "it was not kept"
	if len(r.ArtifactsSkipped) > 0 {
		why = r.ArtifactsSkipped[0].Reason
	}
	return "", file, &job.Error{Code: job.CodeFileRefused, Message: name + ": " + why}
}

// Put writes files, each in the place of what has its name. It fails with job.Invalid, job.ErrNoSession, job.ErrSessionEnded or job.ErrSessionBusy, and with a *job.Error of code no_file, file_refused
// or too_large. When ctx ends before the session's turn has come, the execution is canceled; after a deadline that is job.ErrSessionBusy. So is what a rule holds, as a *job.Error of code denied_by_policy.
func Put(ctx context.Context, c Client, session string, files ...job.File) error {
	_, err := do(ctx, c, session, job.FileCommand{}, files)
	return err
}

// MakeDirectory makes a directory and those above it, unless they are there. It fails as Put does.
func MakeDirectory(ctx context.Context, c Client, session, name string) error {
	_, err := do(ctx, c, session, job.FileCommand{Do: job.MakeDirectory, Name: name}, nil)
	return err
}

// Delete removes a file, a link, or a directory that is empty. It fails as Put does.
func Delete(ctx context.Context, c Client, session, name string) error {
	_, err := do(ctx, c, session, job.FileCommand{Do: job.DeleteFile, Name: name}, nil)
	return err
}

// cancelTime is what canceling an execution may take whose caller has left.
const cancelTime = 10 * time.Second

// do has the session execute a command, or only take files, and waits for that.
func do(ctx context.Context, c Client, session string, command job.FileCommand, files []job.File) (job.Result, error) {
	e := job.SessionExecution{Language: job.FilesLanguage, Files: files, IdempotencyKey: rand.Text()} // so that the request can be repeated
	if command.Do != "" {
		e.Code = command.Code()
	}
	j, err := c.ExecuteInSession(ctx, session, e)
	if err != nil {
		return job.Result{}, err
	}
	var ended producer.Job
	if j.Status == job.Held {
		err = &job.Error{Code: job.CodeDenied, Message: "a rule holds what is done to a session's files until a person approves it, which nobody waits for here: " + j.Hold.Message}
	} else if ended, err = c.Wait(ctx, j.ID); err == nil && ended.Ended() {
		return outcome(*ended.Result)
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) { // an api that drains lets go early
		err = &job.Error{Code: job.CodeSessionBusy, Message: "the session's turn did not come in time, and what was asked is canceled"}
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	if _, stop := c.Cancel(leaving, j.ID); stop != nil && !errors.Is(stop, job.ErrEnded) {
		return job.Result{}, errors.Join(err, fmt.Errorf("cancel execution %s, which nobody waits for: %w", j.ID, stop))
	}
	// It may have been done before it could be canceled.
	if ended, gone := c.Wait(leaving, j.ID); gone == nil && ended.Ended() && ended.Status != job.Canceled {
		return outcome(*ended.Result)
	}
	return job.Result{}, err
}

// outcome is what a command came to. A worker that knows no commands executes them as code, or knows no such language.
func outcome(r job.Result) (job.Result, error) {
	executed := r.Status == job.Succeeded || r.Status == job.Failed && r.Error == nil
	refused := r.Error != nil && r.Error.Code == job.CodeNoContext
	if refused || executed && (r.Session == nil || r.Session.Language != job.FilesLanguage) {
		return job.Result{}, &job.Error{Code: job.CodeUnavailable, Message: "the session's worker is of an older version, which knows no files of sessions: start another session once it is updated"}
	}
	return r, job.FileError(r)
}
