package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/images"
	"github.com/containers/podman/v5/pkg/errorhandling"
)

// ErrNoImage is wrapped when an image is not in Podman's store. Nothing is ever pulled.
var ErrNoImage = errors.New("image is not there")

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

// Image returns the digest of an image in Podman's store, as "sha256:…".
func (p *Podman) Image(ctx context.Context, name string) (digest string, err error) {
	i, err := p.image(ctx, name)
	return i.digest, err
}

func (p *Podman) image(ctx context.Context, name string) (image, error) {
	if name == "" {
		return image{}, fmt.Errorf("inspect image: its name is missing: %w", ErrNoImage)
	}
	p.images.mu.Lock()
	cached, ok := p.images.named[name]
	p.images.mu.Unlock()
	if ok && time.Since(cached.at) < imageTTL {
		return cached, nil
	}
	report, err := images.GetImage(p.with(ctx), name, nil)
	if err != nil {
		var model *errorhandling.ErrorModel
		if errors.As(err, &model) && model.ResponseCode == http.StatusNotFound {
			return image{}, fmt.Errorf("inspect image %q: %w", name, ErrNoImage)
		}
		return image{}, fmt.Errorf("inspect image %q: %w", name, err)
	}
	// Podman reads some of its own settings from annotations, and has taken them from
	// images (CVE-2026-94603): an image that carries any is not for running.
	for key := range report.Annotations {
		if strings.HasPrefix(key, "io.podman.annotations.") {
			return image{}, fmt.Errorf("refuse image %q: it has the annotation %q", name, key)
		}
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

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
