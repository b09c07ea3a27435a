package imagebucket_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/imagebucket"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

const (
	base  = "localhost/glovebox/base:1"
	small = "localhost/glovebox/small:1-abc"
)

// store is a Podman with a store of its own, which is empty.
type store struct {
	t    *testing.T
	dir  string
	argv []string
}

func newStore(t *testing.T) *store {
	t.Helper()
	gbtest.Require(t, "podman")
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // files of other users are in it, at its end
	if err != nil {
		t.Fatal(err)
	}
	s := &store{t, dir, []string{"podman", "--root", dir + "/root", "--runroot", dir + "/run", "--storage-driver", "overlay"}}
	t.Cleanup(func() {
		if out, err := exec.Command("podman", "unshare", "rm", "-rf", dir).CombinedOutput(); err != nil { //nolint:noctx // the test's has ended
			t.Errorf("remove %s: %v: %s", dir, err, out)
		}
	})
	return s
}

func (s *store) podman(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.argv[0], append(slices.Clone(s.argv[1:]), args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("podman %q: %v: %s", args, err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// build makes an image of two layers, of which the upper has so many bytes.
func (s *store) build(size int) {
	s.t.Helper()
	dir := s.t.TempDir()
	for name, content := range map[string][]byte{
		"below": []byte("below\n"), "above": bytes.Repeat([]byte("0123456789abcdef"), size/16),
		"Containerfile": []byte("FROM " + base + "\nCOPY above /above\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	tar := filepath.Join(dir, "base.tar")
	if out, err := exec.CommandContext(s.t.Context(), "tar", "-C", dir, "-cf", tar, "below").CombinedOutput(); err != nil {
		s.t.Fatalf("tar: %v: %s", err, out)
	}
	s.podman("import", "--quiet", tar, base)
	s.podman("build", "--quiet", "--pull=never", "--layers=false", "--isolation=chroot", "--tag", small, dir)
}

// layers are those that Podman has, whether or not an image has them.
func (s *store) layers() []string {
	s.t.Helper()
	dirs, err := filepath.Glob(s.dir + "/root/overlay/*/diff")
	if err != nil {
		s.t.Fatal(err)
	}
	var ids []string
	for _, dir := range dirs {
		ids = append(ids, filepath.Base(filepath.Dir(dir)))
	}
	return ids
}

func openBucket(t *testing.T) *artifacts.Store {
	t.Helper()
	server := gbtest.S3(t)
	return openAt(t, server, server.Endpoint)
}

// openAt opens the bucket of a server by some way to it.
func openAt(t *testing.T, server *gbtest.S3Server, endpoint string) *artifacts.Store {
	t.Helper()
	objects, err := artifacts.Open(t.Context(), artifacts.Config{
		Endpoint: endpoint, Bucket: "images", AccessKey: server.AccessKey, SecretKey: server.SecretKey, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.Close)
	if err := objects.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	return objects
}

func keys(t *testing.T, objects *artifacts.Store, prefix string) []string {
	t.Helper()
	var list []string
	for key, err := range objects.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, key)
	}
	return list
}

// TestMove: an image is the same on a host that pulls it, and nothing is sent twice.
func TestMove(t *testing.T) {
	t.Parallel()
	ctx, objects := t.Context(), openBucket(t)
	from, to := newStore(t), newStore(t)
	from.build(8 << 20)
	var sent, got atomic.Int64
	source := imagebucket.Bucket{Objects: objects, Podman: from.argv, Moved: func(n, _ int64) { sent.Add(n) }}
	target := imagebucket.Bucket{Objects: objects, Podman: to.argv, Moved: func(n, _ int64) { got.Add(n) }}

	if _, err := source.Find(ctx, small, runtime.GOARCH); !errors.Is(err, imagebucket.ErrNoImage) {
		t.Fatalf("an empty bucket: got %v, want ErrNoImage", err)
	}
	if _, err := source.Push(ctx, base, false); err != nil {
		t.Fatal(err)
	}
	below := sent.Swap(0)
	pushed, err := source.Push(ctx, small, false)
	if err != nil {
		t.Fatal(err)
	}
	if n := sent.Swap(0); below < 1<<10 || n < 8<<20 || n > 8<<20+64<<10 {
		t.Errorf("sent %d bytes of the base, then %d of what is built on it: want the layer of 8 MiB alone", below, n)
	}
	if again, err := source.Push(ctx, small, false); err != nil || again.Moved || sent.Load() != 0 {
		t.Errorf("the second time: %+v, %v, %d bytes: want nothing moved", again, err, sent.Load())
	}
	if left := keys(t, objects, "images/incoming/"); len(left) > 0 {
		t.Errorf("left in the bucket: %q", left)
	}

	digest, err := target.Find(ctx, small, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	const noTag = `for a; do [ "$a" != tag ] || exit 1; done; exec "$@"`
	cutOff := imagebucket.Bucket{Objects: objects, Podman: slices.Concat([]string{"sh", "-c", noTag, "sh"}, to.argv)}
	if _, err := cutOff.Pull(ctx, small, digest, runtime.GOARCH); err == nil || !strings.Contains(err.Error(), "podman tag") {
		t.Errorf("cut off before it has its name: got %v", err)
	}
	if left := to.podman("images", "--all", "--digests"); strings.Contains(left, "\n") {
		t.Errorf("a pull that was cut off left %s", left)
	}
	pulled, err := target.Pull(ctx, small, digest, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	if !pulled.Moved || pulled.Digest != pushed.Digest || pulled.Bytes != pushed.Bytes || got.Load() < 8<<20 {
		t.Errorf("pulled %+v (%d bytes), want %+v", pulled, got.Load(), pushed)
	}
	const format = "{{.Id}} {{.Digest}} {{.RootFS.Layers}} {{.RepoTags}}"
	if got, want := to.podman("image", "inspect", "--format", format, small), from.podman("image", "inspect", "--format", format, small); got != want {
		t.Errorf("the image is %s, want that of the host that built it: %s", got, want)
	}
	if n := strings.Count(to.podman("images", "--all", "--quiet"), "\n") + 1; n != 1 {
		t.Errorf("%d images, want the one: %s", n, to.podman("images", "--all"))
	}
	got.Store(0)
	if again, err := target.Pull(ctx, small, digest, runtime.GOARCH); err != nil || again.Moved || got.Load() != 0 {
		t.Errorf("the second time: %+v, %v, %d bytes: want nothing moved", again, err, got.Load())
	}
	if _, err := source.Push(ctx, small, true); err != nil || sent.Load() < 8<<20 {
		t.Errorf("push again: %v, %d bytes sent, want all", err, sent.Load())
	}
}

// TestDamaged: of what is not as its digest says nothing comes into the store. A whole layer below it may:
// Podman keeps it for the next pull.
func TestDamaged(t *testing.T) {
	t.Parallel()
	ctx, objects := t.Context(), openBucket(t)
	from, to := newStore(t), newStore(t)
	from.build(1 << 20)
	image, err := imagebucket.Bucket{Objects: objects, Podman: from.argv}.Push(ctx, small, false)
	if err != nil {
		t.Fatal(err)
	}
	target := imagebucket.Bucket{Objects: objects, Podman: to.argv}
	layer := from.podman("image", "inspect", "--format", "{{index .RootFS.Layers 1}}", small)
	below := from.podman("image", "inspect", "--format", "{{index .RootFS.Layers 0}}", small)
	key := "images/blobs/" + strings.TrimPrefix(layer, "sha256:") + ".zst"
	manifest := "images/manifests/" + strings.TrimPrefix(image.Digest, "sha256:")
	whole := read(t, objects, key)
	zr, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer zr.Close()
	plain, err := zr.DecodeAll(whole, nil)
	if err != nil {
		t.Fatal(err)
	}
	pack := func(data []byte) []byte {
		zw, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer zw.Close()
		return zw.EncodeAll(data, nil)
	}
	other := bytes.Clone(plain)
	other[len(other)/2] ^= 1
	for _, tt := range []struct {
		name, key string
		content   []byte
	}{
		{"truncated", key, whole[:len(whole)/2]},
		{"not compressed", key, plain},
		{"another byte", key, pack(other)},
		{"ends early", key, pack(plain[:len(plain)-512])},
		{"goes on", key, pack(append(bytes.Clone(plain), make([]byte, 1<<20)...))},
		{"empty", key, nil},
		{"another manifest", manifest, bytes.Replace(read(t, objects, manifest), []byte(`"schemaVersion":2`), []byte(`"schemaVersion": 2`), 1)},
		{"a long manifest", manifest, make([]byte, 2<<20)},
	} {
		before := read(t, objects, tt.key)
		put(t, objects, tt.key, tt.content)
		if _, err := target.Pull(ctx, small, image.Digest, runtime.GOARCH); !errors.Is(err, imagebucket.ErrDamaged) {
			t.Errorf("%s: got %v, want ErrDamaged", tt.name, err)
		}
		if left := to.podman("images", "--all", "--quiet"); left != "" {
			t.Errorf("%s: the image %s is there", tt.name, left)
		}
		if left := to.layers(); len(left) > 1 || len(left) == 1 && "sha256:"+left[0] != below {
			t.Errorf("%s: the layers %v are left, want none but the whole one, %s", tt.name, left, below)
		}
		put(t, objects, tt.key, before)
	}
	if err := objects.Remove(ctx, key); err != nil {
		t.Fatal(err)
	}
	if _, err := target.Pull(ctx, small, image.Digest, runtime.GOARCH); !errors.Is(err, imagebucket.ErrDamaged) {
		t.Errorf("a missing layer: got %v, want ErrDamaged", err)
	}
	put(t, objects, key, whole)
	if _, err := target.Pull(ctx, small, image.Digest, "vax"); err == nil || !strings.Contains(err.Error(), "this host is vax") {
		t.Errorf("got %v, want an error that names both architectures", err)
	}
	if left := to.podman("images", "--all", "--quiet"); left != "" {
		t.Errorf("the image %s is there", left)
	}
	if _, err := target.Pull(ctx, small, image.Digest, runtime.GOARCH); err != nil {
		t.Errorf("the whole image: %v", err)
	}
}

func read(t *testing.T, objects *artifacts.Store, key string) []byte {
	t.Helper()
	data, err := objects.GetBytes(t.Context(), key, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func put(t *testing.T, objects *artifacts.Store, key string, data []byte) {
	t.Helper()
	if _, err := objects.PutBytes(t.Context(), key, "application/octet-stream", data); err != nil {
		t.Fatal(err)
	}
}
