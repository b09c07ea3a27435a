package job_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden guards the wire contract: JSON grows by addition only.
func TestGolden(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	zero, points := 0, 2.5
	for name, v := range map[string]any{
		"spec.json": job.Spec{
			SpecVersion: 1, Runtime: "python", Source: "print(1)", Files: []job.File{
				{Name: "a.txt", Content: "x"},
				{Name: "b.bin", ContentBase64: "AA=="},
				{Name: "c.png", Artifact: "default-x/a.png", Size: 6, SHA256: strings.Repeat("a", 64)},
				{Name: "d.csv", Upload: strings.Repeat("d", 64), Size: 7, SHA256: strings.Repeat("d", 64)},
			},
			Entrypoint: "main.py", Args: []string{"-v"}, Env: map[string]string{"A": "b"}, Secrets: []string{"TOKEN"}, Stdin: "in", Limits: job.DefaultMaximums,
			Callback:         &job.Callback{URL: "https://example.com/hook", Events: []string{job.EventCompleted}},
			RetentionSeconds: 3600, Metadata: map[string]string{"k": "v"}, Priority: job.High, RunAt: at, Deadline: at.Add(time.Hour), IdempotencyKey: "key", Stream: true,
		},
		"spec-image.json": job.Spec{
			Image: "registry.example.com/team/tool@sha256:" + strings.Repeat("0", 64), Command: []string{"/bin/tool", "in.txt"},
			Source: "text", Entrypoint: "in.txt",
		},
		"spec-commands.json": job.Spec{
			Runtime: "c", Source: "int main(void) {}", Commands: &job.Commands{Compile: "gcc -o /tmp/main main.c", Run: `/tmp/main "$@"`}, Args: []string{"a"},
		},
		"spec-streams.json": job.Spec{
			Runtime: "python", Source: "print(1)", StdinBase64: "AA==", MergeStderr: true, TruncateOutput: true, Limits: job.Limits{AddressSpaceMB: 1, StackMB: 2},
		},
		"spec-interactive.json": job.Spec{Runtime: "python", Source: "input()", Stdin: "a", Interactive: true},
		"input.json":            job.Input{Data: "1\n", EOF: true, Signal: "SIGINT"},
		"input-bytes.json":      job.Input{DataBase64: "AP8="},
		"spec-graded.json": job.Spec{
			Runtime: "python", Source: "print(1)", Checker: &job.Checker{Kind: "default", Args: []string{"float_tolerance", "1e-6"}},
			Tests: []job.Test{
				{Name: "sample/1", Group: "sample", Stdin: "1\n", Answer: "2\n", Args: []string{"-v"}, Hint: "add one"},
				{Name: "secret/1", Group: "secret", StdinBase64: "AA==", AnswerBase64: "AQ==", Points: &points, Hidden: true},
				{Name: "secret/2", Group: "secret", StdinUpload: strings.Repeat("a", 64), AnswerUpload: strings.Repeat("b", 64)},
			},
			Groups: []job.Group{
				{Name: "sample", Score: "sum", Verdict: "worst", AcceptAny: true},
				{Name: "secret", Score: "min", Verdict: "first", AcceptScore: &points, RejectScore: &points, MaxScore: &points, OnReject: "break", RequirePass: []string{"sample"}},
			},
		},
		"spec-checker.json": job.Spec{
			Runtime: "python", Source: "print(1)", Tests: []job.Test{{Name: "1", Answer: "1\n", CheckerArgs: []string{"case"}}},
			Checker: &job.Checker{Kind: job.CheckKattis, Args: []string{"all"}, Interactive: true, Passes: 3, Program: &job.CheckerProgram{
				Runtime: "cpp", Files: []job.File{{Name: "check.cpp", Content: "int main() {}"}, {Name: "testlib.h", Upload: strings.Repeat("a", 64)}}, Entrypoint: "check.cpp",
				Commands: &job.Commands{Compile: "g++ -o /tmp/main check.cpp", Run: `/tmp/main "$@"`}, Limits: job.Limits{MemoryMB: 512},
			}},
		},
		"result-graded.json": job.Result{
			ID: "default-x", Status: job.Succeeded, Artifacts: []job.Artifact{}, Verdict: job.WrongAnswer, Score: &points, MaxScore: &points,
			Tests: []job.TestResult{
				{
					Name: "sample/1", Group: "sample", Verdict: job.WrongAnswer, Score: 1, MaxScore: 2, Usage: &job.Usage{WallMS: 1, CPUMS: 2, MemoryPeakBytes: 3}, Reruns: 1, Passes: 2,
					ExitCode: &zero, Signal: "SIGKILL", Stdout: "o", Stderr: "e", Difference: &job.Difference{Line: 1, Column: 2, Want: "w", Got: "g"}, Interaction: "i", Feedback: "f",
				},
				{Name: "secret/1", Group: "secret", Verdict: job.SkippedTest, Hidden: true},
			},
			Groups: []job.GroupResult{{Name: "secret", Verdict: job.Accepted, Score: 1, MaxScore: 2}},
		},
		"record.json": job.Summary{
			ID: "default-x", Status: job.Running, Runtime: job.Runtime{Name: "python"}, Priority: job.Normal,
			Timing: job.Timing{CreatedAt: at, RunAt: &at, Deadline: &at, StartedAt: &at}, Attempt: 1, Metadata: map[string]string{"k": "v"},
		},
		"result.json": job.Result{
			ID: "default-x", Status: job.Succeeded, ExitCode: &zero, Signal: "SIGKILL", Stdout: "out", Stderr: "err", StdoutURL: "u", StderrURL: "u",
			Limit: "output_kb", StdoutTruncated: true, StderrTruncated: true,
			Error: &job.Error{Code: "c", Message: "m"}, Usage: job.Usage{WallMS: 1, CPUMS: 2, MemoryPeakBytes: 3},
			Timing:           job.Timing{CreatedAt: at, StartedAt: &at, FinishedAt: &at, QueueMS: 4, StartupMS: 5},
			Artifacts:        []job.Artifact{{Name: "a.png", Size: 6, MediaType: "image/png", SHA256: "ab", Kind: job.KindChart, URL: "u", Chart: json.RawMessage(`{"type":"empty","title":""}`)}},
			ArtifactsSkipped: []job.Skipped{{Name: "fifo", Reason: "r"}}, ArtifactsSkippedTotal: 1,
			Compile: &job.Compile{ExitCode: 0, Output: "o", WallMS: 7},
			Runtime: job.Runtime{Name: "python", Version: "3.13", Image: "i", ImageDigest: "sha256:d", OCIRuntime: "runsc"}, LimitsEnforced: "soft",
			Attestation: &job.Attestation{PayloadType: "t", Payload: "e30=", Signatures: []job.Signature{{KeyID: "k", Sig: "AA=="}}},
			Attempt:     1, Worker: "w", Metadata: map[string]string{"k": "v"},
		},
		"batch.json": job.Batch{
			ID: "default-b-x", Status: job.BatchCanceled, Total: 3, Jobs: 2, Rejected: 1, Ended: 2,
			Counts: map[job.Status]int{job.Succeeded: 1, job.Canceled: 1}, CancelRequested: true,
			CreatedAt: at, SealedAt: &at, FinishedAt: &at, ResultsURL: "u",
			Errors:   []job.ItemError{{Index: 1, Code: "invalid", Message: "m", Errors: job.Invalid{{Field: "runtime", Value: "cobol", Message: "m", Allowed: "python"}}}},
			Metadata: map[string]string{"k": "v"},
		},
		"batch-new.json":      job.Batch{ID: "default-b-x", Status: job.BatchReceiving, Counts: map[job.Status]int{}, CreatedAt: at},
		"batch-rejected.json": job.BatchResult{Index: 1, Error: &job.Error{Code: "invalid", Message: "m"}},
		"batch-options.json": job.BatchOptions{
			IdempotencyKey: "key", Callback: &job.Callback{URL: "https://example.com/hook", Events: []string{job.EventBatchCompleted}}, Metadata: map[string]string{"k": "v"},
		},
		"canceled.json": job.Result{ID: "default-x", Status: job.Canceled, Artifacts: []job.Artifact{}, Timing: job.Timing{CreatedAt: at}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.MarshalIndent(v, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, '\n')
			file := filepath.Join("testdata", name)
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the wire contract changed (-want +got):\n%s", cmp.Diff(string(want), string(got)))
			}
		})
	}
}
