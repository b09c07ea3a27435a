package imagebucket_test

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/imagebucket"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// cutting is a way to a server on which each layer and configuration breaks off in its midst.
func cutting(t *testing.T, server *gbtest.S3Server) string {
	t.Helper()
	forward := server.Gateway(t)
	forward.FlushInterval, forward.ErrorLog = -1, log.New(io.Discard, "", 0)
	forward.ModifyResponse = func(r *http.Response) error {
		if r.Request.Method == http.MethodGet && strings.Contains(r.Request.URL.Path, "/images/blobs/") {
			half := io.MultiReader(io.LimitReader(r.Body, r.ContentLength/2), iotest.ErrReader(io.ErrUnexpectedEOF))
			r.Body = struct {
				io.Reader
				io.Closer
			}{half, r.Body}
		}
		return nil
	}
	way := httptest.NewServer(forward)
	t.Cleanup(way.Close)
	return way.URL
}

// TestBrokenOff: a connection that breaks off is no damage, and where Podman breaks off, its own error says why.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), gbtest.S3(t)
	objects := openAt(t, server, server.Endpoint)
	from, to := newStore(t), newStore(t)
	from.build(32 << 20) // more than the connections hold

	pid := filepath.Join(t.TempDir(), "pid")
	var once sync.Once
	killed := imagebucket.Bucket{
		Objects: objects, Podman: slices.Concat([]string{"sh", "-c", `echo $$ >"$0"; exec "$@"`, pid}, from.argv),
		Moved: func(_, _ int64) {
			once.Do(func() {
				text, err := os.ReadFile(pid)
				if err != nil {
					t.Error(err)
					return
				}
				n, err := strconv.Atoi(strings.TrimSpace(string(text)))
				if err = errors.Join(err, syscall.Kill(n, syscall.SIGKILL)); err != nil {
					t.Error(err)
				}
			})
		},
	}
	if _, err := killed.Push(ctx, small, false); err == nil || !strings.Contains(err.Error(), "podman push: signal: killed") {
		t.Errorf("a push whose Podman was killed: got %v", err)
	}
	image, err := imagebucket.Bucket{Objects: objects, Podman: from.argv}.Push(ctx, small, false)
	if err != nil {
		t.Fatal(err)
	}

	full := filepath.Join(to.dir, "full")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	const mount = `mount -t tmpfs -o size=1m full "$0" && TMPDIR=$0 exec "$@"`
	for name, c := range map[string]struct {
		bucket imagebucket.Bucket
		want   string
	}{
		"the bucket breaks off": {imagebucket.Bucket{Objects: openAt(t, server, cutting(t, server)), Podman: to.argv}, "from the bucket: unexpected EOF"},
		"Podman's disk is full": {imagebucket.Bucket{Objects: objects, Podman: slices.Concat([]string{"podman", "unshare", "unshare", "--mount", "sh", "-c", mount, full}, to.argv)}, "no space left on device"},
	} {
		if _, err := c.bucket.Pull(ctx, small, image.Digest, runtime.GOARCH); err == nil || errors.Is(err, imagebucket.ErrDamaged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if left := to.podman("images", "--all", "--quiet"); left != "" {
			t.Errorf("%s: the image %s is there", name, left)
		}
	}
}
