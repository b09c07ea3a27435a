package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestImages brings images: one of a whole Linux, one of a single program, one that the
// operator allows and has not, one that they took away, and others' digests.
func TestImages(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "podman")
	linux := podmanSays(t, "", "images", "--format", "{{.Repository}}@{{.Digest}}", "--filter", "reference=localhost/glovebox/bash")
	linux, _, _ = strings.Cut(linux, "\n")
	tag := "localhost/glovebox-test/tool:" + strings.ToLower(t.Name())
	// The label makes it an image of its own: another test may build the same.
	podmanSays(t, "FROM "+linux+" AS debian\nFROM scratch\nCOPY --from=debian /sbin/ldconfig /tool\nLABEL test="+rand.Text()+"\n", "build", "-q", "--isolation=chroot", "-t", tag, "-f", "-", t.TempDir())
	t.Cleanup(func() { podmanSays(t, "", "rmi", "--ignore", tag) })
	name, _, _ := strings.Cut(tag, ":")
	tool := name + "@" + podmanSays(t, "", "inspect", "--type", "image", "--format", "{{.Digest}}", tag)
	missing := "localhost/glovebox-test/missing@sha256:" + strings.Repeat("0", 64)

	seed := attest.NewSeed()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_IMAGES=" + linux + " " + missing + " " + tool, "GLOVEBOX_SIGNING_KEY=" + seed}})
	gbtest.Eventually(t, "the worker says which image is missing", func() bool {
		said := g.worker.Output()
		return strings.Contains(said, "allowed but not offered") && strings.Contains(said, missing)
	})
	images, err := g.client.Images(t.Context())
	if want := []producer.Image{{Image: tool}, {Image: linux}}; err != nil || !slices.Equal(images, want) {
		t.Errorf("offered: got %v, %v, want %v", images, err, want)
	}

	whole := job.Spec{
		Image: linux, Command: []string{"bash", "-c", `tr a-z A-Z <data/in.txt >out.txt; cat main.txt -; env; echo "$@"`, "x", "1 2", "$HOME"},
		Source: "source\n", Entrypoint: "main.txt", Files: []job.File{{Name: "data/in.txt", Content: "in"}}, Stdin: "stdin\n",
		Env: map[string]string{"MINE": "yes"}, Limits: job.Limits{WallMS: 20_000}, Callback: &job.Callback{URL: g.hook.url},
	}
	r := g.wait(g.submit(whole))
	_, digest, _ := strings.Cut(linux, "@")
	want := job.Runtime{Image: linux, ImageDigest: digest, OCIRuntime: r.Runtime.OCIRuntime}
	if r.Status != job.Succeeded || len(r.Artifacts) != 1 || r.Artifacts[0].Name != "out.txt" || r.Artifacts[0].Size != 2 || r.Runtime != want || want.OCIRuntime == "" {
		t.Errorf("got %+v", r)
	}
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if env := lines[2 : len(lines)-1]; strings.Join(lines[:2], " ") != "source stdin" || lines[len(lines)-1] != "1 2 $HOME" || !slices.Contains(env, "MINE=yes") || len(env) != 8 {
		t.Errorf("got stdout %s", r.Stdout)
	}
	keys, err := g.client.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, attested := range []job.Result{r, g.hook.messages(t, 1, patience)[0].Result} {
		v, err := attest.Verify(attested, keys)
		input, hashErr := attest.InputHash(whole)
		if err != nil || hashErr != nil || v.Statement.Predicate.InputHash != input {
			t.Errorf("attested input %s, %v, %v, want %s", v.Statement.Predicate.InputHash, err, hashErr, input)
		}
	}
	if r := g.wait(g.submit(job.Spec{Image: tool, Command: []string{"/tool", "--version"}})); !strings.HasPrefix(r.Stdout, "ldconfig ") {
		t.Errorf("a single program: got %+v", r)
	}
	if r := g.wait(g.submit(job.Spec{Image: tool, Command: []string{"sh"}})); r.Status != job.Failed || *r.ExitCode != 127 || !strings.Contains(r.Stderr, "command not found") {
		t.Errorf("a program that isn't there: got %+v", r)
	}

	for what, image := range map[string]string{
		"not allowed": "localhost/glovebox-test/other" + strings.TrimPrefix(tool, name), "another's digest": name + "@" + digest, "missing": missing, "a tag": tag,
	} {
		var invalid job.Invalid
		_, err := g.client.Submit(t.Context(), job.Spec{Image: image, Command: []string{"/tool"}})
		if !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != "image" || invalid[0].Allowed == "" {
			t.Errorf("%s: got %v, want a problem of the field image", what, err)
		}
	}

	t.Log("the operator puts another image in the place of one that is allowed")
	for deadline := time.Now().Add(patience); len(g.containers()) > 0 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
	}
	podmanSays(t, "", "rmi", tag)
	podmanSays(t, "", "tag", linux, tag)
	id := g.submit(job.Spec{Image: tool, Command: []string{"/tool", "--version"}})
	if !within(patience, func() bool { return g.worker.Printed("no worker offers") }) {
		t.Error("the worker does not say that nobody offers the image")
	}
	if j, err := g.client.Get(t.Context(), id); err != nil || j.Status != job.Queued {
		t.Errorf("got %s, %v; want a job that waits for its image", j.Status, err)
	}
}

// podmanSays runs a podman command as the service does.
func podmanSays(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "podman", args...)
	cmd.Env = append(cmd.Environ(), gbtest.PodmanEnv()...)
	cmd.Stdin = strings.NewReader(stdin)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("podman %s: %v: %s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out))
}
