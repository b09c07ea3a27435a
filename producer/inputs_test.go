package producer_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
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
	if version := s.w.Raw.HGet(t.Context(), "gb:{default}:job:"+j.ID, "version").Val(); version != "2" {
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
	refused("no such job", job.File{Artifact: job.NewID("default") + "/out.csv"}, ".artifact")
	refused("no job at all", job.File{Artifact: "x"}, ".artifact")
	refused("twice", job.File{Artifact: ref, Content: "x"}, "")
	refused("no SHA-256", job.File{Artifact: ref, SHA256: strings.Repeat("A", 64)}, ".sha256")
	refused("SHA-256 of content", job.File{Content: "x", SHA256: sha("x")}, ".sha256")

	// To another tenant, it is as if there were no such job.
	_, other := s.other.Submit(t.Context(), spec)
	spec.Files[1].Artifact = job.NewID("default") + "/out put/ü.csv"
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

func (s suite) uploads(t *testing.T) {
	content := strings.Repeat("0123456789", 50_000)
	spec := func(f job.File) job.Spec { return job.Spec{Runtime: "python", Source: "1", Files: []job.File{f}} }
	refused := func(what string, jobs everything, f job.File) {
		t.Helper()
		_, err := jobs.Submit(t.Context(), spec(f))
		var invalid job.Invalid
		if !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != "files[0].upload" {
			t.Errorf("%s: got %v, want what is wrong with files[0].upload", what, err)
		}
	}
	refused("never announced", s.jobs, job.File{Name: "in", Upload: sha(content)})
	first, err := s.jobs.PrepareUpload(t.Context(), sha(content), int64(len(content)))
	if err != nil || first.Exists || first.URL == "" || first.ExpiresAt == nil {
		t.Fatalf("got %+v, %v, want a URL", first, err)
	}
	refused("nothing put", s.jobs, job.File{Name: "in", Upload: sha(content)})

	f, err := producer.UploadFile(t.Context(), s.jobs, "in", strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(job.File{Name: "in", Upload: sha(content)}, f); diff != "" {
		t.Error(diff)
	}
	again, err := s.jobs.PrepareUpload(t.Context(), sha(content), int64(len(content)))
	if err != nil || !again.Exists || again.URL != "" {
		t.Errorf("got %+v, %v, want it to exist", again, err)
	}
	j, err := s.jobs.Submit(t.Context(), spec(f))
	if err != nil {
		t.Fatal(err)
	}
	f.Size, f.SHA256 = int64(len(content)), sha(content)
	if diff := cmp.Diff(f, s.w.Start(t, j.ID).Spec.Files[0]); diff != "" {
		t.Error(diff)
	}

	// Another tenant has nothing of it, and can't learn that it is there.
	refused("another tenant's", s.other, job.File{Name: "in", Upload: sha(content)})
	none, err := s.other.PrepareUpload(t.Context(), sha(content), int64(len(content)))
	if err != nil || none.Exists || none.URL == "" || strings.Contains(none.URL, "/default/") {
		t.Errorf("as another tenant: got %+v, %v, want a URL of its own", none, err)
	}
}

func (s suite) invalidUploads(t *testing.T) {
	content := strings.Repeat("x", 1000)
	if _, err := producer.UploadFile(t.Context(), s.jobs, "in", strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		sha256 string
		size   int64
		want   string
	}{
		"no SHA-256":            {"x", 1, "sha256"},
		"SHA-256 in capitals":   {strings.ToUpper(sha("x")), 1, "sha256"},
		"empty":                 {sha(""), 0, "size"},
		"too large for any job": {sha("y"), 1 << 40, "size"},
		"of another size":       {sha(content), 999, "size"},
	} {
		_, err := s.jobs.PrepareUpload(t.Context(), c.sha256, c.size)
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != c.want {
			t.Errorf("%s: got %v, want what is wrong with %s", name, err, c.want)
		}
	}
	if _, err := producer.UploadFile(t.Context(), s.jobs, "in", strings.NewReader(content)); err != nil {
		t.Errorf("after a wrong size: %v", err)
	}
	for field, f := range map[string]job.File{
		"files[0].upload": {Upload: "../x"},
		"files[0].sha256": {Upload: sha(content), SHA256: sha("")},
		"files[0].size":   {Upload: sha(content), Size: 999},
		"files[0]":        {Upload: sha(content), Artifact: "default-x/y"},
	} {
		f.Name = "in"
		_, err := s.jobs.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Files: []job.File{f}})
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != field {
			t.Errorf("got %v, want what is wrong with %s", err, field)
		}
	}
}
