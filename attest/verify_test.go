package attest

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample is a result in which no field is empty but its isolation, and the run that it came from.
func sample() (job.Result, Run) {
	created := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	started, finished := created.Add(time.Second), created.Add(2*time.Second+345*time.Nanosecond)
	runAt, deadline := created.Add(time.Millisecond), created.Add(time.Hour)
	exitCode, score, most := 1, 1.5, 3.0
	r := job.Result{
		ID: "default-x", Status: job.Failed, ExitCode: &exitCode, Signal: "SIGKILL", Limit: "output_kb", StdoutTruncated: true, StderrTruncated: true,
		Stdout: "out\n", Stderr: "err\n", StdoutURL: "stdout", StderrURL: "stderr",
		Error: &job.Error{Code: "c", Message: "m"},
		Usage: job.Usage{WallMS: 1, CPUMS: 2, MemoryPeakBytes: 3}, Compile: &job.Compile{ExitCode: 4, Output: "warning", WallMS: 5},
		Timing: job.Timing{CreatedAt: created, RunAt: &runAt, Deadline: &deadline, StartedAt: &started, FinishedAt: &finished, QueueMS: 6, StartupMS: 7},
		Artifacts: []job.Artifact{
			{Name: "chart-1.png", Size: 8, MediaType: "image/png", SHA256: hashText("chart"), Kind: job.KindChart, URL: "artifacts/chart-1.png", Chart: json.RawMessage(`{"type":"line","title":""}`)},
			{Name: "data/a.csv", Size: 9, MediaType: "text/csv", SHA256: hashText("a"), Kind: job.KindFile, URL: "artifacts/data/a.csv"},
		},
		ArtifactsSkipped: []job.Skipped{{Name: "fifo", Reason: "is no file"}}, ArtifactsSkippedTotal: 1,
		Runtime:        job.Runtime{Name: "python", Version: "3.13", Image: "localhost/glovebox/python:1", ImageDigest: "sha256:" + hashText("image"), OCIRuntime: "runsc 1", Snapshot: hashText("snapshot")},
		LimitsEnforced: "soft", Attempt: 1, Worker: "host-a", Metadata: map[string]string{"k": "v"},
		Verdict: job.WrongAnswer, Score: &score, MaxScore: &most,
		Tests: []job.TestResult{{
			Name: "01", Group: "g", Verdict: job.WrongAnswer, Score: 1, MaxScore: 2, Hidden: true, Usage: &job.Usage{WallMS: 1, CPUMS: 2, MemoryPeakBytes: 3}, Reruns: 1, Passes: 2,
			ExitCode: &exitCode, Signal: "SIGKILL", Stdout: "o", Stderr: "e", Difference: &job.Difference{Line: 1, Column: 2, Want: "w", Got: "g"}, Feedback: "f", JudgeMessage: "j", Interaction: "< 1\n",
		}},
		Groups:  []job.GroupResult{{Name: "g", Verdict: job.WrongAnswer, Score: 1, MaxScore: 2}},
		Session: &job.ExecutionState{ID: "default-s-x", Sequence: 1, Context: "a", Language: "javascript", Generation: 2, State: job.StateKept, LostContexts: []string{"b"}},
		Results: []job.Shown{
			{Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": {Text: "2"}}, Note: "n"},
			{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"image/png": {Artifact: "chart-1.png"}}, Note: "n"},
		},
		ResultsLeftOut: 1, Exception: &job.Exception{Name: "E", Value: "v", Traceback: "t"},
		Cost:     &job.Cost{Nano: 1, Amount: "0.000000001"},
		Problem:  hashText("problem"),
		Approval: &job.Approval{Rule: "careful", By: "reviewer (abc)", At: created, Note: "n", InputHash: hashText("approved")},
	}
	input, err := InputHash(job.Spec{Source: "print(1)"})
	if err != nil {
		panic(err)
	}
	limits := job.DefaultMaximums
	limits.CompileWallMS, limits.CompileMemoryMB = 1, 2
	limits.CPUs = 0.5
	return r, Run{
		InputHash: input, Limits: limits,
		Stdout: Stream{Size: 100_000, SHA256: hashText("all of stdout")}, Stderr: Stream{Size: 4, SHA256: hashText("err\n")},
		Previous: hashText("previous"), PreviousSession: "default-s-w",
	}
}

