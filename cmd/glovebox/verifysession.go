package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
)

// maxTranscript is beyond what a session's results have, bytes.
const maxTranscript = 256 << 20

// checkEnd fails for what can't be how far a session went.
func (o verifyOptions) checkEnd() error {
	switch {
	case !o.session && (o.head != "" || o.count != 0):
		return usagef("--head and --count go with --session")
	case o.head != "" && !job.IsSHA256(o.head):
		return usagef("--head %q is no digest: want 64 hexadecimal digits, as \"glovebox session show\" prints them", o.head)
	case o.count < 0:
		return usagef("--count %d is negative", o.count)
	}
	return nil
}

// verifySession verifies the executions in the files as those of one session.
func (a *app) verifySession(ctx context.Context, files []string, o verifyOptions) error {
	if o.id != "" || o.json {
		return usagef("--session goes with neither --id nor --json")
	}
	var all []job.Executed
	for _, file := range files {
		b, err := a.readFile(file, maxTranscript)
		if err != nil {
			return err
		}
		more, err := executionsOf(b)
		if err != nil {
			return &failure{exitUsage, fmt.Errorf("%s: %w", file, err), `FILE is what "glovebox session transcript" prints, or results as "glovebox get --json" does`}
		}
		all = append(all, more...)
	}
	keys, err := a.trustedKeys(ctx, o.keys)
	if err != nil {
		return err
	}
	t, err := attest.VerifySession(all, keys)
	if err == nil {
		err = t.Reaches(o.head, o.count)
	}
	if err != nil {
		fmt.Fprintln(a.stdout, "REJECTED")
		return &failure{code: exitFailed, err: err}
	}
	fmt.Fprintf(a.stdout, "verified  session %s\n", plain(t.Session))
	for _, v := range t.Executions {
		p := v.Statement.Predicate
		unchecked := ""
		if slices.Contains(t.Unchecked, p.ID) {
			unchecked = ", its code is not here"
		}
		fmt.Fprintf(a.stdout, "  %d  %s  %s, state %s%s\n", p.Session.Sequence, plain(p.ID), p.Status, plain(p.Session.State), unchecked)
	}
	for _, id := range t.Unattested {
		fmt.Fprintf(a.stdout, "  -  %s  not attested: refused or canceled before it began, or lost with its session\n", plain(id))
	}
	fmt.Fprintf(a.stdout, "  head %s\n", t.Head)
	if o.head == "" && o.count == 0 {
		fmt.Fprintln(a.stdout, "  whether executions after these are cut off can't be seen without --head or --count")
	}
	return nil
}

// executionsOf reads one execution after the other.
func executionsOf(b []byte) (all []job.Executed, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read result %d: %w", len(all)+1, err)
		}
		r, err := attest.ParseExecuted(raw)
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", len(all)+1, err)
		}
		all = append(all, r)
	}
}
