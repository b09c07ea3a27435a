package gbtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// S3Server is a real S3 server, versitygw over a directory.
type S3Server struct {
	*Process
	Endpoint, Region, AccessKey, SecretKey string
	// Dir is where the server keeps buckets, as folders.
	Dir string
}

// S3 starts a versitygw whose data survives Kill and Restart. options are those of its
// posix backend.
func S3(tb testing.TB, options ...string) *S3Server {
	tb.Helper()
	Require(tb, "s3")
	tool, err := Tool("versitygw")
	if err != nil {
		tb.Fatal(err)
	}
	s := &S3Server{Region: "us-east-1", AccessKey: rand.Text(), SecretKey: rand.Text(), Dir: tb.TempDir()}
	addr := Addr(tb)
	s.Endpoint = "http://" + addr
	argv := append([]string{tool, "--port", addr, "--region", s.Region, "--quiet", "posix"}, options...)
	s.Process = Start(tb, append(argv, s.Dir),
		[]string{"ROOT_ACCESS_KEY=" + s.AccessKey, "ROOT_SECRET_KEY=" + s.SecretKey},
		func() bool { return answers(tb.Context(), s.Endpoint) })
	return s
}

// PodmanService is a rootless Podman service, as the user who runs the test.
type PodmanService struct {
	*Process
	Socket string
}

// Podman starts a Podman service on a socket of its own, [WhenIdle] lets it. All of them share the
// user's image store.
func Podman(tb testing.TB) *PodmanService {
	tb.Helper()
	Require(tb, "podman")
	WhenIdle(tb)
	PodmanNamespace(tb)
	// Unix socket paths are short (108 bytes), so not below tb.TempDir().
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // too long a path for a socket
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "podman.sock")
	p := Start(tb, []string{"podman", "system", "service", "-t", "0", "unix://" + socket}, PodmanEnv(),
		func() bool {
			c, err := dial("unix", socket)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	return &PodmanService{Process: p, Socket: socket}
}

// RemoveAfter removes the containers of an installation when the test ends. A worker that is killed, as
// Start's are, leaves its own, and each makes every later Podman's lists longer.
func (p *PodmanService) RemoveAfter(tb testing.TB, instance string) {
	tb.Helper()
	tb.Cleanup(func() {
		if p.hasNoneOf(instance) {
			return
		}
		for deadline := time.Now().Add(Patience); ; time.Sleep(100 * time.Millisecond) {
			cmd := exec.CommandContext(context.Background(), "podman", "rm", "--force", "--time", "0", "--filter", "label=run.glovebox.instance="+instance)
			cmd.Env = append(os.Environ(), PodmanEnv()...)
			out, err := cmd.CombinedOutput()
			if err == nil {
				return
			}
			if time.Now().After(deadline) { // until then a container may be ending, or be removed by another
				tb.Errorf("remove the test's containers: %v\n%s", err, out)
				return
			}
		}
	})
}

// hasNoneOf reports whether the service says that it has no container of an installation: it answers in a tenth of the time that a command takes.
func (p *PodmanService) hasNoneOf(instance string) bool {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, // goleak watches
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.Socket)
		},
	}}
	filters := url.QueryEscape(fmt.Sprintf(`{"label":["run.glovebox.instance=%s"]}`, instance))
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://podman/v4.0.0/libpod/containers/json?all=true&filters="+filters, http.NoBody)
	if err != nil {
		return false
	}
	res, err := client.Do(req)
	if err != nil {
		return false // it is killed, maybe, or hangs
	}
	defer res.Body.Close()
	var containers []json.RawMessage
	err = json.NewDecoder(res.Body).Decode(&containers)
	return err == nil && res.StatusCode == http.StatusOK && len(containers) == 0
}

// PodmanNamespace sees to the process that keeps the user's namespaces. Without it a
// service makes them itself, in a child: who kills the service then misses the child, and
// who reads the service's mounts reads the host's.
func PodmanNamespace(tb testing.TB) {
	tb.Helper()
	if pid, err := namespaces(os.Getenv("XDG_RUNTIME_DIR")); err == nil && pid != 0 {
		return
	}
	cmd := exec.CommandContext(tb.Context(), "podman", "unshare", "true")
	cmd.Env = append(os.Environ(), PodmanEnv()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("podman unshare true: %v\n%s", err, out)
	}
}

// podmanConf is the variable that names the directory of Podman's configuration, where it
// isn't that of ToolsDir; infra/podman-user.sh knows it, too.
const podmanConf = "GLOVEBOX_PODMAN_CONF"

// PodmanEnv is the environment of a Podman service or command that uses Glovebox's
// own configuration and store.
func PodmanEnv() []string {
	conf := cmp.Or(os.Getenv(podmanConf), filepath.Join(ToolsDir, "podman"))
	return []string{
		"XDG_RUNTIME_DIR=" + os.Getenv("XDG_RUNTIME_DIR"),
		"CONTAINERS_CONF=" + filepath.Join(conf, "containers.conf"),
		"CONTAINERS_STORAGE_CONF=" + filepath.Join(conf, "storage.conf"),
	}
}

// dial does without tb.Context, which has ended when a clean-up restarts a server.
func dial(network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: time.Second}
	return d.DialContext(context.Background(), network, addr)
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections() // goleak watches
	return true
}
