package imagebucket

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/glovebox-run/glovebox/artifacts"
)

// Pull brings the image of a digest into Podman's store, under the name. Nobody sees it there before it
// is whole and has been compared with the digest. It fails with [ErrNoImage] or [ErrDamaged].
func (b Bucket) Pull(ctx context.Context, name, digest, architecture string) (_ Image, err error) {
	if _, err := tagKey(name, architecture); err != nil {
		return Image{}, err
	}
	if err := CheckDigest(digest); err != nil {
		return Image{}, err
	}
	if image, ok, err := b.inspect(ctx, name); err != nil || ok && image.Digest == digest {
		return Image{Name: name, Digest: digest, Bytes: image.Size}, err
	}
	data, err := b.Objects.GetBytes(ctx, manifestKey(digest), maxManifestBytes)
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		return Image{}, fmt.Errorf("pull %s: %w: %s", name, ErrNoImage, digest)
	case errors.Is(err, artifacts.ErrTooLarge):
		return Image{}, fmt.Errorf("pull %s: the manifest %s: %w: %w", name, digest, ErrDamaged, err)
	case err != nil:
		return Image{}, fmt.Errorf("pull %s: %w", name, err)
	}
	m, err := parseManifest(data, digest)
	if err != nil {
		return Image{}, fmt.Errorf("pull %s: %w: %w", name, ErrDamaged, err)
	}
	s := &sender{bucket: b, data: data, digest: digest, parts: map[string]int64{m.Config.Digest: m.Config.Size}, total: m.bytes()}
	for _, layer := range m.Layers {
		s.parts[layer.Digest] = layer.Size
	}
	r, err := serve(ctx, s.handler())
	if err != nil {
		return Image{}, err
	}
	// Under a name that nobody uses, until it has been looked at.
	from := r.at + "/" + repository + "@" + digest
	pulled := false
	defer func() { // the name alone, once the image has another
		if _, removeErr := b.run(context.WithoutCancel(ctx), "rmi", from); pulled { // else it is there only if Podman was stopped as it ended
			err = errors.Join(err, removeErr)
		}
	}()
	err = b.move(ctx, r, "pull", "docker://"+from)
	r.stop()
	if err = s.errs.join(err); err != nil {
		return Image{}, fmt.Errorf("pull %s: %w", name, err)
	}
	pulled = true
	image, ok, err := b.inspect(ctx, from)
	if err != nil || !ok {
		return Image{}, fmt.Errorf("pull %s: podman has no image of it: %w", name, err)
	}
	if err := compare(image, m, digest, architecture); err != nil {
		return Image{}, fmt.Errorf("pull %s: %w", name, err)
	}
	if _, err := b.run(ctx, "tag", from, name); err != nil {
		return Image{}, err
	}
	return Image{Name: name, Digest: digest, Bytes: m.bytes(), Moved: true}, nil
}

// compare returns how what Podman made of an image differs from its manifest.
func compare(image stored, m manifest, digest, architecture string) error {
	var layers []string
	for _, layer := range m.Layers {
		layers = append(layers, layer.Digest)
	}
	switch {
	case image.Digest != digest:
		return fmt.Errorf("podman's digest of it is %s, want %s", image.Digest, digest)
	case image.ID != hexOf(m.Config.Digest):
		return fmt.Errorf("podman's id of it is %s, want %s", image.ID, hexOf(m.Config.Digest))
	case !slices.Equal(image.RootFS.Layers, layers):
		return fmt.Errorf("its layers are %v, want %v", image.RootFS.Layers, layers)
	case image.Architecture != architecture:
		return fmt.Errorf("it is for %s, and this host is %s", image.Architecture, architecture)
	}
	return nil
}
