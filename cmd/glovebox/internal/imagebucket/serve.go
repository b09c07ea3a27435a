package imagebucket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// repository is what the one image of a registry is called there.
const repository = "glovebox/image"

// serve serves a registry to this machine, at host:port, until stop is called, which waits for what is under way.
func serve(ctx context.Context, h http.Handler) (at string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("serve the image to podman: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // it fails when it is closed, and podman says so before
	}()
	return l.Addr().String(), func() {
		cancel() // Podman has ended: nobody reads the answers
		server.Close()
		<-done
	}, nil
}

// failures keeps why requests failed, of which Podman says less.
type failures struct {
	mu   sync.Mutex
	errs []error
}

func (f *failures) add(err error) {
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
