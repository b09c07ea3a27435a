package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

type receiveOptions struct {
	addr    string
	forward string
	count   int
	json    bool
}

func (a *app) receiveCommand() *cobra.Command {
	var o receiveOptions
	cmd := &cobra.Command{
		Use:   "receive",
		Short: "Receive webhooks on this machine, verify and print them",
		Long: `Listen for webhooks, check the signature of each with GLOVEBOX_WEBHOOK_SECRET, and
print "verified" or "REJECTED" and why. It is what "glovebox webhook secret" prints,
whsec_…, or "glovebox webhook keys", whpk_…, with which nobody can sign; several, during a
rotation, have spaces between. It is never a flag: it comes from the environment (or a
file that GLOVEBOX_WEBHOOK_SECRET_FILE names), or from the env file that dev writes.

A message that was verified is answered with 204, a rejected one with 401, so that the
sender tries it again.

With --forward each message that was verified is posted on to a program of yours, as it
came, with all its headers. What that answers is printed, and is the sender's answer: so
its retries are real. While nothing answers there that is 502.`,
		Example: `  glovebox receive --addr 127.0.0.1:9000
  glovebox submit --callback http://127.0.0.1:9000/ hello.py    # in another terminal
  glovebox receive --addr 127.0.0.1:9000 --forward http://127.0.0.1:3000/webhooks
  glovebox receive --count 1 --json | jq .event.data.status`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.receive(cmd.Context(), o) },
	}
	cmd.Flags().StringVar(&o.addr, "addr", "127.0.0.1:0", "`ADDRESS` to listen on; port 0 takes a free one")
	cmd.Flags().StringVar(&o.forward, "forward", "", "post verified messages on to `URL`, and answer what it answers")
	cmd.Flags().IntVar(&o.count, "count", 0, "end after `N` verified messages, with --forward that were taken (2xx); 0 for never")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object a message")
	setTwin(cmd, "addr", "GLOVEBOX_RECEIVE_ADDR")
	return cmd
}

func (a *app) receive(ctx context.Context, o receiveOptions) error {
	verifiers, err := a.verifiers()
	if err != nil {
		return err
	}
	if o.forward != "" {
		if u, err := url.Parse(o.forward); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usagef("--forward %s: want an http or https URL", plain(o.forward))
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.addr)
	if err != nil {
		return err
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	r := &receiver{app: a, verifiers: verifiers, options: o, enough: enough, seen: map[string]bool{}}
	server := &http.Server{Handler: r, ReadTimeout: 30 * time.Second, MaxHeaderBytes: 32 << 10}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintf(a.stderr, "receiving at http://%s/\n", l.Addr())
	select {
	case err := <-served:
		return fmt.Errorf("receive: %w", err)
	case <-ctx.Done():
	}
	// Whoever is being answered still gets the answer.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = server.Shutdown(grace)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return errors.Join(err, r.err)
}

func (a *app) verifiers() ([]webhook.Verifier, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	if c.WebhookSecret == "" {
		return nil, &failure{
			exitUsage, errors.New("no secret to verify webhooks with"),
			`set GLOVEBOX_WEBHOOK_SECRET to what "glovebox webhook secret" prints, or run this where dev's .glovebox/env is`,
		}
	}
	list, err := webhook.ParseVerifiers(c.WebhookSecret)
	if err != nil {
		return nil, &failure{code: exitUsage, err: fmt.Errorf("GLOVEBOX_WEBHOOK_SECRET: %w", err)}
	}
	return list, nil
}

// receiver verifies and prints each message. It doesn't use webhook.Handler, which
// tells only the sender why a message was rejected.
type receiver struct {
	*app
	verifiers []webhook.Verifier
	options   receiveOptions
	enough    func()

	mu       sync.Mutex // one message is printed at a time
	verified int
	seen     map[string]bool
	err      error
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a webhook is a POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, webhook.MaxBody))
	if err == nil {
		err = webhook.Verify(req.Header, body, r.verifiers, webhook.DefaultTolerance, time.Now())
	}
	event := webhook.Event{ID: req.Header.Get(webhook.HeaderID)}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	answer := forwarded{status: http.StatusNoContent}
	if err == nil && r.options.forward != "" {
		answer = forward(req, r.options.forward, body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.rejected(req, err)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	r.print(event, body, answer)
	answer.write(w)
	r.seen[event.ID] = true
	if !answer.taken() {
		return
	}
	if r.verified++; r.verified == r.options.count {
		r.enough()
	}
}

func (r *receiver) rejected(req *http.Request, why error) {
	if r.options.json {
		r.keep(json.NewEncoder(untrusted(r.stdout)).Encode(map[string]any{"verified": false, "why": why.Error(), "from": req.RemoteAddr}))
		return
	}
	fmt.Fprintf(r.stdout, "REJECTED: %s (from %s)\n", plain(why.Error()), req.RemoteAddr)
}

func (r *receiver) print(event webhook.Event, body []byte, answer forwarded) {
	if r.options.json {
		line := map[string]any{"verified": true, "id": event.ID, "again": r.seen[event.ID], "event": json.RawMessage(body)}
		if r.options.forward != "" {
			line["forwarded"] = answer.told()
		}
		r.keep(json.NewEncoder(untrusted(r.stdout)).Encode(line))
		return
	}
	again := ""
	if r.seen[event.ID] {
		again = " (again: the same message was received before)"
	}
	fmt.Fprintf(r.stdout, "verified  %s  %s%s\n", plain(event.Type), plain(event.ID), again)
	if r.options.forward != "" {
		fmt.Fprintf(r.stdout, "  forwarded: %s\n", answer)
	}
	if event.Type == job.EventBatchCompleted {
		r.printBatch(event)
		return
	}
	if event.Type == job.EventPipelineCompleted {
		r.printRun(event)
		return
	}
	var result job.Result
	if err := json.Unmarshal(event.Data, &result); err != nil || result.ID == "" {
		return // an event about something else than a job
	}
	fmt.Fprintf(r.stdout, "  %s  %s %s\n", plain(result.ID), plain(headline(result)), timing(result))
	if out := strings.TrimSpace(result.Stdout); out != "" {
		first, _, more := strings.Cut(out, "\n")
		if more {
			first += " …"
		}
		fmt.Fprintf(r.stdout, "  stdout: %s\n", plain(first))
	}
	listArtifacts(r.stdout, result, func(f job.Artifact) string { return f.URL })
}

func (r *receiver) printBatch(event webhook.Event) {
	var b job.Batch
	if err := json.Unmarshal(event.Data, &b); err != nil || b.ID == "" {
		return
	}
	fmt.Fprintf(r.stdout, "  %s  %s: %s\n", plain(b.ID), plain(string(b.Status)), counts(b))
	if b.ResultsURL != "" {
		fmt.Fprintf(r.stdout, "  results: %s\n", plain(b.ResultsURL))
	}
}

func (r *receiver) printRun(event webhook.Event) {
	var run job.Run
	if err := json.Unmarshal(event.Data, &run); err != nil || run.ID == "" {
		return
	}
	showRun(r.stdout, run)
}

// keep remembers the first error of printing, to end with it.
func (r *receiver) keep(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("print message: %w", err)
		r.enough()
	}
}
