package imagebucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/klauspost/compress/zstd"

	"github.com/glovebox-run/glovebox/artifacts"
)

// maxWindow bounds what unpacking a layer may hold in memory: 32 MiB, where ours takes 4.
const maxWindow = 32 << 20

// sender is the registry from which Podman pulls an image.
type sender struct {
	bucket Bucket
	data   []byte           // the manifest
	digest string           // its digest
	parts  map[string]int64 // sizes of layers and configuration, by digest
	total  int64            // of all layers
	errs   failures
}

func (s *sender) handler() http.Handler {
	mux := http.NewServeMux()
	hello(mux)
	base := "/v2/" + repository
	mux.HandleFunc("GET "+base+"/manifests/"+s.digest, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", s.digest)
		w.Header().Set("Content-Length", strconv.Itoa(len(s.data)))
		_, _ = w.Write(s.data) // Podman says if it didn't get it
	})
	mux.HandleFunc("GET "+base+"/blobs/{digest}", s.send)
	return mux
}

// send answers with a part. Its last byte is held back until all have been compared with the digest, so
// that Podman never has the whole of one that is damaged.
func (s *sender) send(w http.ResponseWriter, req *http.Request) {
	digest := req.PathValue("digest")
	size, ok := s.parts[digest]
	if !ok || s.errs.failed() {
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "no part of the image, or another failed")
		return
	}
	if req.Header.Get("Range") != "" { // of a Podman that tries to go on: the whole has failed
		refuse(w, http.StatusRequestedRangeNotSatisfiable, "UNSUPPORTED", "parts are sent whole")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if req.Method == http.MethodHead {
		return
	}
	if err := s.copy(req.Context(), w, digest, size); err != nil {
		s.errs.add(req, err)
		panic(http.ErrAbortHandler) // breaks the connection
	}
}

func (s *sender) copy(ctx context.Context, w io.Writer, digest string, size int64) error {
	body, _, err := s.bucket.Objects.Get(ctx, blobKey(digest))
	if errors.Is(err, artifacts.ErrNotFound) {
		return fmt.Errorf("%s: %w: it is missing", digest, ErrDamaged)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	source := &fromBucket{Reader: body}
	zr, err := zstd.NewReader(source, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer zr.Close()
	damaged := func(format string, args ...any) error {
		if source.err != nil { // of what didn't come nobody knows whether it is damaged
			return fmt.Errorf("read %s from the bucket: %w", blobKey(digest), source.err)
		}
		return fmt.Errorf("%s: %w: %s", digest, ErrDamaged, fmt.Sprintf(format, args...))
	}
	sum := sha256.New()
	out := io.MultiWriter(toPodman{w}, counter{s.bucket.Moved, s.total})
	if n, err := io.CopyN(io.MultiWriter(out, sum), zr, size-1); errors.Is(err, errPodman) {
		return err
	} else if err != nil {
		return damaged("after %d of %d bytes: %v", n, size, err)
	}
	rest, err := io.ReadAll(io.LimitReader(zr, 2))
	if err != nil || len(rest) != 1 {
		return damaged("%d bytes at its end, want 1 (%v)", len(rest), err)
	}
	sum.Write(rest)
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return damaged("its digest is %s", got)
	}
	_, err = out.Write(rest)
	return err
}

// fromBucket keeps why the bucket's connection broke off: to zstd a body that ends early and a layer that was cut short are one error.
type fromBucket struct {
	io.Reader
	err error
}

func (r *fromBucket) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
