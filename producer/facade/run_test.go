package facade_test

import (
	"context"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// patientHost is an api for which each wait is over before the job has begun.
type patientHost struct {
	facade.Host

	client interface {
		Get(ctx context.Context, id string) (producer.Job, error)
	}
}

func (patientHost) Note(string)            {}
func (patientHost) MaxWait() time.Duration { return time.Minute }

func (h patientHost) Wait(ctx context.Context, id string, _ time.Duration) (producer.Job, error) {
	return h.client.Get(ctx, id)
}

// flakyHost is an api whose first looks at a job fail.
type flakyHost struct {
	patientHost

	fail *int
}

func (h flakyHost) Wait(ctx context.Context, id string, d time.Duration) (producer.Job, error) {
	if *h.fail > 0 {
		*h.fail--
		return producer.Job{}, io.ErrUnexpectedEOF
	}
	return producer.Job{Summary: job.Summary{ID: id, Status: job.Succeeded}, Result: &job.Result{ID: id}}, nil
}

// TestRunBears: a job is not given up since a look at it failed.
func TestRunBears(t *testing.T) {
	t.Parallel()
	fail := 2
	call := facade.Call{Host: flakyHost{fail: &fail}}
	r, err := call.Finish(t.Context(), httptest.NewRecorder(), "its id", time.Minute)
	if err != nil || r.ID != "its id" || fail != 0 {
		t.Errorf("got %+v, %v, with %d of the looks that are to fail left, want the result, and none left", r, err, fail)
	}
}

// TestRunLeaves: a client that hangs up while Redis is about to write its job leaves none that runs for nobody.
func TestRunLeaves(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	options, err := redis.ParseURL(w.Redis.Admin())
	if err != nil {
		t.Fatal(err)
	}
	operator := redis.NewClient(options)
	defer operator.Close()
	call := facade.Call{Client: w.Client, Host: patientHost{client: w.Client}}
	run := func(ctx context.Context) error {
		id, err := call.Submit(ctx, job.Spec{Runtime: "python", Source: "print(1)"})
		if err == nil {
			_, err = call.Finish(ctx, httptest.NewRecorder(), id, time.Minute)
		}
		return err
	}
	if err := run(t.Context()); job.CodeOf(err) != job.CodeUnavailable { // scripts are loaded
		t.Fatalf("got %v, want that the api ends", err)
	}
	const paused = time.Second // what is written waits, what is read does not
	if err := operator.Do(t.Context(), "CLIENT", "PAUSE", paused.Milliseconds(), "WRITE").Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), paused/4)
	defer cancel()
	if err := run(ctx); err == nil {
		t.Error("a job ended that nobody ran")
	}
	gbtest.Eventually(t, "both jobs are canceled", func() bool {
		page, err := w.Client.List(t.Context(), producer.ListOptions{Status: []job.Status{job.Canceled}})
		return err == nil && len(page.Jobs) == 2
	})
}
