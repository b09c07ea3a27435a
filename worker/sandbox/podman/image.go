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

// imageTTL is for how long a name may mean an image that was replaced.
const imageTTL = 10 * time.Second

type image struct {
	id     string
	digest string
	at     time.Time
}

type imageCache struct {
	mu    sync.Mutex
	named map[string]image
}

// Image returns the digest of an image in Podman's store, as "sha256:…". It fails with
// [ErrNoImage] and [ErrImageRefused].
func (p *Sandboxes) Image(ctx context.Context, name string) (digest string, err error) {
	i, err := p.image(ctx, name)
	return i.digest, err
}

func (p *Sandboxes) image(ctx context.Context, name string) (image, error) {
	if name == "" {
		return image{}, fmt.Errorf("inspect image: its name is missing: %w", sandbox.ErrNoImage)
	}
	if cached, ok := p.cachedImage(name); ok {
		return cached, nil
	}
	return p.inspectImage(ctx, name)
}

// cachedImage is what the name meant lately.
func (p *Sandboxes) cachedImage(name string) (image, bool) {
	p.images.mu.Lock()
	defer p.images.mu.Unlock()
	cached, ok := p.images.named[name]
	return cached, ok && time.Since(cached.at) < imageTTL
}

// inspectImage asks Podman what the name means now.
func (p *Sandboxes) inspectImage(ctx context.Context, name string) (image, error) {
	report, err := images.GetImage(p.with(ctx), name, nil)
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
	i := image{id: report.ID, digest: string(report.Digest), at: time.Now()}
	if i.digest == "" {
		i.digest = "sha256:" + report.ID
	}
	p.images.mu.Lock()
	defer p.images.mu.Unlock()
	if p.images.named == nil || len(p.images.named) > 1000 {
		p.images.named = map[string]image{}
	}
	p.images.named[name] = i
	return i, nil
}

// allowedAnnotations are the annotations of an image that neither Podman nor gVisor nor any hook
// reads: those of the OCI's image specification, which every builder writes, and those
// of the images that Docker calls official. Podman 4 hands all of an image's annotations
// to the OCI runtime, and takes some of its own settings from there (CVE-2026-94603);
// to gVisor they can name files of the host ("dev.gvisor.tar.rootfs.upper").
var allowedAnnotations = []string{"org.opencontainers.image.", "com.docker.official-images."}

// refusedLabels are the labels of an image that mean something: to Podman (capabilities,
// seccomp, updates), and to us. Labels never reach the OCI runtime.
var refusedLabels = []string{"io.containers.", "io.podman.", "PODMAN_SYSTEMD_UNIT", "run.glovebox."}

// refusal says why an image is not for running, or "".
func refusal(name string, report *types.ImageInspectReport) string {
	// A pinned name is that of what is in the store: Podman answers with the image whose
	// manifest has that digest, and this is its word for it.
	if strings.Contains(name, "@") && !slices.Contains(report.RepoDigests, name) {
		return fmt.Sprintf("it is another one: %s", strings.Join(report.RepoDigests, ", "))
	}
	// By its platform, Podman would choose an OCI runtime.
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
