package attest

import (
	"encoding/json"
	"fmt"

	"github.com/glovebox-run/glovebox/job"
)

// What a statement calls itself and its predicate.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://github.com/glovebox-run/glovebox/attestation/v1"
)

// Statement is what is signed: an in-toto statement with one subject.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is the job by its id, and the digest over what it was and came to.
type Subject struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Digest is an in-toto digest set of the one algorithm that we use.
type Digest struct {
	SHA256 string `json:"sha256"`
}

// Predicate is every attested field.
type Predicate struct {
	ID       string      `json:"id"`
	Status   job.Status  `json:"status"`
	ExitCode *int        `json:"exit_code,omitempty"`
	Signal   string      `json:"signal,omitempty"`
	Limit    string      `json:"limit,omitempty"`
	Error    *job.Error  `json:"error,omitempty"`
	Stdout   Stream      `json:"stdout"`
	Stderr   Stream      `json:"stderr"`
	Compile  *Compile    `json:"compile,omitempty"`
	Grading  *Grading    `json:"grading,omitempty"`
	Shown    *Shown      `json:"shown,omitempty"`
	Usage    job.Usage   `json:"usage"`
	Timing   job.Timing  `json:"timing"`
	Runtime  job.Runtime `json:"runtime"`
	// Artifacts are in the result's order.
	Artifacts             []Artifact    `json:"artifacts"`
	ArtifactsSkipped      []job.Skipped `json:"artifacts_skipped,omitempty"`
	ArtifactsSkippedTotal int           `json:"artifacts_skipped_total,omitempty"`
	// Limits are those that the job ran under, defaults included.
	Limits         job.Limits `json:"limits"`
	LimitsEnforced string     `json:"limits_enforced,omitempty"`
	Attempt        int        `json:"attempt"`
	Worker         string     `json:"worker,omitempty"`
	Session        *Execution `json:"session,omitempty"`
	// Approval says who let the job run, where a rule held it.
	Approval *job.Approval `json:"approval,omitempty"`
	// Problem is the digest of the stored problem that graded the job; "" for any other. InputHash has what that problem put into it.
	Problem string `json:"problem,omitempty"`

	InputHash       string `json:"input_hash"`
	OutputHash      string `json:"output_hash"`
	EnvironmentHash string `json:"environment_hash"`
}

// Execution attests where an execution stands in its session.
type Execution struct {
	ID         string `json:"id"` // the session's
	Sequence   int64  `json:"sequence"`
	Generation int    `json:"generation"` // of the context's interpreter
	State      string `json:"state"`
	// Context and Language say whose interpreter executed it; "" is the main one.
	Context  string `json:"context,omitempty"`
	Language string `json:"language,omitempty"`
	// LostContexts are others whose state was lost with it.
	LostContexts []string `json:"lost_contexts,omitempty"`
	// Previous is the digest of the subject of the execution before it that was executed; "" where there was none.
	Previous string `json:"previous"`
	// PreviousSession is the session that Previous is of, where that is another one: this one is its fork, and went on from there. "" for any other.
	PreviousSession string `json:"previous_session,omitempty"`
}

// Stream attests an output stream.
type Stream struct {
	// Size and SHA256 are of every byte that the program wrote, up to limits.output_kb.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// TextSHA256 is of what the result shows of it.
	TextSHA256 string `json:"text_sha256"`
	// Truncated says that the program wrote more than that.
	Truncated bool `json:"truncated,omitempty"`
}

// Compile attests the compile step.
type Compile struct {
	ExitCode     int    `json:"exit_code"`
	OutputSHA256 string `json:"output_sha256"`
	WallMS       int64  `json:"wall_ms"`
}

// Grading attests how a graded job was judged.
type Grading struct {
	Verdict  job.Verdict `json:"verdict"`
	Score    *float64    `json:"score,omitempty"`
	MaxScore *float64    `json:"max_score,omitempty"`
	// TestsSHA256 and GroupsSHA256 are of the result's tests and groups, as JSON without white space.
	TestsSHA256  string `json:"tests_sha256"`
	GroupsSHA256 string `json:"groups_sha256"`
}

// Shown attests what an execution of a session showed, and the error that ended it.
type Shown struct {
	// ResultsSHA256 and ExceptionSHA256 are of the result's results and exception, as JSON without white space.
	ResultsSHA256   string `json:"results_sha256"`
	ExceptionSHA256 string `json:"exception_sha256"`
	LeftOut         int    `json:"left_out,omitempty"`
}

// describeShown is nil for a job that showed nothing.
func describeShown(r job.Result) (*Shown, error) {
	if len(r.Results) == 0 && r.ResultsLeftOut == 0 && r.Exception == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	results, err := job.Marshal(r.Results)
	if err != nil {
		return nil, fmt.Errorf("encode results: %w", err)
	}
	exception, err := job.Marshal(r.Exception)
	if err != nil {
		return nil, fmt.Errorf("encode exception: %w", err)
	}
	return &Shown{ResultsSHA256: hashText(string(results)), ExceptionSHA256: hashText(string(exception)), LeftOut: r.ResultsLeftOut}, nil
}

