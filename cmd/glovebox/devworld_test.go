package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/webhook"
)

// devTest is a dev, and the other commands beside it.
type devTest struct {
	t    *testing.T
	bin  string
	data string
	dev  *gbtest.Process
}

func newDevTest(t *testing.T) *devTest {
	t.Helper()
	requireDev(t)
	d := &devTest{t: t, bin: buildAll(t), data: filepath.Join(t.TempDir(), "data")}
	t.Cleanup(d.removeSandboxes)
	return d
}

// buildAll builds what dev needs, which looks for the worker and the agent beside itself.
func buildAll(t *testing.T) (bin string) {
	t.Helper()
	return build(t, podmanTags, "glovebox", "glovebox-worker", "glovebox-agent")
}

// removeSandboxes removes what workers left that were killed: with the data directory
// goes everybody who would.
func (d *devTest) removeSandboxes() {
	for _, id := range strings.Fields(d.sandboxes("--all", "--quiet")) {
		if out, err := exec.CommandContext(context.Background(), podmanScript, "rm", "--force", id).CombinedOutput(); err != nil {
			d.t.Errorf("podman rm: %v: %s", err, out)
		}
	}
}

// requireDev ends the test where this machine has not all that dev needs.
func requireDev(t *testing.T) {
	t.Helper()
	gbtest.Require(t, "redis")
	gbtest.Require(t, "s3")
	out, err := exec.CommandContext(t.Context(), podmanScript, "images", "--filter", "reference=localhost/glovebox/*", "--format", "{{.Repository}}").CombinedOutput()
	switch {
	case err != nil:
		gbtest.Missing(t, "podman", fmt.Sprintf("podman: %v: %s", err, out))
	case !bytes.Contains(out, []byte("localhost/glovebox/python")):
		gbtest.Missing(t, "podman", "the image of python is not built")
	}
}

func (d *devTest) env() []string { return []string{"GLOVEBOX_DATA=" + d.data} }

// start starts dev, the first time or again, and returns when it says that it is ready.
func (d *devTest) start() {
	d.t.Helper()
	printed := 0
	ready := func() bool { return strings.Count(d.dev.Output(), "Glovebox is ready") > printed }
	if d.dev != nil {
		printed = strings.Count(d.dev.Output(), "Glovebox is ready")
		d.dev.Restart()
	} else {
		d.dev = gbtest.Start(d.t, []string{d.bin + "/glovebox", "dev", "--api", "127.0.0.1:0"}, d.env(), nil)
	}
	d.untilReady(ready)
}

func (d *devTest) untilReady(ready func() bool) {
	d.t.Helper()
	d.until("dev is ready", func() bool {
		if !d.dev.Alive() {
			d.t.Fatalf("dev ended; it printed:\n%s", d.dev.Output())
		}
		return ready()
	})
}

func (d *devTest) until(what string, done func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(gbtest.Patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("not so after %s: %s; dev printed:\n%s", gbtest.Patience, what, d.dev.Output())
		}
	}
}

// glovebox runs a command and returns what it printed and its exit code.
func (d *devTest) glovebox(stdin string, args ...string) (stdout, stderr string, code int) {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), d.bin+"/glovebox", args...)
	cmd.Env = append(d.env(), "PATH="+os.Getenv("PATH"), "HOME="+d.t.TempDir())
	cmd.Dir = d.t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		d.t.Fatalf("glovebox %v: %v", args, err)
	}
	return out.String(), errs.String(), code
}

// patiently is how long a command waits for a job that three devs beside each other may run.
const patiently = "--wait=6m"

// run submits a program, waits, and returns the job's id.
func (d *devTest) run(program, want string) (id string) {
	d.t.Helper()
	stdout, stderr, code := d.glovebox(program, "submit", "--runtime", "python", patiently, "-")
	if stdout != want || code != exitOK {
		d.t.Fatalf("submit: got %q, exit code %d, want %q and 0; it said:\n%s\ndev printed:\n%s", stdout, code, want, stderr, d.dev.Output())
	}
	return regexp.MustCompile(`job (\S+)`).FindStringSubmatch(stderr)[1]
}

// child returns the pid of a program that dev runs.
func (d *devTest) child(name string) int {
	d.t.Helper()
	for _, p := range descendants(d.t, d.dev.PID()) {
		if p.parent == d.dev.PID() && strings.Contains(p.command, name) {
			return p.pid
		}
	}
	d.t.Fatalf("dev runs no %q", name)
	return 0
}

// gone checks that none of the processes is left.
func (d *devTest) gone(pids []process) {
	d.t.Helper()
	for _, p := range pids {
		d.until(fmt.Sprintf("%d (%s) is gone", p.pid, p.command), func() bool { _, lives := readProcess(p.pid); return !lives })
	}
}

// scrape reads metrics as Prometheus does.
func (d *devTest) scrape(url string) string {
	d.t.Helper()
	return scrape(d.t, url)
}

// scrape returns the metrics at url.
func scrape(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections() // goleak watches
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, res.Status, err)
	}
	return string(b)
}

// sandboxes are the containers of this dev that run, as podman ps shows them with flags.
func (d *devTest) sandboxes(flags ...string) string {
	d.t.Helper()
	secrets := read(d.t, filepath.Join(d.data, "secrets"))
	instance := regexp.MustCompile(`(?m)^INSTANCE=(\w+)$`).FindSubmatch(secrets)
	args := append([]string{"ps", "--filter", "label=run.glovebox.instance=" + string(instance[1])}, flags...)
	cmd := exec.CommandContext(context.Background(), podmanScript, args...)
	var warnings bytes.Buffer // of cgroups v1, by Podman 5
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("podman ps: %v: %s", err, &warnings)
	}
	return string(out)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// postSigned sends what a sender of Standard Webhooks would, and returns the id of the job that it starts.
func postSigned(t *testing.T, url, secretText, body string) string {
	t.Helper()
	secret, err := webhook.ParseSecret(secretText)
	if err != nil {
		t.Fatal(err)
	}
	header, err := webhook.Sign([]webhook.Signer{secret}, "msg_1", time.Now(), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections() // goleak watches
	defer res.Body.Close()
	var said producer.HookAccepted
	if err := json.NewDecoder(res.Body).Decode(&said); err != nil || res.StatusCode != http.StatusAccepted {
		t.Fatalf("post to hook: got %d, %+v, %v", res.StatusCode, said, err)
	}
	return said.JobID
}
