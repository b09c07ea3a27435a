package imagebucket

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
)

// Bounds of what is read from the bucket, and of what is put into it.
const (
	maxTagBytes      = 4 << 10
	maxManifestBytes = 1 << 20
	maxLayers        = 64
	// maxImageBytes bounds an image's layers together, unpacked.
	maxImageBytes = 16 << 30
	// maxStoredBytes bounds one layer in the bucket, compressed: S3 copies no larger object.
	maxStoredBytes = 5 << 30
	// incomingLife is how long what a push left unnamed stays, as another may be under way.
	incomingLife = 24 * time.Hour
)

var (
	// ErrNoImage means that the bucket has no image of that name.
	ErrNoImage = errors.New("the bucket has no such image")
	// ErrDamaged means that something in the bucket is not what its name or its manifest says.
	ErrDamaged = errors.New("damaged in the bucket")
)

// Bucket is the images in the bucket.
type Bucket struct {
	Objects *artifacts.Store
	// Podman is the command of the Podman whose store images come from and go to.
	Podman []string
	// Moved is told of bytes, unpacked, as they go by, beside those that the whole image has. It is
	// called by several goroutines. May be nil.
	Moved func(bytes, total int64)
}

// Image is an image that is in Podman's store and in the bucket.
type Image struct {
	// Name as Podman has it: "localhost/glovebox/python:3.13-0123456789ab".
	Name string
	// Digest of its manifest, which names everything else of it: "sha256:…".
	Digest string
	// Bytes of its layers, unpacked.
	Bytes int64
	// Moved is false where nothing had to be.
	Moved bool
}

// tag says which image a name stands for.
type tag struct {
	Digest   string    `json:"digest"`
	PushedAt time.Time `json:"pushed_at"`
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	nameForm   = regexp.MustCompile(`^localhost/glovebox/([a-z][a-z0-9-]{0,31}):([A-Za-z0-9][A-Za-z0-9._-]{0,63})$`)
)

// CheckDigest returns why a digest is none.
func CheckDigest(digest string) error {
	if !digestForm.MatchString(digest) {
		return fmt.Errorf("the digest %.80q is not sha256: and 64 hex digits", digest)
	}
	return nil
}

func tagKey(image, architecture string) (string, error) {
	parts := nameForm.FindStringSubmatch(image)
	if parts == nil {
		return "", fmt.Errorf("%.200q is no name of a runtime's image", image)
	}
	return "images/tags/" + architecture + "/" + parts[1] + "/" + parts[2], nil
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func manifestKey(digest string) string { return "images/manifests/" + hexOf(digest) }

// blobKey is where a layer or a configuration is, compressed. Its digest is of what is in it.
func blobKey(digest string) string { return "images/blobs/" + hexOf(digest) + ".zst" }

const incomingPrefix = "images/incoming/"

// incomingKey is for what has no name yet: its digest is known at its end.
func incomingKey(now time.Time) string {
	return incomingPrefix + strconv.FormatInt(now.Unix(), 10) + "-" + rand.Text()
}

// sweepIncoming removes what pushes left that were killed.
func (b Bucket) sweepIncoming(ctx context.Context, now time.Time) error {
	_, err := b.Objects.Sweep(ctx, incomingPrefix, func(key string) bool {
		seconds, _, _ := strings.Cut(strings.TrimPrefix(key, incomingPrefix), "-")
		begun, err := strconv.ParseInt(seconds, 10, 64)
		return err == nil && now.Sub(time.Unix(begun, 0)) < incomingLife
	})
	return err
}

// Find returns the digest of the image that a name stands for, or fails with [ErrNoImage].
func (b Bucket) Find(ctx context.Context, image, architecture string) (string, error) {
	key, err := tagKey(image, architecture)
	if err != nil {
		return "", err
	}
	data, err := b.Objects.GetBytes(ctx, key, maxTagBytes)
	if errors.Is(err, artifacts.ErrNotFound) {
		return "", fmt.Errorf("find %s for %s: %w", image, architecture, ErrNoImage)
	}
	if err != nil {
		return "", err
	}
	var t tag
	if err := json.Unmarshal(data, &t); err != nil {
		return "", fmt.Errorf("%s: %w: %w", key, ErrDamaged, err)
	}
	if err := CheckDigest(t.Digest); err != nil {
		return "", fmt.Errorf("%s: %w: %w", key, ErrDamaged, err)
	}
	return t.Digest, nil
}

// manifest is as much of an OCI manifest as says which objects are the image.
type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// parseManifest reads a manifest, whose bytes have to have the digest.
func parseManifest(data []byte, digest string) (manifest, error) {
	var m manifest
	sum := sha256.Sum256(data)
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != digest {
		return m, fmt.Errorf("the manifest %s: its digest is %s", digest, got)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("the manifest %s: %w", digest, err)
	}
	if m.SchemaVersion != 2 || m.MediaType != "" && m.MediaType != manifestType {
		return m, fmt.Errorf("the manifest %s: it is no %s", digest, manifestType)
	}
	if len(m.Layers) == 0 || len(m.Layers) > maxLayers {
		return m, fmt.Errorf("the manifest %s: %d layers, want 1 to %d", digest, len(m.Layers), maxLayers)
	}
	for _, part := range append([]descriptor{m.Config}, m.Layers...) {
		if err := CheckDigest(part.Digest); err != nil {
			return m, fmt.Errorf("the manifest %s: %w", digest, err)
		}
		if part.Size <= 0 || part.Size > maxImageBytes {
			return m, fmt.Errorf("the manifest %s: %s has %d bytes, want 1 to %d", digest, part.Digest, part.Size, int64(maxImageBytes))
		}
	}
	for _, layer := range m.Layers {
		if layer.MediaType != layerType { // a layer's digest would not be that of its files
			return m, fmt.Errorf("the manifest %s: the layer %s is %q, want %s", digest, layer.Digest, layer.MediaType, layerType)
		}
	}
	if m.Config.Size > maxManifestBytes || m.bytes() > maxImageBytes {
		return m, fmt.Errorf("the manifest %s: layers of %d bytes and a configuration of %d, want at most %d and %d", digest, m.bytes(), m.Config.Size, int64(maxImageBytes), maxManifestBytes)
	}
	return m, nil
}

func (m manifest) bytes() int64 {
	var n int64
	for _, layer := range m.Layers {
		n += layer.Size
	}
	return n
}
