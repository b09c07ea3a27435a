package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/glovebox-run/glovebox/job"
)

// sessionOptions are the flags of a new session.
type sessionOptions struct {
	runtime                        string
	limits, env, secrets, metadata []string
	placement                      []string
	ttl, idle, cpu                 time.Duration
	executions                     int64
	key, callback                  string
}

// add declares the flags. An idle time of 0 leaves the default to the API.
func (o *sessionOptions) add(f *pflag.FlagSet, idle time.Duration) {
	o.addOwn(f, idle)
	f.StringArrayVar(&o.limits, "limit", nil, "`LIMIT=NUMBER` such as wall_ms=5000 or memory_mb=512; may be repeated")
	f.StringArrayVar(&o.env, "env", nil, "`NAME=VALUE` for its environment; may be repeated")
	f.StringArrayVar(&o.secrets, "secret", nil, "`NAME` of a stored secret for its environment; may be repeated")
	f.StringArrayVar(&o.placement, "placement", nil, "`KEY=VALUE`: a label that its worker has to have; may be repeated")
}

// addOwn declares those that a fork has, too.
func (o *sessionOptions) addOwn(f *pflag.FlagSet, idle time.Duration) {
	usual := ""
	if idle == 0 {
		usual = " (default 10m)"
	}
	f.DurationVar(&o.ttl, "ttl", 0, "end it after `TIME` such as 30m (default 1h, 90m at most)")
	f.DurationVar(&o.idle, "idle", idle, "end it when it has executed nothing for `TIME`"+usual)
	f.Int64Var(&o.executions, "max-executions", 0, "end it when it has executed `N` times")
	f.DurationVar(&o.cpu, "max-cpu", 0, "end it when its executions have used `TIME` such as 90s of CPU time")
	f.StringVar(&o.callback, "callback", "", "`URL` that is told, signed, of the session's end and of each execution's")
	f.StringArrayVar(&o.metadata, "metadata", nil, "`KEY=VALUE`; may be repeated")
}

// changed reports whether anything was asked of a new session.
func (o *sessionOptions) changed(f *pflag.FlagSet) bool {
	for _, name := range []string{"ttl", "idle", "max-executions", "max-cpu", "limit", "env", "secret", "placement", "callback", "metadata"} {
		if f.Changed(name) {
			return true
		}
	}
	return false
}

func (o *sessionOptions) settings() (job.SessionSettings, error) {
	s := job.SessionSettings{Runtime: o.runtime, Secrets: o.secrets, IdempotencyKey: cmp.Or(o.key, rand.Text())} // so that a request can be repeated
	var errs [6]error
	s.Limits, errs[0] = parseLimits("--limit", o.limits, job.Limits{})
	s.Env, errs[1] = pairs("--env", o.env)
	s.Metadata, errs[2] = pairs("--metadata", o.metadata)
	s.TTLSeconds, errs[3] = wholeSeconds("--ttl", o.ttl)
	s.IdleSeconds, errs[4] = wholeSeconds("--idle", o.idle)
	s.Placement, errs[5] = pairs("--placement", o.placement)
	if o.cpu%time.Millisecond != 0 {
		return s, usagef("--max-cpu %s: want whole milliseconds", o.cpu)
	}
	if o.callback != "" {
		s.Callback = &job.Callback{URL: o.callback}
	}
	if o.executions != 0 || o.cpu != 0 {
		s.Budget = &job.SessionBudget{CPUMS: o.cpu.Milliseconds(), Executions: o.executions}
	}
	return s, errors.Join(errs[:]...)
}

// wholeSeconds are those of the flag's value.
func wholeSeconds(flag string, d time.Duration) (int64, error) {
	if d%time.Second != 0 || d < 0 {
		return 0, usagef("%s %s: want whole seconds", flag, d)
	}
	return int64(d / time.Second), nil
}
