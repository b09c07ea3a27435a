package imagebucket

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/glovebox-run/glovebox/artifacts"
)

// receiver is the registry to which Podman pushes an image. It puts nothing into the bucket but parts of that
// image: all digests are known before.
type receiver struct {
	bucket Bucket
	image  stored
	again  bool
	errs   failures

	mu       sync.Mutex
	incoming map[string]arrived // by the id of its upload
	sent     map[string]bool
	manifest []byte
}

// arrived is something that lies in the bucket without a name.
type arrived struct{ key, digest string }

func (r *receiver) handler() http.Handler {
	r.incoming = map[string]arrived{}
	mux := http.NewServeMux()
	hello(mux)
	base := "/v2/" + repository
	mux.HandleFunc("HEAD "+base+"/blobs/{digest}", r.look)
	mux.HandleFunc("POST "+base+"/blobs/uploads/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", base+"/blobs/uploads/"+rand.Text())
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("PATCH "+base+"/blobs/uploads/{id}", r.receive)
	mux.HandleFunc("PUT "+base+"/blobs/uploads/{id}", r.name)
	mux.HandleFunc("PUT "+base+"/manifests/{digest}", r.end)
	return mux
}

// wanted is whether a digest is one of the image's parts.
func (r *receiver) wanted(digest string) bool {
	return digest == "sha256:"+r.image.ID || slices.Contains(r.image.RootFS.Layers, digest)
}

// look answers whether the bucket has a part.
func (r *receiver) look(w http.ResponseWriter, req *http.Request) {
	digest := req.PathValue("digest")
	r.mu.Lock()
	sent := r.sent[digest]
	r.mu.Unlock()
	if !r.wanted(digest) || r.again && !sent {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, err := r.bucket.Objects.Head(req.Context(), blobKey(digest))
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		w.WriteHeader(http.StatusNotFound)
	case err != nil:
		r.errs.add(req, err)
		w.WriteHeader(http.StatusForbidden) // which Podman doesn't try again
	default:
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusOK)
	}
}

// receive streams a part into the bucket, where it has no name yet: Podman says at the end which it is.
func (r *receiver) receive(w http.ResponseWriter, req *http.Request) {
	key := incomingKey(time.Now())
	digest, err := r.compress(req, key)
	if err == nil && !r.wanted(digest) {
		err = errors.Join(fmt.Errorf("podman sent %s, which is no part of the image", digest), r.bucket.Objects.Remove(req.Context(), key))
	}
	if err != nil {
		r.errs.add(req, err)
		refuse(w, http.StatusForbidden, "DENIED", err.Error())
		return
	}
	r.mu.Lock()
	r.incoming[req.PathValue("id")] = arrived{key, digest}
	r.mu.Unlock()
	w.Header().Set("Location", req.URL.Path)
	w.WriteHeader(http.StatusAccepted)
}

// compress stores the body of a request, and returns the digest of what it was.
func (r *receiver) compress(req *http.Request, key string) (string, error) {
	out, in := io.Pipe()
	sum := sha256.New()
	go func() {
		zw, err := zstd.NewWriter(in, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err == nil {
			_, err = io.Copy(io.MultiWriter(zw, sum, counter{r.bucket.Moved, r.image.Size}), fromPodman{req.Body})
			err = errors.Join(err, zw.Close())
		}
		in.CloseWithError(err) // nil is the end
	}()
	defer out.Close()
	if _, err := r.bucket.Objects.Upload(req.Context(), key, out, artifacts.Options{Limit: maxStoredBytes, Name: "layer.tar.zst"}); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// name gives what has arrived its name, if that is its digest.
func (r *receiver) name(w http.ResponseWriter, req *http.Request) {
	id := req.PathValue("id")
	r.mu.Lock()
	a, ok := r.incoming[id]
	delete(r.incoming, id)
	r.mu.Unlock()
	digest := req.URL.Query().Get("digest")
	if !ok || a.digest != digest {
		err := fmt.Errorf("podman sent %s and called it %.80q", a.digest, digest)
		r.errs.add(req, err)
		refuse(w, http.StatusBadRequest, "DIGEST_INVALID", err.Error())
		return
	}
	if err := r.bucket.Objects.Rename(req.Context(), a.key, blobKey(digest)); err != nil {
		r.errs.add(req, err)
		refuse(w, http.StatusForbidden, "DENIED", err.Error())
		return
	}
	r.mu.Lock()
	r.sent[digest] = true
	r.mu.Unlock()
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}

// end keeps the manifest, which comes last.
func (r *receiver) end(w http.ResponseWriter, req *http.Request) {
	data, err := io.ReadAll(io.LimitReader(fromPodman{req.Body}, maxManifestBytes+1))
	if err == nil && len(data) > maxManifestBytes {
		err = fmt.Errorf("the manifest has more than %d bytes", maxManifestBytes)
	}
	if err == nil {
		_, err = parseManifest(data, r.image.Digest)
	}
	if err != nil {
		r.errs.add(req, err)
		refuse(w, http.StatusBadRequest, "MANIFEST_INVALID", err.Error())
		return
	}
	r.mu.Lock()
	r.manifest = data
	r.mu.Unlock()
	w.Header().Set("Docker-Content-Digest", r.image.Digest)
	w.WriteHeader(http.StatusCreated)
}

// counter tells of what is written to it.
type counter struct {
	moved func(bytes, total int64)
	total int64
}

func (c counter) Write(p []byte) (int, error) {
	if c.moved != nil {
		c.moved(int64(len(p)), c.total)
	}
	return len(p), nil
}