// describeGrading is nil for a job that was not graded.
func describeGrading(r job.Result) (*Grading, error) {
	if r.Verdict == "" && r.Score == nil && r.MaxScore == nil && len(r.Tests) == 0 && len(r.Groups) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	tests, err := job.Marshal(r.Tests)
	if err != nil {
		return nil, fmt.Errorf("encode tests: %w", err)
	}
	groups, err := job.Marshal(r.Groups)
	if err != nil {
		return nil, fmt.Errorf("encode groups: %w", err)
	}
	return &Grading{
		Verdict: r.Verdict, Score: r.Score, MaxScore: r.MaxScore, TestsSHA256: hashText(string(tests)), GroupsSHA256: hashText(string(groups)),
	}, nil
}

// Artifact attests a file, except for its URL.
type Artifact struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	MediaType string `json:"media_type"`
	SHA256    string `json:"sha256"`
	Kind      string `json:"kind"`
}

// Run is what a result does not say of the run that it came from.
type Run struct {
	// InputHash is that of the spec, as [InputHash] has it.
	InputHash string
	// Limits that the job ran under.
	Limits job.Limits
	// Stdout and Stderr are the whole streams; TextSHA256 and Truncated are not read.
	Stdout, Stderr Stream
	// Previous and PreviousSession are those of [Execution]; "" for any other job.
	Previous, PreviousSession string
}

// describe returns what is attested of a result, without hashes.
func describe(r job.Result, run Run) (Predicate, error) {
	p := Predicate{
		ID: r.ID, Status: r.Status, ExitCode: r.ExitCode, Signal: r.Signal, Limit: r.Limit, Error: r.Error,
		Stdout: run.Stdout, Stderr: run.Stderr,
		Usage: r.Usage, Timing: r.Timing, Runtime: r.Runtime, Artifacts: make([]Artifact, len(r.Artifacts)),
		ArtifactsSkipped: r.ArtifactsSkipped, ArtifactsSkippedTotal: r.ArtifactsSkippedTotal,
		Limits: run.Limits, LimitsEnforced: r.LimitsEnforced, Attempt: r.Attempt, Worker: r.Worker,
		InputHash: run.InputHash, Approval: r.Approval, Problem: r.Problem,
	}
	if r.Session != nil {
		x := r.Session
		p.Session = &Execution{ID: x.ID, Sequence: x.Sequence, Context: x.Context, Language: x.Language, LostContexts: x.LostContexts, Generation: x.Generation, State: x.State, Previous: run.Previous, PreviousSession: run.PreviousSession}
	}
	p.Stdout.Truncated, p.Stderr.Truncated = r.StdoutTruncated, r.StderrTruncated
	p.Stdout.TextSHA256, p.Stderr.TextSHA256 = hashText(r.Stdout), hashText(r.Stderr)
	if r.Compile != nil {
		p.Compile = &Compile{ExitCode: r.Compile.ExitCode, OutputSHA256: hashText(r.Compile.Output), WallMS: r.Compile.WallMS}
	}
	for i, a := range r.Artifacts {
		p.Artifacts[i] = Artifact{Name: a.Name, Size: a.Size, MediaType: a.MediaType, SHA256: a.SHA256, Kind: a.Kind}
	}
	var err error
	if p.Grading, err = describeGrading(r); err != nil {
		return p, err
	}
	p.Shown, err = describeShown(r)
	return p, err
}

// hashed returns p with its hashes.
func (p Predicate) hashed() (Predicate, error) {
	var err error
	p.OutputHash = outputHash(p)
	p.EnvironmentHash, err = environmentHash(p)
	return p, err
}

// Attest returns a signed statement about a result. Its URLs, metadata and attestation
// are not looked at.
func (s *Signer) Attest(r job.Result, run Run) (*job.Attestation, error) {
	// JSON replaces what is not UTF-8 and drops what a clock knows beyond the time:
	// what is attested is what a reader will read.
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("attest result: %w", err)
	}
	var read job.Result
	if err := json.Unmarshal(b, &read); err != nil {
		return nil, fmt.Errorf("attest result: %w", err)
	}
	p, err := describe(read, run)
	if err == nil {
		p, err = p.hashed()
	}
	if err != nil {
		return nil, fmt.Errorf("attest result: %w", err)
	}
	payload, err := json.Marshal(Statement{
		Type: StatementType, PredicateType: PredicateType, Predicate: p,
		Subject: []Subject{{Name: r.ID, Digest: Digest{SHA256: subjectDigest(p)}}},
	})
	if err != nil {
		return nil, fmt.Errorf("attest result: %w", err)
	}
	if len(payload) > maxPayload {
		return nil, fmt.Errorf("attest result: the statement would have %d bytes, at most %d are verified", len(payload), maxPayload)
	}
	a := seal(s, PayloadType, payload)
	return &a, nil
}
