package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// testPatience is how long "endpoint test" waits for the answer: an attempt and a bit.
const testPatience = 30 * time.Second

func (a *app) endpointTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test ID",
		Short: "Post a test to an endpoint, and print what it answered",
		Long: `Post the event endpoint.test to an endpoint, once, and print what it answered. It is
posted even where the endpoint is disabled; a success enables one that was disabled for
its failures.`,
		Example: `  glovebox endpoint test default-e-cltgoj5ht3pt52fyruvlgdcnle`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(api *producer.Client) error {
				d, err := api.TestEndpoint(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if d, err = tested(cmd.Context(), api, d); err != nil {
					return err
				}
				for _, attempt := range d.Attempts {
					fmt.Fprintln(a.stdout, attemptLine(attempt))
				}
				if d.State != "delivered" {
					return errors.New("the endpoint did not take the test: " + plain(d.LastError))
				}
				return nil
			})
		},
	}
}

// tested waits until the delivery is done.
func tested(ctx context.Context, api *producer.Client, d producer.Delivery) (producer.Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, testPatience)
	defer cancel()
	for d.State == "pending" {
		select {
		case <-ctx.Done():
			return d, fmt.Errorf("delivery %s has not been made after %s", plain(d.ID), testPatience)
		case <-time.After(200 * time.Millisecond):
		}
		var err error
		if d, err = api.GetDelivery(ctx, d.ID); err != nil {
			return d, err
		}
	}
	return d, nil
}

// attemptLine is an attempt in a line.
func attemptLine(t job.DeliveryAttempt) string {
	line := fmt.Sprintf("%s  attempt %d  %s  %d ms", t.At.Local().Format(time.DateTime), t.Number, plain(t.State), t.MS)
	if t.Status != 0 {
		line += fmt.Sprintf("  answered %d", t.Status)
	}
	if t.Error != "" {
		line += "  " + plain(t.Error)
	}
	if t.Response != "" {
		line += fmt.Sprintf("  %q", t.Response)
	}
	return line
}

func (a *app) endpointAttemptsCommand() *cobra.Command {
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "attempts ID",
		Short: "List the last attempts at an endpoint",
		Long: `List the last attempts at deliveries to an endpoint, the newest first: when, of which
delivery, what was answered, and how the answer began.`,
		Example: `  glovebox endpoint attempts default-e-cltgoj5ht3pt52fyruvlgdcnle --limit 20`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > producer.MaxAttemptPage {
				return usagef("--limit %d: want 1 to %d", limit, producer.MaxAttemptPage)
			}
			return a.withJobs(func(api *producer.Client) error {
				page, err := api.EndpointAttempts(cmd.Context(), args[0], producer.AttemptOptions{Limit: limit})
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(page)
				}
				for _, attempt := range page.Attempts {
					fmt.Fprintf(a.stdout, "%s  %s  %s\n", plain(attempt.DeliveryID), plain(attempt.JobID+attempt.BatchID+attempt.RunID), attemptLine(attempt))
				}
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", producer.DefaultAttemptPage, "list at most `N` attempts, up to 200")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) endpointRecoverCommand() *cobra.Command {
	var since time.Duration
	var all bool
	cmd := &cobra.Command{
		Use:   "recover ID",
		Short: "Deliver once more what failed, or the past",
		Long: `Deliver once more all messages to an endpoint that failed within the last hours, or
whatever --since says, under the ids that they had. It is possible as long as their jobs
are kept.

With --all the endpoint is told of all jobs, batches and runs that were created since then
and have ended, as far as its events and filter match and it was not told of them: so a new
endpoint gets the past.`,
		Example: `  glovebox endpoint recover default-e-cltgoj5ht3pt52fyruvlgdcnle --since 72h
  glovebox endpoint recover default-e-cltgoj5ht3pt52fyruvlgdcnle --since 168h --all`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if since <= 0 {
				return usagef("--since %s: want a time such as 72h", since)
			}
			r := producer.RecoverRequest{Since: time.Now().Add(-since), Which: producer.RecoverFailed}
			if all {
				r.Which = producer.RecoverAll
			}
			return a.withJobs(func(api *producer.Client) error {
				n := 0
				for {
					made, err := api.RecoverEndpoint(cmd.Context(), args[0], r)
					n += made.Deliveries
					r.Cursor = made.Next
					if err != nil || made.Next == "" && (all || made.Deliveries < producer.MaxRecover) {
						fmt.Fprintf(a.stdout, "%d deliveries are made\n", n)
						return err
					}
				}
			})
		},
	}
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "how long ago they failed at most, or with --all were created: `TIME` such as 72h")
	cmd.Flags().BoolVar(&all, "all", false, "tell of all that has ended, not only of what failed")
	return cmd
}

func (a *app) endpointRedeliverCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "redeliver DELIVERY…",
		Short: "Deliver messages once more",
		Long: `Deliver messages once more, under the ids that they had. Their deliveries are those that
"glovebox endpoint attempts" names.`,
		Example: `  glovebox endpoint redeliver msg_xpot3f2gso4qbkmz35kjikxg5m`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(api *producer.Client) error {
				var errs []error
				for _, id := range args {
					if _, err := api.Redeliver(cmd.Context(), id); err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(id), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}
