package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) inputCommand() *cobra.Command {
	var in job.Input
	cmd := &cobra.Command{
		Use:   "input ID [TEXT|-]",
		Short: "Send input to a program that runs",
		Long: `Send a program that runs more of its standard input: TEXT and the end of its line, or what
standard input (-) holds, as it is. The job has to be submitted with --interactive.

A job that waits is waited for.

With --eof, close the program's standard input behind that. With --signal, send each of its
processes a signal.

"glovebox run -i" sends a program what is typed.`,
		Example: `  glovebox input default-abc… 42
  glovebox input --eof default-abc… - <numbers.txt
  glovebox input --signal SIGINT default-abc…`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("ID is missing: the job's")
			case len(args) > 2:
				return usagef("%d arguments are too many: ID and TEXT, in quotes where it has blanks", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				data := []byte(args[1] + "\n")
				if args[1] == "-" {
					var err error
					if data, err = a.read("-"); err != nil {
						return err
					}
				}
				in.Data, in.DataBase64 = textOrBase64(data)
			}
			jobs, err := a.jobs()
			if err != nil {
				return err
			}
			defer jobs.Close()
			waits := time.AfterFunc(silence, func() { fmt.Fprintf(a.stderr, "glovebox: job %s does not run yet\n", args[0]) })
			defer waits.Stop()
			return sendOnceItRuns(cmd.Context(), jobs, args[0], in)
		},
	}
	cmd.Flags().BoolVar(&in.EOF, "eof", false, "close the program's standard input behind the text")
	cmd.Flags().StringVar(&in.Signal, "signal", "", "`NAME` of a signal for each of its processes, such as SIGINT")
	return cmd
}

// typeInto sends a program what comes on standard input, until its end or the program's.
func (a *app) typeInto(ctx context.Context, jobs producer.Interactive, id string) {
	buf := make([]byte, 32<<10)
	for {
		n, err := a.stdin.Read(buf)
		var in job.Input
		in.Data, in.DataBase64 = textOrBase64(buf[:n])
		in.EOF = err != nil
		if err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintf(a.stderr, "glovebox: standard input can't be read, and ends for the program: %v\n", err)
		}
		if n == 0 && err == nil {
			continue
		}
		sendErr := sendOnceItRuns(ctx, jobs, id, in)
		if job.CodeOf(sendErr) == job.CodeNoInput && !in.EOF { // so that the program goes on without
			sendErr = errors.Join(sendErr, jobs.SendInput(ctx, id, job.Input{EOF: true}))
		}
		if sendErr != nil && ctx.Err() == nil && !errors.Is(sendErr, job.ErrEnded) {
			fmt.Fprintf(a.stderr, "glovebox: the program gets no more input from here (glovebox input %s sends some): %s\n", id, strings.TrimSpace(sendErr.Error()))
		}
		if sendErr != nil || in.EOF {
			return
		}
	}
}

// sendOnceItRuns is SendInput that bears with a job that waits for its worker, or for another one, and with a quota of requests.
func sendOnceItRuns(ctx context.Context, jobs producer.Interactive, id string, in job.Input) error {
	for {
		err := jobs.SendInput(ctx, id, in)
		pause := 200 * time.Millisecond
		switch {
		case errors.Is(err, job.ErrNotRunning):
		case job.CodeOf(err) == job.CodeRateLimited:
			pause = time.Second
		default:
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
