package runtimes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Stored is an image in Podman's store.
type Stored struct {
	ID, Digest string
	// Size is what its files have, bytes; images on the same base have most of it together.
	Size int64
	// Root is whether it has a root image, if that can be seen.
	Root bool
}

// InStore returns the images of Glovebox that a Podman has, by name.
func (s Set) InStore(ctx context.Context, podman []string) (map[string]Stored, error) {
	images, err := listImages(ctx, podman, "--filter", "reference=localhost/glovebox/*")
	if err != nil {
		return nil, err
	}
	// infra/root-images.sh puts them there, and only Podman's namespaces are sure to reach it.
	out, err := run(commandOf(ctx, podman, "unshare", "sh", "-c", `ls "$(dirname "$(podman info --format '{{.Store.GraphRoot}}')")/roots" 2>/dev/null || true`))
	if err != nil {
		return nil, fmt.Errorf("list root images: %w", err)
	}
	roots := map[string]bool{}
	for name := range strings.FieldsSeq(out) {
		id, rest, _ := strings.Cut(name, ".")
		roots[id] = roots[id] || strings.HasSuffix(rest, ".erofs")
	}
	stored := map[string]Stored{}
	for _, image := range images {
		for _, name := range image.Names {
			stored[name] = Stored{ID: image.ID, Digest: image.Digest, Size: image.Size, Root: roots[image.ID]}
		}
	}
	return stored, nil
}

// listed is an image as podman-images(1) lists it, once for each of its names.
type listed struct {
	ID            string `json:"Id"`
	Digest        string
	Size, Created int64
	Names         []string
	History       []string // names that it has had
}

// BesideBuilds returns what list does, which runs podman-images(1). Podman fails where it comes to an image that a build has
// not finished, which takes a moment: it is asked again then.
func BesideBuilds[T any](ctx context.Context, list func() (T, error)) (T, error) {
	for tries := 4; ; tries-- {
		out, err := list()
		if err == nil || !exitedWith(err, 125) || tries == 1 { // its own failure, podman-run(1)
			return out, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// podmanImages is what podman-images(1) says.
func podmanImages(ctx context.Context, podman []string, args ...string) (string, error) {
	return BesideBuilds(ctx, func() (string, error) { return run(commandOf(ctx, podman, append([]string{"images"}, args...)...)) })
}

// listImages lists those in a Podman's store that the filters let through.
func listImages(ctx context.Context, podman []string, filters ...string) (images []listed, err error) {
	out, err := podmanImages(ctx, podman, append([]string{"--format", "json"}, filters...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &images)
	}
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	return images, nil
}

// Built returns which images of Glovebox a Podman has, by name.
func (s Set) Built(ctx context.Context, podman []string) (map[string]bool, error) {
	if len(podman) == 0 {
		podman = defaultPodman
	}
	out, err := podmanImages(ctx, podman, "--filter", "reference=localhost/glovebox/*", "--format", "{{.Repository}}:{{.Tag}}")
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	built := map[string]bool{}
	for image := range strings.FieldsSeq(out) {
		built[image] = true
	}
	return built, nil
}
