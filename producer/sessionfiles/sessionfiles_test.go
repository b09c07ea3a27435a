package sessionfiles_test

import (
	"context"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
	"github.com/glovebox-run/glovebox/producer/sessionfiles"
)

// TestPut: a command is done if its worker says so, also where it was canceled too late, and the worker knows commands.
func TestPut(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	files := &job.ExecutionState{Language: job.FilesLanguage, State: job.StateKept}
	for what, c := range map[string]struct {
		late bool // it ends after it was canceled
		with job.Result
		want string
	}{
		"done":                        {false, job.Result{Status: job.Succeeded, Session: files}, ""},
		"done though canceled":        {true, job.Result{Status: job.Succeeded, Session: files}, ""},
		"canceled":                    {true, job.Result{Status: job.Canceled, Session: files}, job.CodeSessionBusy},
		"refused":                     {false, job.Result{Status: job.Failed, Session: files, Stderr: "no_file: a"}, job.CodeNoFile},
		"executed as code":            {false, job.Result{Status: job.Succeeded, Session: &job.ExecutionState{State: job.StateKept}}, job.CodeUnavailable},
		"executed as code that fails": {false, job.Result{Status: job.Failed, Stderr: "syntax"}, job.CodeUnavailable},
		"of no language":              {false, job.Result{Status: job.Failed, Error: &job.Error{Code: job.CodeNoContext}}, job.CodeUnavailable},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			x, err := w.Client.StartSession(t.Context(), job.SessionSettings{Runtime: "python"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Worker.ClaimSession(t.Context(), x.ID, "w1"); err != nil {
				t.Fatal(err)
			}
			patience := gbtest.Patience
			if c.late {
				patience = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			put := make(chan error, 1)
			go func() { put <- sessionfiles.Put(ctx, w.Client, x.ID, job.File{Name: "a", Content: "1"}) }()
			var j record.Record
			gbtest.Eventually(t, "it is taken", func() bool {
				j, err = w.Worker.TakeTurn(t.Context(), x.ID, "w1", "", nil, record.Rest{Slot: true})
				return err == nil
			})
			if c.late {
				gbtest.Eventually(t, "it is to be canceled", func() bool {
					now, err := w.Worker.Get(t.Context(), j.ID)
					return err == nil && now.CancelRequested
				})
			}
			r := c.with
			r.ID = j.ID
			b, err := job.Marshal(r)
			if err == nil {
				err = w.Worker.End(t.Context(), j, record.Ending{Status: r.Status, Result: b})
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := <-put; job.CodeOf(err) != c.want || (err == nil) != (c.want == "") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
