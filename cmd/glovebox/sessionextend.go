package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) sessionExtendCommand() *cobra.Command {
	var ttl, idle time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "extend ID",
		Short: "Give a session more time, or less",
		Long: `Change how long a session lives, or how long it may execute nothing, also while it executes,
and print until when it lives. A session lives 90 minutes in all at most, counted from when it was
started; its idle time is no longer than its life. One that has ended gets no more time.`,
		Example: `  glovebox session extend default-s-abc… --ttl 30m
  glovebox session extend default-s-abc… --idle 20m`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			change, err := sessionTimes(ttl, idle)
			if err != nil {
				return err
			}
			return a.withJobs(func(sessions *producer.Client) error {
				x, err := sessions.ChangeSession(cmd.Context(), args[0], change)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(x)
				}
				fmt.Fprintln(a.stdout, x.ExpiresAt.Local().Format(time.DateTime))
				return nil
			})
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "end it `TIME` such as 30m from now (default: as it was)")
	cmd.Flags().DurationVar(&idle, "idle", 0, "end it when it has executed nothing for `TIME` (default: as it was)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

// sessionTimes is the change of a session to these times; 0 leaves one as it is.
func sessionTimes(ttl, idle time.Duration) (c job.SessionChange, err error) {
	if ttl == 0 && idle == 0 {
		return c, usagef("nothing to change: want --ttl or --idle")
	}
	ttlSeconds, errTTL := wholeSeconds("--ttl", ttl)
	idleSeconds, errIdle := wholeSeconds("--idle", idle)
	if ttl != 0 {
		c.TTLSeconds = &ttlSeconds
	}
	if idle != 0 {
		c.IdleSeconds = &idleSeconds
	}
	return c, errors.Join(errTTL, errIdle)
}
