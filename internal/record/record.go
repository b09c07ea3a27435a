package record

import (
	"encoding/json"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Record is a job as it is stored.
type Record struct {
	ID       string
	Tenant   string
	State    job.Status
	Epoch    int
	Attempts int
	Runtime  string
	// Image is one of the submitter's own, instead of Runtime.
	Image    string
	Priority job.Priority
	// Placement are the labels that its worker has to have, as [job.Labels.String] writes them; "" for none.
	Placement string
	Metadata  map[string]string
	// Session that it is an execution of, or "", and Sequence its place there, 0 while it waits.
	Session  string
	Sequence int64
	// Place is where in the session, and Expect the generation that the interpreter there has to have, 0 for any.
	Place  Place
	Expect int
	// Generation is that of the interpreter that is to execute it, 0 where its context is no more, and Contexts are all of the session. Only TakeTurn says so.
	Generation int
	Contexts   []job.SessionContext
	// Problem is the digest of the stored problem that grades it, or "".
	Problem string
	// Batch that it is a job of, or "".
	Batch string
	// Trace is where its trace goes on, as a traceparent, or "".
	Trace string
	// Spec, or SpecRef: the S3 key of one above 64 KiB. Both are gone once it ended; what a session has executed stays, here or
	// in the bucket under InputRef.
	Spec     *job.Spec
	SpecRef  string
	InputRef string
	// SpecText is Spec as the record has it, of a job that is held or was; "" for any other.
	SpecText string
	// Hold is why the job is held, nil where it isn't, and Approval who let it run, where it was.
	Hold     *Held
	Approval *job.Approval
	holdText string
	// SpecBytes is how large the spec is as JSON.
	SpecBytes int64
	// Callback is the URL that is told, or "".
	Callback string
	Created  time.Time
	// RunAt is when it may start at the earliest, and Deadline when it is ended at the
	// latest; zero for none.
	RunAt, Deadline time.Time
	// Released is when it left its tenant's backlog, or never had to enter it; zero before.
	Released        time.Time
	Started         time.Time // zero while queued
	Finished        time.Time // zero until it ended
	Worker          string
	CancelRequested bool
	// CancelReason is why, where somebody said so.
	CancelReason *job.Error
	// OutageSince is when an outage handed the job back, the first of its day of outages; zero if none has, or if the last one was long before
	// the job's start.
	OutageSince time.Time
	// Unoffered is when first no worker was found that offers its runtime or image; zero if one always was, or has started it since.
	Unoffered time.Time
	// Retention is how long the job is kept after its end.
	Retention time.Duration
	// WatchedUntil is for how long somebody is known to watch the job; zero if nobody did.
	WatchedUntil time.Time
	// Result as JSON up to 64 KiB, and ResultRef, the S3 key of result.json; at least
	// one of them once it ended. Where there is a ResultRef, Result is there for a short
	// time only. URLs in it are relative to the epoch's prefix.
	Result    []byte
	ResultRef string
}

func parseJob(tenant, id string, f map[string]string) (Record, error) {
	j := Record{
		ID: id, Tenant: tenant, State: job.Status(f["state"]), Runtime: f["runtime"], Image: f["image"], Placement: f["placement"],
		Priority: job.Priority(f["priority"]), SpecRef: f["spec_ref"], Callback: f["callback"],
		Worker: f["worker"], CancelRequested: f["cancel"] != "", ResultRef: f["result_ref"], InputRef: f["input_ref"],
		Problem: f["problem"], Batch: f["batch"], Session: f["session"], Trace: f["trace"],
	}
	if f["cancel"] == ErrTenantStopped.Code {
		j.CancelReason = ErrTenantStopped
	}
	r := fields{of: "record " + id, f: f}
	j.Expect = int(r.number("expect"))
	j.SpecBytes, j.Sequence = r.number("bytes"), r.number("sequence")
	j.Epoch, j.Attempts = int(r.number("epoch")), int(r.number("attempts"))
	j.Created, j.Started, j.Finished, j.OutageSince = r.at("created"), r.at("started"), r.at("finished"), r.at("outage")
	j.Unoffered = r.at("unoffered")
	j.Retention = time.Duration(r.number("retention")) * time.Millisecond
	j.Released, j.RunAt, j.Deadline = r.at("released"), r.at("run_at"), r.at("deadline")
	j.WatchedUntil = r.at("watched")
	if result := f["result"]; result != "" {
		j.Result = []byte(result)
	}
	for name, into := range map[string]any{"spec": &j.Spec, "metadata": &j.Metadata} {
		if f[name] != "" {
			r.fail(name, json.Unmarshal([]byte(f[name]), into))
		}
	}
	if f["session"] != "" && f["spec"] != "" { // one that has ended has it elsewhere
		r.fail("spec", json.Unmarshal([]byte(f["spec"]), &j.Place))
	}
	j.readDecision(f)
	return j, r.err
}

// Failure is the result of a job that no run brought to an end. Metadata is left to
// the record, which has it already: together they may be more than a record holds.
func (j Record) Failure(status job.Status, problem *job.Error, finished time.Time) job.Result {
	finished = finished.UTC().Truncate(time.Millisecond) // as the record has it
	r := job.Result{
		ID: j.ID, Status: status, Error: problem, Artifacts: []job.Artifact{}, Timing: j.Timing(),
		Runtime: job.Runtime{Name: j.Runtime, Image: j.Image}, Attempt: j.Attempts, Worker: j.Worker, Approval: j.Approval, Problem: j.Problem,
	}
	r.Timing.FinishedAt = &finished
	return r
}

// Timing is what the job's owner gets to see of its times.
func (j Record) Timing() job.Timing {
	optional := func(t time.Time) *time.Time {
		if _, err := t.MarshalText(); err != nil || t.IsZero() { // a job whose result can't be written never ends
			return nil
		}
		return &t
	}
	timing := job.Timing{
		CreatedAt: j.Created, RunAt: optional(j.RunAt), Deadline: optional(j.Deadline),
		StartedAt: optional(j.Started), FinishedAt: optional(j.Finished),
	}
	if !j.Started.IsZero() {
		timing.QueueMS = j.Queued().Milliseconds()
	}
	return timing
}

// Queued is how long the job waited for the worker that has it, since it could run. The
// two ends of it are read from clocks of two hosts.
func (j Record) Queued() time.Duration { return max(j.Started.Sub(j.Ready()), 0) }

// Ready is when the job could run at the earliest.
func (j Record) Ready() time.Time {
	ready := j.Created
	if j.RunAt.After(ready) {
		ready = j.RunAt
	}
	if j.Approval != nil && j.Approval.At.After(ready) {
		ready = j.Approval.At
	}
	return ready
}

// Watched reports whether somebody watches the job.
func (j Record) Watched(now time.Time) bool { return now.Before(j.WatchedUntil) }
