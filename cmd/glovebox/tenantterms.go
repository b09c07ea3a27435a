package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
)

// termsOptions are the terms of a tenant on the command line.
type termsOptions struct {
	requests, jobs, bytes int64
	running               int64
	stored, recorded      int64
	budget                string
	warn                  int64
	retention             int64
	maximums              []string
	runtimes, images      []string
	hosts                 []string
	policy                string
	placement             []string
}

func (o *termsOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Int64Var(&o.requests, "requests-per-minute", 0, "requests to the API per minute; 0 for any `NUMBER`")
	f.Int64Var(&o.jobs, "jobs-queued", 0, "jobs that wait for a worker; 0 for any `NUMBER`")
	f.Int64Var(&o.bytes, "bytes-queued", 0, "`BYTES` of these jobs, their specs as JSON; 0 for any number")
	f.Int64Var(&o.stored, "bytes-stored", 0, "`BYTES` of files, outputs and results that are kept; 0 for any number")
	f.Int64Var(&o.recorded, "bytes-recorded", 0, "`BYTES` of Redis that records of jobs and batches take as long as they are kept; 0 for as many as the operator lets any tenant have")
	f.Int64Var(&o.retention, "retention-seconds", 0, "how many `SECONDS` jobs are kept after their end, unless they ask for less; 0 for as long as the operator keeps them")
	f.StringVar(&o.budget, "budget", "", "what jobs may cost in a calendar month of UTC, an `AMOUNT` of your currency such as 25.50; 0 for any")
	f.Int64Var(&o.warn, "budget-warn", 0, "`PERCENT` of the budget of which budget.warning tells; 0 for 80")
	f.Int64Var(&o.running, "running-at-once", 0, "jobs that run at the same time, others wait; 0 for any `NUMBER`")
	f.StringArrayVar(&o.maximums, "maximum", nil, "the most that a job may ask for: `LIMIT=NUMBER` such as memory_mb=512; 0 for the operator's")
	f.StringSliceVar(&o.runtimes, "allow-runtimes", nil, "`NAMES` of the only runtimes that jobs may use, with commas; empty, and no allowed images, for all")
	f.StringSliceVar(&o.images, "allow-images", nil, "`NAMES` of the only images that jobs may bring, with or without @sha256:…; empty, and no allowed runtimes, for all")
	f.StringVar(&o.policy, "policy", "", "rules that refuse or hold its jobs, after the operator's: a `FILE` as \"glovebox policy test\" takes it, - for standard input; empty for none")
	f.StringSliceVar(&o.placement, "placement", nil, "`LABELS` that a worker has to have to run its jobs, with commas: pool=exams; no other tenant may name them then. Empty for any worker")
	f.StringSliceVar(&o.hosts, "allow-callback-hosts", nil, "the only `HOSTS` that callbacks may lead to, with commas: hooks.example.com,*.example.org; empty for all")
	setTwin(cmd, "policy", "GLOVEBOX_TENANT_POLICY") // GLOVEBOX_POLICY and GLOVEBOX_RETENTION_SECONDS are the api's own
	setTwin(cmd, "retention-seconds", "GLOVEBOX_TENANT_RETENTION_SECONDS")
}

// apply changes in terms what the command line names.
func (o *termsOptions) apply(cmd *cobra.Command, read func(path string) ([]byte, error), t job.Terms) (job.Terms, error) {
	changed := cmd.Flags().Changed
	if changed("requests-per-minute") {
		t.Quotas.RequestsPerMinute = o.requests
	}
	if changed("jobs-queued") {
		t.Quotas.JobsQueued = o.jobs
	}
	if changed("bytes-queued") {
		t.Quotas.BytesQueued = o.bytes
	}
	if changed("bytes-stored") {
		t.Quotas.BytesStored = o.stored
	}
	if changed("bytes-recorded") {
		t.Quotas.BytesRecorded = o.recorded
	}
	if changed("retention-seconds") {
		t.RetentionSeconds = o.retention
	}
	if changed("running-at-once") {
		t.Quotas.RunningAtOnce = o.running
	}
	if changed("allow-runtimes") {
		t.Runtimes = o.runtimes
	}
	if changed("allow-images") {
		t.Images = o.images
	}
	if changed("allow-callback-hosts") {
		t.CallbackHosts = o.hosts
	}
	var err error
	if changed("placement") {
		if t.Placement, err = pairs("--placement", o.placement); err != nil {
			return t, err
		}
	}
	if changed("policy") {
		if t.Policy, err = o.readPolicy(read); err != nil {
			return t, err
		}
	}
	if changed("budget") {
		if t.Budget.Nano, err = parseAmount("--budget", o.budget); err != nil {
			return t, err
		}
	}
	if changed("budget-warn") {
		t.Budget.WarnPercent = o.warn
	}
	t.Maximums, err = parseLimits("--maximum", o.maximums, t.Maximums)
	return t, err
}

// readPolicy reads the rules that --policy names; "" is none.
func (o *termsOptions) readPolicy(read func(path string) ([]byte, error)) ([]job.Rule, error) {
	if o.policy == "" {
		return nil, nil
	}
	text, err := read(o.policy)
	if err != nil {
		return nil, err
	}
	rules, err := policy.Rules(text)
	if err == nil {
		_, err = policy.Parse("policy", rules)
	}
	if err != nil {
		return nil, usagef("--policy %s: %s", o.policy, err)
	}
	return rules, nil
}

// parseAmount reads an amount of currency, in billionths.
func parseAmount(flag, text string) (int64, error) {
	amount, ok := new(big.Rat).SetString(text)
	if !ok || len(text) > 32 || strings.ContainsAny(text, "eEpPxX/_") {
		return 0, usagef("%s %q: want an amount such as 25.50", flag, text)
	}
	nano := amount.Mul(amount, big.NewRat(1e9, 1))
	if !nano.IsInt() || !nano.Num().IsInt64() {
		return 0, usagef("%s %q: want at most nine digits behind the point, and less than nine thousand million", flag, text)
	}
	return nano.Num().Int64(), nil
}

// maximums are those that narrow the operator's, by name.
func maximums(l job.Limits) string {
	b, err := json.Marshal(l)
	if err != nil {
		return err.Error() // NaN, which no API sends
	}
	var set map[string]json.Number
	if err := json.Unmarshal(b, &set); err != nil {
		return err.Error()
	}
	var words []string
	for _, name := range limitNames() {
		if value, ok := set[name]; ok {
			words = append(words, fmt.Sprintf("%s=%s", name, value))
		}
	}
	if len(words) == 0 {
		return "the operator's"
	}
	return strings.Join(words, " ")
}
