package imagebucket

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// repository is what the one image of a registry is called there.
const repository = "glovebox/image"

// registry is one that is served to this machine until stop is called, which waits for what is under way.
type registry struct {
	at       string // host:port
	password string
	stop     func()

	answering sync.RWMutex // read-locked by each request under way
	stopped   bool
}

// serve serves a registry that asks for a password: any user of this machine can connect to it, and only
// Podman is to read or write images by our credentials.
func serve(ctx context.Context, h http.Handler) (*registry, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the image to podman: %w", err)
	}
	r := &registry{at: l.Addr().String(), password: rand.Text()}
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{Handler: r.guard(h), ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // it fails when it is closed, and podman says so before
	}()
	r.stop = func() {
		cancel() // Podman has ended: nobody reads the answers
		server.Close()
		<-done
		r.answering.Lock()
		defer r.answering.Unlock()
		r.stopped = true // a request that comes after this gets no answer
	}
	return r, nil
}

func (r *registry) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, password, _ := req.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(password), []byte(r.password)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="glovebox"`)
			refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", "this registry is for one podman")
			return
		}
		r.answering.RLock()
		defer r.answering.RUnlock()
		if !r.stopped {
			h.ServeHTTP(w, req)
		}
	})
}

// login is the password as Podman reads it from a file. It has no name any more, so only who is given it opens it:
// what is in a command's arguments everybody sees.
func (r *registry) login() (*os.File, error) {
	dir, err := os.MkdirTemp("", "glovebox-login-") // nobody else may enter it
	if err != nil {
		return nil, fmt.Errorf("write podman's password: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "auth.json")
	auth := base64.StdEncoding.EncodeToString([]byte("podman:" + r.password))
	if err := os.WriteFile(path, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, r.at, auth), 0o600); err != nil {
		return nil, fmt.Errorf("write podman's password: %w", err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // Podman may be another user, who opens it again
		return nil, fmt.Errorf("write podman's password: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read podman's password: %w", err)
	}
	return file, nil
}

// errPodman is wrapped by errors of the connection with Podman.
var errPodman = errors.New("the connection with podman broke off")

// fromPodman and toPodman are Podman's end of what is streamed.
type (
	fromPodman struct{ io.Reader }
	toPodman   struct{ io.Writer }
)

func (r fromPodman) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errPodman, err)
	}
	return n, err
}

func (w toPodman) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errPodman, err)
	}
	return n, err
}

// failures keeps why requests failed, of which Podman says less.
type failures struct {
	mu   sync.Mutex
	errs []error
}

// add keeps why a request failed, except where Podman gave it up: why it did, Podman knows, as for a disk that is full.
func (f *failures) add(req *http.Request, err error) {
	if req.Context().Err() != nil || errors.Is(err, errPodman) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// failed is whether a request has failed, so that no other need be tried.
func (f *failures) failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.errs) > 0
}

// join is the first that failed, where Podman failed.
func (f *failures) join(podman error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if podman == nil {
		return nil
	}
	if len(f.errs) > 0 && !errors.Is(podman, context.Canceled) {
		return f.errs[0]
	}
	return podman
}

// refuse answers as registries do.
func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}

// hello answers clients that ask whether this is a registry.
func hello(mux *http.ServeMux) {
	mux.HandleFunc("GET /v2/{$}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
}