// attested returns the sample with its attestation, as a reader of its JSON has it.
func attested(tb testing.TB, s *Signer) job.Result {
	tb.Helper()
	return attestedIn(tb, s, "")
}

// attestedIn is attested, of a program with that isolation. The golden sample ran in gVisor, and its result names no isolation.
func attestedIn(tb testing.TB, s *Signer, i job.Isolation) job.Result {
	tb.Helper()
	r, run := sample()
	r.Runtime.Isolation = i
	var err error
	if r.Attestation, err = s.Attest(r, run); err != nil {
		tb.Fatal(err)
	}
	return copied(tb, r)
}

func copied(tb testing.TB, r job.Result) job.Result {
	tb.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	again, err := ParseResult(b)
	if err != nil {
		tb.Fatal(err)
	}
	return again
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	r := attested(t, s)
	v, err := Verify(r, []Key{newSigner(t).Key(), s.Key()})
	if err != nil {
		t.Fatal(err)
	}
	_, run := sample()
	p := v.Statement.Predicate
	if v.Key.ID != s.Key().ID || p.InputHash != run.InputHash || p.Limits != run.Limits || p.Stdout.SHA256 != run.Stdout.SHA256 {
		t.Errorf("got %+v", v)
	}
}

func TestAttestsWhatIsRead(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	r := job.Result{
		ID: "default-x", Status: job.Succeeded, Signal: "\xff", Compile: &job.Compile{Output: "\xfe"},
		Timing: job.Timing{CreatedAt: time.Now()}, // with a monotonic clock and a zone
	}
	var err error
	if r.Attestation, err = s.Attest(r, Run{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(copied(t, r), []Key{s.Key()}); err != nil {
		t.Errorf("a result without most fields, and with bytes that are no text: %v", err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	older, newer := newSigner(t), newSigner(t)
	before, after := attested(t, older), attested(t, newer)
	for name, c := range map[string]struct {
		result job.Result
		keys   []Key
		want   error
	}{
		"retired and listed":     {before, []Key{newer.Key(), older.Key()}, nil},
		"in use":                 {after, []Key{newer.Key(), older.Key()}, nil},
		"retired and not listed": {before, []Key{newer.Key()}, ErrUnknownKey},
		"not known yet":          {after, []Key{older.Key()}, ErrUnknownKey},
	} {
		if _, err := Verify(c.result, c.keys); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// unattested is every field of a result that its attestation says nothing about. That
// others signed it too is no change.
var unattested = []string{
	"stdout_url", "stderr_url", "artifacts.url", "artifacts.chart", "metadata", "attestation.signatures.(added)",
	"cost.(removed)", "cost.nano", "cost.amount",
}

// TestEveryFieldOfAResult changes each field, found by reflection: a field that is added
// to job.Result and forgotten here fails.
func TestEveryFieldOfAResult(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	n := 0
	for path, change := range changes(reflect.TypeFor[job.Result]()) {
		r := attestedIn(t, s, job.Process)
		change(t, reflect.ValueOf(&r).Elem())
		_, err := Verify(r, []Key{s.Key()})
		switch {
		case slices.Contains(unattested, path):
			if err != nil {
				t.Errorf("%s is not attested, and yet: %v", path, err)
			}
		case err == nil:
			t.Errorf("%s was changed, and the result verifies", path)
		case !strings.HasPrefix(path, "attestation") && !errors.Is(err, ErrChanged):
			t.Errorf("%s was changed: got %v, want %v", path, err, ErrChanged)
		}
		n++
	}
	if n < 40 {
		t.Errorf("%d fields were changed, want all of them", n)
	}
}

// TestEveryFieldOfAStatement changes each field of the statement, and has it signed
// again by a key that is trusted: hashes and result still have to agree with it.
func TestEveryFieldOfAStatement(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for path, change := range changes(reflect.TypeFor[Statement]()) {
		r := attestedIn(t, s, job.Process)
		var statement Statement
		payload, err := decode(r.Attestation.Payload)
		if err == nil {
			err = json.Unmarshal(payload, &statement)
		}
		if err != nil {
			t.Fatal(err)
		}
		change(t, reflect.ValueOf(&statement).Elem())
		if payload, err = json.Marshal(statement); err != nil {
			t.Fatal(err)
		}
		unsigned := *r.Attestation
		a := seal(s, PayloadType, payload)
		unsigned.Payload, r.Attestation = a.Payload, &a
		if _, err := Verify(r, []Key{s.Key()}); !errors.Is(err, ErrChanged) && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s was changed and signed: got %v, want %v or %v", path, err, ErrChanged, ErrMalformed)
		}
		r.Attestation = &unsigned
		if _, err := Verify(r, []Key{s.Key()}); !errors.Is(err, ErrSignature) {
			t.Errorf("%s was changed: got %v, want %v", path, err, ErrSignature)
		}
	}
}

type change func(testing.TB, reflect.Value)

// changes are all ways to change one field of a value of type t, by the field's path:
// its leaves, and for lists and pointers also that they are empty.
func changes(t reflect.Type) map[string]change {
	all := map[string]change{}
	add := func(path string, under reflect.Type, reach func(reflect.Value) reflect.Value) {
		for rest, inner := range changes(under) {
			all[strings.Trim(path+"."+rest, ".")] = func(tb testing.TB, v reflect.Value) { tb.Helper(); inner(tb, reach(v)) }
		}
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		all[""] = func(tb testing.TB, v reflect.Value) {
			tb.Helper()
			v.Set(reflect.ValueOf(v.Interface().(time.Time).Add(time.Millisecond)))
		}
	case t == reflect.TypeFor[json.RawMessage]():
		all[""] = func(_ testing.TB, v reflect.Value) { v.SetBytes([]byte(`{"type":"pie","title":""}`)) }
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			add(jsonName(t.Field(i)), t.Field(i).Type, func(v reflect.Value) reflect.Value { return v.Field(i) })
		}
	case t.Kind() == reflect.Pointer:
		add("", t.Elem(), reflect.Value.Elem)
		all["(removed)"] = func(_ testing.TB, v reflect.Value) { v.SetZero() }
	case t.Kind() == reflect.Slice:
		add("", t.Elem(), func(v reflect.Value) reflect.Value { return v.Index(0) })
		all["(removed)"] = func(_ testing.TB, v reflect.Value) { v.SetLen(v.Len() - 1) }
		all["(added)"] = func(_ testing.TB, v reflect.Value) { v.Set(reflect.Append(v, v.Index(0))) }
	default:
		all[""] = func(tb testing.TB, v reflect.Value) {
			tb.Helper()
			if v.IsZero() {
				tb.Fatalf("a field of the sample is empty: give it a value (%s)", v.Type())
			}
			switch {
			case v.Kind() == reflect.Bool:
				v.SetBool(false)
			case v.CanInt():
				v.SetInt(v.Int() + 1)
			case v.CanFloat():
				v.SetFloat(v.Float() + 0.5)
			case v.Kind() == reflect.String:
				v.SetString(v.String() + " ")
			case v.Kind() == reflect.Map:
				v.SetZero()
			default:
				tb.Fatalf("don't know how to change a %s", v.Type())
			}
		}
	}
	return all
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func TestNotVerified(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	keys := []Key{s.Key()}
	r, run := sample()
	if _, err := Verify(r, keys); !errors.Is(err, ErrUnsigned) {
		t.Errorf("got %v, want %v", err, ErrUnsigned)
	}
	t.Run("a statement about another result", func(t *testing.T) {
		t.Parallel()
		other := r
		other.ID = "default-y"
		a, err := s.Attest(other, run)
		if err != nil {
			t.Fatal(err)
		}
		mine := r
		mine.Attestation = a
		if _, err := Verify(mine, keys); !errors.Is(err, ErrChanged) {
			t.Errorf("got %v, want %v", err, ErrChanged)
		}
	})
	for _, payload := range []string{"", "{", "null", "[]", `"x"`, "{}", `{"_type":1}`, `{"_type":"` + StatementType + `","predicateType":"` + PredicateType + `"}`, `{"_type":"https://in-toto.io/Statement/v0.1","subject":[{}]}`, strings.Repeat("[", 100_000)} {
		mine := r
		a := seal(s, PayloadType, []byte(payload))
		mine.Attestation = &a
		if _, err := Verify(mine, keys); !errors.Is(err, ErrMalformed) {
			t.Errorf("signed %.60q: got %v, want %v", payload, err, ErrMalformed)
		}
	}
	t.Run("cut anywhere", func(t *testing.T) {
		t.Parallel()
		whole := attested(t, s)
		for i := range len(whole.Attestation.Payload) {
			mine, a := whole, *whole.Attestation
			a.Payload, mine.Attestation = a.Payload[:i], &a
			if _, err := Verify(mine, keys); !errors.Is(err, ErrSignature) && !errors.Is(err, ErrMalformed) {
				t.Errorf("cut at %d: got %v", i, err)
			}
		}
	})
}

// TestGolden guards the encoding: what was signed once verifies for ever. It has no snapshot, no session, no results and no
// approval, as no result that was attested had one then.
func TestGolden(t *testing.T) {
	t.Parallel()
	s := rfc8032(t)
	r, run := sample()
	r.Runtime.Snapshot, r.Session, r.Approval = "", nil, nil
	r.Results, r.ResultsLeftOut, r.Exception = nil, 0, nil
	var err error
	if r.Attestation, err = s.Attest(r, run); err != nil {
		t.Fatal(err)
	}
	r = copied(t, r)
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	payload, err := decode(r.Attestation.Payload)
	if err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{"testdata/result.json": string(got) + "\n", "testdata/statement.json": string(payload)} {
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s changed (-want +got):\n%s", file, d)
		}
	}
	stored, err := os.ReadFile("testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	old, err := ParseResult(stored)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(old, []Key{s.Key()}); err != nil {
		t.Errorf("the stored result: %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	s := rfc8032(f)
	good := attested(f, s)
	a := *good.Attestation
	payload, err := decode(a.Payload)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.PayloadType, a.Payload, a.Signatures[0].KeyID, a.Signatures[0].Sig, payload)
	f.Add(a.PayloadType, a.Payload[:40], "", "AA==", []byte(`{"_type":"x"}`))
	f.Fuzz(func(t *testing.T, payloadType, payload, keyID, sig string, signed []byte) {
		r := good
		r.Attestation = &job.Attestation{PayloadType: payloadType, Payload: payload, Signatures: []job.Signature{{KeyID: keyID, Sig: sig}}}
		if _, err := Verify(r, []Key{s.Key()}); err == nil {
			mine, decodeErr := decode(payload)
			want, wantErr := decode(a.Payload)
			if decodeErr != nil || wantErr != nil || string(mine) != string(want) || payloadType != a.PayloadType {
				t.Errorf("what was never signed verifies: %q %q", payloadType, payload)
			}
		}
		// What a trusted key signed is parsed: it must not panic, nor attest another result.
		sealed := seal(s, PayloadType, signed)
		r.Attestation = &sealed
		if v, err := Verify(r, []Key{s.Key()}); err == nil && v.Statement.Predicate.ID != r.ID {
			t.Errorf("a statement about %q verifies for %q", v.Statement.Predicate.ID, r.ID)
		}
	})
}
