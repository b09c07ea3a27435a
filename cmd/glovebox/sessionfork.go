package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/replay"
)

func (a *app) sessionForkCommand() *cobra.Command {
	var o sessionOptions
	var orReplay, asJSON bool
	cmd := &cobra.Command{
		Use:   "fork ID",
		Short: "Start a session that goes on from where another one is",
		Long: `Start a second session that goes on from where that one is once it has executed what it was
given before, with its variables, files and processes, and print its id. Each goes on by itself;
random numbers are drawn anew. It needs a worker that pauses sessions: where it can't be had,
--or-replay executes again what the session has executed, in a new session, and prints that one's id.
The exit code is 1 then where an execution came to something else.`,
		Example: `  glovebox session fork default-s-abc…
  glovebox session fork --or-replay --ttl 30m default-s-abc…`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := o.settings()
			if err != nil {
				return err
			}
			f := job.SessionFork{TTLSeconds: s.TTLSeconds, IdleSeconds: s.IdleSeconds, Budget: s.Budget, Metadata: s.Metadata, Callback: s.Callback, IdempotencyKey: cmp.Or(o.key, rand.Text())}
			return a.withJobs(func(sessions *producer.Client) error {
				x, err := forked(cmd.Context(), sessions, args[0], f)
				var steps []replay.Step
				if orReplay && errors.Is(err, job.ErrUnforkable) {
					f.IdempotencyKey = "" // the same session again would execute all of it twice
					x, steps, err = replay.Run(cmd.Context(), sessions, args[0], replay.Options{Settings: f.Settings, Each: func(s replay.Step) {
						if len(s.Differs) > 0 {
							fmt.Fprintf(a.stderr, "execution %d %s\n", s.Sequence, verdict(s))
						}
					}})
					if err != nil {
						return a.abandoned(cmd.Context(), sessions, x, true, err)
					}
				}
				if err != nil {
					return err
				}
				if err := a.printSession(x, asJSON); err != nil {
					return err
				}
				return cameTo(steps)
			})
		},
	}
	o.addOwn(cmd.Flags(), 0)
	cmd.Flags().StringVar(&o.key, "idempotency-key", "", "`KEY` of the fork: the same again, within 24 hours, is the same fork")
	cmd.Flags().BoolVar(&orReplay, "or-replay", false, "replay the session where it can't be forked")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the fork as JSON")
	return cmd
}

// forkPoll is how often it is looked whether a fork is there.
const forkPoll = 100 * time.Millisecond

// forked waits until the fork is there. One that can't be had fails with job.ErrUnforkable, and why.
func forked(ctx context.Context, c *producer.Client, id string, f job.SessionFork) (job.Session, error) {
	x, err := c.ForkSession(ctx, id, f)
	for err == nil && x.Status == job.SessionQueued {
		select {
		case <-ctx.Done():
			return x, ctx.Err()
		case <-time.After(forkPoll):
		}
		x, err = c.Session(ctx, x.ID)
	}
	if err == nil && x.Status == job.SessionEnded && x.End != nil && x.End.Reason == job.EndFailed {
		err = fmt.Errorf("%w: %s", job.ErrUnforkable, x.End.Message)
	}
	return x, err
}
