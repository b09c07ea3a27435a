package imagebucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Push puts an image of Podman's store into the bucket, as far as it is not there. With again it sends
// also what is.
func (b Bucket) Push(ctx context.Context, name string, again bool) (Image, error) {
	image, ok, err := b.inspect(ctx, name)
	if err != nil {
		return Image{}, err
	}
	if !ok {
		return Image{}, fmt.Errorf("%s is not in Podman's store", name)
	}
	if err := CheckDigest(image.Digest); err != nil {
		return Image{}, fmt.Errorf("%s: %w", name, err)
	}
	key, err := tagKey(name, image.Architecture)
	if err != nil {
		return Image{}, err
	}
	at, err := b.Find(ctx, name, image.Architecture)
	if err == nil && at == image.Digest && !again {
		return Image{Name: name, Digest: at, Bytes: image.Size}, nil
	}
	if err != nil && !errors.Is(err, ErrNoImage) && !errors.Is(err, ErrDamaged) {
		return Image{}, err
	}
	if err := b.sweepIncoming(ctx, time.Now()); err != nil {
		return Image{}, err
	}
	r := &receiver{bucket: b, image: image, again: again, sent: map[string]bool{}}
	to, err := serve(ctx, r.handler())
	if err != nil {
		return Image{}, err
	}
	// To a name with a digest Podman sends the image as it is: compressed, its layers and so its digest
	// would be others than those of the host that built it.
	err = b.move(ctx, to, "push", image.ID, "docker://"+to.at+"/"+repository+"@"+image.Digest)
	to.stop()
	if err = r.errs.join(err); err != nil {
		return Image{}, fmt.Errorf("push %s: %w", name, err)
	}
	// The name comes last: what it stands for is whole.
	if r.manifest == nil {
		return Image{}, fmt.Errorf("push %s: podman sent no manifest", name)
	}
	m, err := parseManifest(r.manifest, image.Digest)
	if err != nil {
		return Image{}, fmt.Errorf("push %s: %w", name, err)
	}
	for _, part := range append(m.Layers, m.Config) {
		if _, err := b.Objects.Head(ctx, blobKey(part.Digest)); err != nil {
			return Image{}, fmt.Errorf("push %s: %w", name, err)
		}
	}
	if _, err := b.Objects.PutBytes(ctx, manifestKey(image.Digest), manifestType, r.manifest); err != nil {
		return Image{}, fmt.Errorf("push %s: %w", name, err)
	}
	data, err := json.Marshal(tag{Digest: image.Digest, PushedAt: time.Now().UTC()})
	if err != nil {
		return Image{}, err
	}
	if _, err := b.Objects.PutBytes(ctx, key, "application/json", data); err != nil {
		return Image{}, fmt.Errorf("push %s: %w", name, err)
	}
	return Image{Name: name, Digest: image.Digest, Bytes: m.bytes(), Moved: true}, nil
}
