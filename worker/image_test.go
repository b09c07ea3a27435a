package worker_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker"
)

// TestImageNotAllowed: a worker runs no image but its operator's, whatever the api let
// through.
func TestImageNotAllowed(t *testing.T) {
	t.Parallel()
	g := start(t, nil) // it allows none
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	bash, _ := set.Lookup("bash") // by its tag, an image that is there
	id := g.submit(job.Spec{Image: bash.Image(), Command: []string{"bash", "-c", "echo ran"}})
	g.says("no worker offers")
	if j := g.state(id, job.Queued); j.State != job.Queued || j.Attempts != 0 || !strings.Contains(g.log.String(), "wants="+bash.Image()) {
		t.Errorf("got %s, %d attempts; want it queued, and a worker that names the image", j.State, j.Attempts)
	}
	if images, err := g.records.Fleet.Images(t.Context()); err != nil || len(images) > 0 {
		t.Errorf("published: got %v, %v, want none", images, err)
	}
}

// TestRuntimesWithoutAnImage: a worker offers what is built, and says of the others in one line
// how to get them.
func TestRuntimesWithoutAnImage(t *testing.T) {
	t.Parallel()
	folders := fstest.MapFS{}
	for _, name := range []string{"base", "bash"} {
		if err := fs.WalkDir(os.DirFS("../runtimes"), name, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile("../runtimes/" + path)
			folders[path] = &fstest.MapFile{Data: b}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"cobol", "pascal"} {
		folders[name+"/Containerfile"] = &fstest.MapFile{Data: []byte("FROM x\n")}
		folders[name+"/runtime.yaml"] = &fstest.MapFile{Data: []byte("name: " + name + "\nversion: \"1\"\nversion_command: [\"true\"]\ncore: true\nfile: x\nrun: [cat, \"{file}\"]\n")}
	}
	set, err := runtimes.Load(folders)
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, func(c *worker.Config) { c.Runtimes = set })
	g.says(`runtimes="cobol, pascal"`)
	if n := strings.Count(g.log.String(), "without an image"); n != 1 {
		t.Errorf("%d lines about what is not built, want 1", n)
	}
	if r := g.result(g.submit(job.Spec{Runtime: "bash", Source: "echo hello"})); r.Stdout != "hello\n" {
		t.Errorf("got %+v", r)
	}
}
