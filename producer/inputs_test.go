package producer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

func sha(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// artifactInputs: a job is accepted with what another of the same tenant left, and with
// nothing else.
func (s suite) artifactInputs(t *testing.T) {
	const content = "a,b\n1,2\n"
	from := s.submit(t)
	running := s.w.Start(t, from.ID)
	ref := from.ID + "/out put/ü.csv"
	spec := job.Spec{Runtime: "python", Source: "1", Files: []job.File{{Name: "here", Content: "x"}, {Name: "in.csv", Artifact: ref}}}
	refused := func(what string, f job.File, field string) {
		t.Helper()
		f.Name = "in.csv"
		_, err := s.jobs.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Files: []job.File{{Name: "here", Content: "x"}, f}})
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != "files[1]"+field {
			t.Errorf("%s: got %v, want what is wrong with files[1]%s", what, err, field)
		}
	}
	refused("of a running job", job.File{Artifact: ref}, ".artifact")
	s.w.End(t, running, map[string]string{"out put/ü.csv": content}, nil)

	j, err := s.jobs.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	r := s.w.Start(t, j.ID)
	want := job.File{Name: "in.csv", Artifact: ref, Size: int64(len(content)), SHA256: sha(content)}
	if diff := cmp.Diff(want, r.Spec.Files[1]); diff != "" {
		t.Error(diff)
	}
	if spec.Files[1].SHA256 != "" {
		t.Error("the caller's own files were changed")
	}
	if version := s.w.Records.Redis().HGet(t.Context(), "gb:{default}:job:"+j.ID, "version").Val(); version != "2" {
		t.Errorf("the record has version %s: a worker that doesn't know artifacts would run it", version)
	}
	if _, err := s.jobs.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Files: []job.File{want}}); err != nil {
		t.Errorf("with its size and SHA-256: %v", err)
	}

	refused("another SHA-256", job.File{Artifact: ref, SHA256: sha("")}, ".sha256")
	refused("another size", job.File{Artifact: ref, Size: 1}, ".size")
	refused("no such artifact", job.File{Artifact: from.ID + "/out.csv"}, ".artifact")
	refused("not an artifact, but an object", job.File{Artifact: from.ID + "/result.json"}, ".artifact")
	refused("out of the job", job.File{Artifact: from.ID + "/../1/result.json"}, ".artifact")
	refused("no such job", job.File{Artifact: record.NewID("default") + "/out.csv"}, ".artifact")
	refused("no job at all", job.File{Artifact: "x"}, ".artifact")
	refused("twice", job.File{Artifact: ref, Content: "x"}, "")
	refused("no SHA-256", job.File{Artifact: ref, SHA256: strings.Repeat("A", 64)}, ".sha256")
	refused("SHA-256 of content", job.File{Content: "x", SHA256: sha("x")}, ".sha256")

	// To another tenant, it is as if there were no such job.
	_, other := s.other.Submit(t.Context(), spec)
	spec.Files[1].Artifact = record.NewID("default") + "/out put/ü.csv"
	_, none := s.other.Submit(t.Context(), spec)
	if diff := cmp.Diff(strings.ReplaceAll(none.Error(), spec.Files[1].Artifact, ref), other.Error()); diff != "" {
		t.Errorf("another tenant's artifact differs from none: %s", diff)
	}

	if err := s.jobs.Purge(t.Context(), from.ID); err != nil {
		t.Fatal(err)
	}
	refused("of a job that was purged", job.File{Artifact: ref}, ".artifact")
}

func (s suite) largeInputs(t *testing.T) {
	from := s.submit(t)
	s.w.End(t, s.w.Start(t, from.ID), map[string]string{"large": strings.Repeat("x", 900<<10)}, nil)
	submit := func(l job.Limits, n int) error {
		spec := job.Spec{Runtime: "python", Source: "1", Limits: l}
		for i := range n {
			spec.Files = append(spec.Files, job.File{Name: string(rune('a' + i)), Artifact: from.ID + "/large"})
		}
		_, err := s.jobs.Submit(t.Context(), spec)
		return err
	}
	if err := submit(job.Limits{DiskMB: 2}, 2); err != nil { // more than source_kb
		t.Error(err)
	}
	for name, l := range map[string]job.Limits{"limits.disk_mb": {DiskMB: 2}, "limits.memory_mb": {DiskMB: 64, MemoryMB: 2}} {
		var invalid job.Invalid
		if err := submit(l, 3); !errors.As(err, &invalid) || invalid[0].Field != "files" || !strings.Contains(invalid[0].Allowed, name) {
			t.Errorf("%s: got %v, want files to be too large", name, err)
		}
	}
}
