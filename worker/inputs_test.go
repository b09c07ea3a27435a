package worker_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// artifactOf is the first artifact of a job, as the api would write it into another's spec.
func artifactOf(t *testing.T, name string, r job.Result) job.File {
	t.Helper()
	if len(r.Artifacts) == 0 {
		t.Fatalf("no artifact: %+v", r)
	}
	a := r.Artifacts[0]
	return job.File{Name: name, Artifact: r.ID + "/" + a.Name, Size: a.Size, SHA256: a.SHA256}
}

// TestArtifactAsInput: what a job left is what another is given, and is attested as if it
// had been in the spec.
func TestArtifactAsInput(t *testing.T) {
	t.Parallel()
	signer, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, func(c *worker.Config) { c.Signer = signer })
	from := g.result(g.submit(job.Spec{Runtime: "bash", Source: "head -c 300000 /dev/urandom > 'a b.bin'"}))
	input := artifactOf(t, "in/b.bin", from)
	spec := ample(job.Spec{
		Runtime: "bash", Source: "sha256sum < in/b.bin; cat a.txt z.txt",
		Files: []job.File{{Name: "z.txt", Content: "z\n"}, input, {Name: "a.txt", ContentBase64: base64.StdEncoding.EncodeToString([]byte("a\n"))}},
	})
	r := g.result(g.submit(spec))
	if want := input.SHA256 + "  -\na\nz\n"; r.Status != job.Succeeded || r.Stdout != want || len(r.Artifacts) != 0 {
		t.Fatalf("got %s, %q, %+v; want %q and no artifact", r.Status, r.Stdout, r.Artifacts, want)
	}
	keys, err := g.records.Fleet.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v, err := attest.Verify(r, keys)
	if err != nil {
		t.Fatal(err)
	}
	content, err := g.objects.GetBytes(t.Context(), fmt.Sprintf("tenants/default/jobs/%s/1/artifacts/a~20b.bin", from.ID), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	spec.Files[1] = job.File{Name: "in/b.bin", ContentBase64: base64.StdEncoding.EncodeToString(content)}
	if want, err := attest.InputHash(spec); err != nil || v.Statement.Predicate.InputHash != want {
		t.Errorf("the input hash is %s; of the same files in the spec it is %s, %v", v.Statement.Predicate.InputHash, want, err)
	}
}

// TestInputIsGone: a job whose input is not there any more fails by itself, at once.
func TestInputIsGone(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	from := g.result(g.submit(job.Spec{Runtime: "bash", Source: "echo x > a.txt"}))
	object := filepath.Join(g.s3.Dir, "glovebox/tenants/default/jobs", from.ID, "1/artifacts/a.txt")
	for _, c := range []struct {
		name string
		do   func(f *job.File) error
		code string
	}{
		{"another's", func(f *job.File) error { f.Artifact = strings.Replace(f.Artifact, "default-", "other-", 1); return nil }, "input_gone"},
		{"of another SHA-256", func(f *job.File) error { f.SHA256 = strings.Repeat("0", 64); return nil }, "input_changed"},
		{"of another size", func(f *job.File) error { f.Size++; return nil }, "input_changed"},
		{"its object is gone", func(*job.File) error { return os.Remove(object) }, "input_gone"},
		{"its job is purged", func(*job.File) error { return g.records.Purge(t.Context(), from.ID) }, "input_gone"},
	} {
		f := artifactOf(t, "in.txt", from)
		if err := c.do(&f); err != nil {
			t.Fatal(err)
		}
		id := g.submit(job.Spec{Runtime: "bash", Source: "cat in.txt", Files: []job.File{f}})
		r := g.result(id)
		if r.Status != job.Failed || r.Error == nil || r.Error.Code != c.code || r.ExitCode != nil || r.Attempt != 1 || r.Stdout != "" {
			t.Errorf("%s: got %+v, error %+v; want %s", c.name, r, r.Error, c.code)
		}
	}
}

// TestInputBesideSource: a spec that the api should have refused is the job's failure, and
// costs one attempt.
func TestInputBesideSource(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	r := g.result(g.submit(job.Spec{Runtime: "python", Source: "print(1)", Files: []job.File{{Name: "main.py", Content: "print(2)"}}}))
	if r.Status != job.Failed || r.Error == nil || r.Error.Code != "input_conflict" || !strings.Contains(r.Error.Message, "main.py") || r.ExitCode != nil || r.Attempt != 1 {
		t.Errorf("got %+v, error %+v", r, r.Error)
	}
}

// TestUploadAsInput: an upload goes into the sandbox as it is, checked on its way.
func TestUploadAsInput(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	content := bytes.Repeat([]byte("0123456789"), 300_000)
	sum := sha256.Sum256(content)
	f := job.File{Name: "in", Upload: hex.EncodeToString(sum[:]), Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	key, err := artifacts.UploadKey("default", f.Upload)
	if err != nil {
		t.Fatal(err)
	}
	spec := job.Spec{Runtime: "bash", Source: "sha256sum < in", Files: []job.File{f}}
	if r := g.result(g.submit(spec)); r.Status != job.Failed || r.Error == nil || r.Error.Code != "input_gone" || !strings.Contains(r.Error.Message, "upload "+f.Upload) {
		t.Errorf("before it is there: got %+v, error %+v", r, r.Error)
	}
	if _, err := g.objects.PutBytes(t.Context(), key, "application/octet-stream", content); err != nil {
		t.Fatal(err)
	}
	if r := g.result(g.submit(spec)); r.Status != job.Succeeded || r.Stdout != f.SHA256+"  -\n" {
		t.Errorf("got %s, %q, error %+v", r.Status, r.Stdout, r.Error)
	}
	content[1_000_000] = 'x' // a store that didn't check what was put
	if _, err := g.objects.PutBytes(t.Context(), key, "application/octet-stream", content); err != nil {
		t.Fatal(err)
	}
	if r := g.result(g.submit(spec)); r.Status != job.Failed || r.Error == nil || r.Error.Code != "input_changed" {
		t.Errorf("of another content: got %+v, error %+v", r, r.Error)
	}
}
