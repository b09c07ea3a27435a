package podman

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/system"
	"github.com/sirupsen/logrus"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// service is the rootless Podman service: what it is, its images, and what it can say of
// containers and do to them.
type service struct {
	log          *slog.Logger
	conn         context.Context //nolint:containedctx // the bindings keep their connection in one
	http         *bindings.Connection
	ociRuntime   string // its name and version
	ociPath      string
	graphRoot    string // of its store
	runRoot      string // of what it keeps while containers run
	images       imageCache
	noProcAccess atomic.Bool // the worker can't read the /proc of sandboxes
}

// ociRuntime is the file name of the OCI runtime that means gVisor, and ociNames are what Podman
// may call it. Anything else is refused, and so is bare runsc, which doesn't request the worker's
// pipes.
const ociRuntime = "glovebox-runtime"

var ociNames = map[string]bool{ociRuntime: true, "runsc": true}

// connect connects to the service and checks that it is safe to use.
func connect(ctx context.Context, config Config) (*service, error) {
	silence()
	// The connection outlives ctx: the bindings take it from a context, but bind no
	// request to it that is made later with another.
	conn, err := bindings.NewConnection(ctx, "unix://"+config.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w: connect to podman: %w", sandbox.ErrUnavailable, err)
	}
	client, err := bindings.GetClient(conn)
	if err != nil {
		return nil, fmt.Errorf("%w: connect to podman: %w", sandbox.ErrUnavailable, err)
	}
	if t, ok := client.Client.Transport.(*http.Transport); ok {
		t.MaxIdleConnsPerHost = 64 // with the default of 2, most requests would dial
	}
	s := &service{log: config.Log, conn: context.WithoutCancel(conn), http: client}
	if err := s.check(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *service) close() { s.http.Client.CloseIdleConnections() }

// silence turns off the logger that the bindings share, which warns of every program
// that exits before its stdin is closed.
var silence = sync.OnceFunc(func() {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.PanicLevel)
})

// check fails if the service is not rootless or has another OCI runtime.
func (s *service) check(ctx context.Context) error {
	info, err := system.Info(s.with(ctx), nil)
	if err != nil {
		return fmt.Errorf("%w: ask podman what it is: %w", sandbox.ErrUnavailable, err)
	}
	oci := info.Host.OCIRuntime
	if oci == nil {
		return fmt.Errorf("%w: %w: podman names no OCI runtime", sandbox.ErrUnavailable, await.ErrSettings)
	}
	if !ociNames[oci.Name] || filepath.Base(oci.Path) != ociRuntime {
		return fmt.Errorf("%w: %w: podman's OCI runtime is %q (%s), it has to be %s: "+
			"start the service with CONTAINERS_CONF of infra/podman", sandbox.ErrUnavailable, await.ErrSettings, oci.Name, oci.Path, ociRuntime)
	}
	if !info.Host.Security.Rootless {
		return fmt.Errorf("%w: %w: podman runs as root; it has to be rootless", sandbox.ErrUnavailable, await.ErrSettings)
	}
	s.ociPath = oci.Path
	if info.Store != nil {
		s.graphRoot, s.runRoot = info.Store.GraphRoot, info.Store.RunRoot
	}
	s.ociRuntime = firstLine(oci.Version)
	if s.ociRuntime == "" {
		s.ociRuntime = oci.Name
	}
	return nil
}

// ping fails if the service does not answer.
func (s *service) ping(ctx context.Context) error {
	response, err := s.http.DoRequest(s.with(ctx), nil, http.MethodGet, "/_ping", nil, nil)
	if err != nil {
		return fmt.Errorf("%w: ping podman: %w", sandbox.ErrUnavailable, err)
	}
	defer response.Body.Close()
	if !response.IsSuccess() {
		return fmt.Errorf("%w: ping podman: %s", sandbox.ErrUnavailable, response.Status)
	}
	return nil
}

// with returns ctx with the connection, which the bindings look for in the context.
func (s *service) with(ctx context.Context) context.Context {
	return connected{Context: ctx, conn: s.conn}
}

type connected struct {
	context.Context                 //nolint:containedctx // it is a context
	conn            context.Context //nolint:containedctx // and looks into another
}

func (c connected) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.conn.Value(key)
}

// listTries is how often Podman is asked for all containers: one that goes meanwhile fails the whole list of older versions (Podman's
// issue 23492).
const listTries = 5

// known returns the ids of all containers that Podman knows, whoever made them.
func (s *service) known(ctx context.Context) (map[string]bool, error) {
	all := new(containers.ListOptions).WithAll(true).WithExternal(true)
	list, err := containers.List(s.with(ctx), all)
	for tries := 1; err != nil && tries < listTries && ctx.Err() == nil; tries++ {
		list, err = containers.List(s.with(ctx), all)
	}
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	known := make(map[string]bool, len(list))
	for _, c := range list {
		known[c.ID] = true
	}
	return known, nil
}

// bundle returns the directory that Podman gives the OCI runtime for a container.
func (s *service) bundle(container string) string {
	return filepath.Join(s.graphRoot, "overlay-containers", container, "userdata")
}
