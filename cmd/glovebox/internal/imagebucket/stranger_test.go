package imagebucket_test

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/imagebucket"
)

// TestStranger: others on this machine, who see which registry Podman is told to use, neither read nor write an image there.
func TestStranger(t *testing.T) {
	t.Parallel()
	ctx, objects := t.Context(), openBucket(t)
	from, to := newStore(t), newStore(t)
	from.build(1 << 20)
	// The registry is among Podman's arguments.
	seen := filepath.Join(t.TempDir(), "seen")
	watched := func(argv []string) []string {
		const script = `for a; do case $a in docker://*) echo "${a#docker://}" >"$0";; esac; done; exec "$@"`
		return slices.Concat([]string{"sh", "-c", script, seen}, argv)
	}
	try := func(method, path string) {
		at, err := os.ReadFile(seen)
		if err != nil {
			t.Error(err)
			return
		}
		host, _, _ := strings.Cut(string(at), "/")
		req, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, strings.NewReader("x"))
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s %s: got %s, want 401", method, path, resp.Status)
		}
	}
	layer := from.podman("image", "inspect", "--format", "{{index .RootFS.Layers 0}}", small)
	const base = "/v2/glovebox/image"
	var push, pull sync.Once
	source := imagebucket.Bucket{Objects: objects, Podman: watched(from.argv), Moved: func(_, _ int64) {
		push.Do(func() {
			try(http.MethodPost, base+"/blobs/uploads/")
			try(http.MethodPatch, base+"/blobs/uploads/x")
			try(http.MethodHead, base+"/blobs/"+layer)
		})
	}}
	image, err := source.Push(ctx, small, false)
	if err != nil {
		t.Fatal(err)
	}
	target := imagebucket.Bucket{Objects: objects, Podman: watched(to.argv), Moved: func(_, _ int64) {
		pull.Do(func() {
			try(http.MethodGet, base+"/manifests/"+image.Digest)
			try(http.MethodGet, base+"/blobs/"+layer)
		})
	}}
	if _, err := target.Pull(ctx, small, image.Digest, runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	push.Do(func() { t.Error("nothing was pushed") })
	pull.Do(func() { t.Error("nothing was pulled") })
}
