package facade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// ErrNoPlace is a job that nobody had begun in time. It is canceled.
var ErrNoPlace = errors.New("no worker was free in time")

const (
	// answerTime is what sending an answer may take.
	answerTime = 30 * time.Second
	// submitTime is what submitting a job may take whose client has left.
	submitTime = 30 * time.Second
	// outage is how long looks at a job may fail, each retryDelay, besides what [Host.Wait] itself bears with.
	outage     = 10 * time.Second
	retryDelay = 250 * time.Millisecond
	// cancelTime is what canceling a job may take whose client has left.
	cancelTime = 10 * time.Second
)

// SetDeadline gives an answer that is written now the time that any has, however long it took until then.
func SetDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // else the connection is gone
}

// Patience is how long a program may wait for a place, where its façade says so.
func (c *Call) Patience(own time.Duration) time.Duration { return cmp.Or(c.Wait, own) }

// Submit submits a job for a client that waits for it, whose id it returns; [Call.Finish] waits then. Nothing runs whose client has left meanwhile.
func (c *Call) Submit(ctx context.Context, spec job.Spec) (id string, err error) {
	return c.submit(ctx, func(ctx context.Context) (producer.Job, error) { return c.Client.WithoutHolds().Submit(ctx, spec) })
}

// RunIn executes code in a session, which has its turn when it has it, and waits for its result as Finish does.
func (c *Call) RunIn(ctx context.Context, w http.ResponseWriter, session string, e job.SessionExecution) (job.Result, error) {
	id, err := c.Execute(ctx, session, e)
	if err != nil {
		return job.Result{}, err
	}
	return c.Finish(ctx, w, id, math.MaxInt64)
}

// Execute has a session execute code, whose id it returns. Nothing is executed whose client has left meanwhile.
func (c *Call) Execute(ctx context.Context, session string, e job.SessionExecution) (id string, err error) {
	return c.submit(ctx, func(ctx context.Context) (producer.Job, error) {
		return c.Client.WithoutHolds().ExecuteInSession(ctx, session, e)
	})
}

// Finish waits for a job's result for a client that waits with the connection open, however long the job
// may take. What nobody can read the result of is canceled: a job that has not begun within patience,
// that is ErrNoPlace; one whose client has left; and, with an error of code unavailable, one that runs
// while the api drains.
func (c *Call) Finish(ctx context.Context, w http.ResponseWriter, id string, patience time.Duration) (job.Result, error) {
	since, begun := time.Now(), false
	var failing time.Time
	c.Host.Note(id)
	control := http.NewResponseController(w)
	for {
		step := c.Host.MaxWait()
		if !begun {
			step = min(step, max(patience-time.Since(since), 0))
		}
		asked := time.Now()
		_ = control.SetWriteDeadline(asked.Add(step + answerTime)) // else the connection is gone
		j, err := c.Host.Wait(ctx, id, step)
		if err != nil && bears(ctx, err, &failing) {
			continue
		}
		if err == nil {
			failing = time.Time{}
			begun = begun || j.Status == job.Running
		}
		switch {
		case err != nil:
		case j.Ended():
			return *j.Result, nil
		case !begun && time.Since(since) >= patience:
			err = ErrNoPlace
		case time.Since(asked) < step: // only an api that drains lets go earlier
			err = &job.Error{Code: job.CodeUnavailable, Message: "the api ends"}
		}
		if err != nil {
			return job.Result{}, errors.Join(err, c.Abandon(ctx, id))
		}
	}
}

// bears waits before another look where one failed for a reason that may pass, for up to outage. failing is since when looks fail.
func bears(ctx context.Context, err error, failing *time.Time) bool {
	if failing.IsZero() {
		*failing = time.Now()
	}
	if !producer.Temporary(err) || time.Since(*failing) > outage {
		return false
	}
	select {
	case <-time.After(retryDelay):
		return true
	case <-ctx.Done():
		return false
	}
}

// submit submits a job also if its client leaves meanwhile: what would be broken off may be there all the same, and is
// known by its id only.
func (c *Call) submit(ctx context.Context, send func(context.Context) (producer.Job, error)) (id string, err error) {
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), submitTime)
	defer cancel()
	submitted, err := send(patient)
	if err == nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), c.Abandon(ctx, submitted.ID))
	}
	return submitted.ID, err
}

// Abandon cancels a job whose result nobody waits for any more.
func (c *Call) Abandon(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	if _, err := c.Client.Cancel(ctx, id); err != nil && !errors.Is(err, job.ErrEnded) {
		return fmt.Errorf("cancel job %s, which nobody waits for: %w", id, err)
	}
	return nil
}
