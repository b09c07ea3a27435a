package runtimes

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestPrune: images that a runtime had before go, with their root images; what it has, what a container uses and what has another name stay.
func TestPrune(t *testing.T) {
	gbtest.Require(t, "podman") // not beside others: Podman can't list images while one is removed
	ctx := t.Context()
	remove := func(args ...string) { // once the test is over
		t.Cleanup(func() {
			if _, err := run(exec.CommandContext(context.WithoutCancel(ctx), defaultPodman[0], append(args, "--force", "--ignore")...)); err != nil {
				t.Error(err)
			}
		})
	}
	podman := func(args ...string) string {
		t.Helper()
		out, err := run(exec.CommandContext(ctx, defaultPodman[0], args...))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	// stored puts an image into the store under that name, with one file.
	stored := func(name, content string) (id string) {
		t.Helper()
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: "content", Mode: 0o644, Size: int64(len(content))}), written(w.Write([]byte(content))), w.Close()); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, defaultPodman[0], "import", "--quiet", "-", name)
		cmd.Stdin = &archive
		if _, err := run(cmd); err != nil {
			t.Fatal(err)
		}
		remove("rmi", name)
		id = podman("image", "inspect", "--format", "{{.Id}}", name)
		if err := MakeRootImages(ctx, defaultRootImages, []string{name}, io.Discard); err != nil {
			t.Fatal(err)
		}
		return id
	}
	fsys := fstest.MapFS{
		"prunetest/Containerfile": {Data: []byte("ARG BASE\nFROM ${BASE}\n")},
		"prunetest/runtime.yaml":  {Data: []byte("name: prunetest\nversion: \"1\"\nversion_command: [\"true\"]\nfile: x\nrun: [cat, \"{file}\"]\n")},
	}
	addBase(t, fsys)
	now, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	image := now.List()[0].Image()
	used, old := repository(image)+":0-000000000001", repository(image)+":0-000000000002"
	const foreign = "localhost/of-another:1"
	mine := repository(image) + ":mine"
	stored(used, "one")
	stored(old, "two")
	again := stored(image, "three")
	id := stored(image, "three, built again")
	podman("tag", old, foreign)
	remove("rmi", foreign)
	container := podman("create", "--network=none", used, "true")
	remove("rm", container)

	prune := func() (said string, removed int) {
		t.Helper()
		list, err := now.Old(ctx, defaultPodman)
		if err != nil {
			t.Fatal(err)
		}
		list = slices.DeleteFunc(list, func(o Old) bool { return repository(o.Name) != repository(image) }) // others are this machine's own
		var out strings.Builder
		removed, err = now.Prune(ctx, defaultPodman, defaultRootImages, list, &out)
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), removed
	}
	if said, removed := prune(); removed != 1 || !strings.Contains(said, "in use   "+used) || !strings.Contains(said, "removed  "+image) || strings.Contains(said, old) {
		t.Errorf("got %d removed and\n%s\nwant the one removed whose name another has now, the one of a container said to be in use, and nothing of the one with another name", removed, said)
	}
	podman("rm", container)
	podman("rmi", foreign)
	if said, removed := prune(); removed != 2 || !strings.Contains(said, "removed  "+used) || !strings.Contains(said, "removed  "+old) {
		t.Errorf("once nothing uses them: got %d removed and\n%s", removed, said)
	}
	list, err := now.InStore(ctx, defaultPodman)
	if err != nil {
		t.Fatal(err)
	}
	if s := list[image]; s.ID != id || !s.Root || s.ID == again {
		t.Errorf("of the version that is there now: got %+v, want image %s with its root image", s, id)
	}
	roots := podman("unshare", "sh", "-c", `ls "$(dirname "$(podman info --format '{{.Store.GraphRoot}}')")/roots"`)
	if strings.Contains(roots, again) || !strings.Contains(roots, id) {
		t.Errorf("the root images are\n%s\nwant none of %s", roots, again)
	}
	stored(mine, "an operator's")
	if said, removed := prune(); removed != 0 || strings.Contains(said, "removed") {
		t.Errorf("a second time: got %d removed and\n%s", removed, said)
	}
}

func written(_ int, err error) error { return err }
