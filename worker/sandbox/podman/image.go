package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/images"
	"github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/errorhandling"

	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// imageTTL is how long a name may still mean an image that was replaced.
const imageTTL = 10 * time.Second

// image is an image in Podman's store.
type image struct {
	id        string
	digest    string
	inspected time.Time
}

// imageCache has what the images' names meant lately.
type imageCache struct {
	mu    sync.Mutex
	named map[string]image
}

// cached returns what the name meant lately.
func (c *imageCache) cached(name string) (image, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.named[name]
	return i, ok && time.Since(i.inspected) < imageTTL
}

func (c *imageCache) add(name string, i image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named == nil || len(c.named) > 1000 {
		c.named = map[string]image{}
	}
	c.named[name] = i
}

// Image returns the digest of an image in Podman's store, as "sha256:…". It fails with
// [ErrNoImage] and [ErrImageRefused].
func (p *Sandboxes) Image(ctx context.Context, name string) (digest string, err error) {
	i, err := p.service.image(ctx, name)
	return i.digest, err
}

func (s *service) image(ctx context.Context, name string) (image, error) {
	if name == "" {
		return image{}, fmt.Errorf("inspect image: its name is missing: %w", sandbox.ErrNoImage)
	}
	if cached, ok := s.images.cached(name); ok {
		return cached, nil
	}
	return s.inspectImage(ctx, name)
}

// inspectImage asks Podman what the name means now.
func (s *service) inspectImage(ctx context.Context, name string) (image, error) {
	report, err := images.GetImage(s.with(ctx), name, nil)
	if err != nil {
		var model *errorhandling.ErrorModel
		if errors.As(err, &model) && model.ResponseCode == http.StatusNotFound {
			return image{}, fmt.Errorf("inspect image %q: %w", name, sandbox.ErrNoImage)
		}
		return image{}, fmt.Errorf("inspect image %q: %w", name, err)
	}
	if problem := refusal(name, report); problem != "" {
		return image{}, fmt.Errorf("inspect image %q: %w: %s", name, sandbox.ErrImageRefused, problem)
	}
	i := image{id: report.ID, digest: string(report.Digest), inspected: time.Now()}
	if i.digest == "" {
		i.digest = "sha256:" + report.ID
	}
	s.images.add(name, i)
	return i, nil
}

// allowedAnnotations begin the annotations of an image that neither Podman nor gVisor nor any
// hook reads: those of the OCI's image specification, which every builder writes, and those
// of the images that Docker calls official. Podman 4 hands all of an image's annotations
// to the OCI runtime, and takes some of its own settings from there (CVE-2026-94603);
// to gVisor they can name files of the host ("dev.gvisor.tar.rootfs.upper").
var allowedAnnotations = []string{"org.opencontainers.image.", "com.docker.official-images."}

// refusedLabels begin the labels of an image that mean something: to Podman (capabilities,
// seccomp, updates), or to Glovebox. Labels never reach the OCI runtime.
var refusedLabels = []string{"io.containers.", "io.podman.", "PODMAN_SYSTEMD_UNIT", "run.glovebox."}

// refusal says why an image must not be run, or "".
func refusal(name string, report *types.ImageInspectReport) string {
	// Podman answers for a pinned name with the image whose manifest has that digest. This
	// checks its word for it.
	if strings.Contains(name, "@") && !slices.Contains(report.RepoDigests, name) {
		return fmt.Sprintf("it is another one: %s", strings.Join(report.RepoDigests, ", "))
	}
	// Podman would choose an OCI runtime by the platform.
	if report.Os != "linux" || report.Architecture != runtime.GOARCH {
		return fmt.Sprintf("it is for %s/%s, this host is linux/%s", report.Os, report.Architecture, runtime.GOARCH)
	}
	for key := range report.Annotations {
		if !startsWithAny(key, allowedAnnotations) {
			return fmt.Sprintf("it has the annotation %q; allowed are those that start with %s", key, strings.Join(allowedAnnotations, ", "))
		}
	}
	for key := range report.Labels {
		if startsWithAny(key, refusedLabels) {
			return fmt.Sprintf("it has the label %q, which Podman or Glovebox would read", key)
		}
	}
	return ""
}

func startsWithAny(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
