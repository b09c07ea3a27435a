package podman_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	spec "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

const hello = "print('hello')"

// BenchmarkFresh is how many hellos a second run in fresh sandboxes, 1, 2, 4 and 8 at
// once, with the removal of all of them: through Glovebox's sandbox, by a loop of
// `podman run --rm` as one has it without Glovebox, and by a loop of `runsc run` of the
// same root file system, which is the floor.
//
//	go test -tags … -exec infra/as-podman-user.sh -run '^$' -bench Fresh -benchtime 40x ./worker/sandbox/
func BenchmarkFresh(b *testing.B) {
	open(b)
	for _, at := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("glovebox/%d", at), func(b *testing.B) { freshGlovebox(b, at) })
		b.Run(fmt.Sprintf("podman-run/%d", at), func(b *testing.B) { freshPodman(b, at) })
		b.Run(fmt.Sprintf("runsc-run/%d", at), func(b *testing.B) { freshRunsc(b, at) })
	}
}

// freshGlovebox ends when the last sandbox is removed.
func freshGlovebox(b *testing.B, at int) {
	b.Helper()
	sandboxes := openAs(b, "fresh-"+strconv.Itoa(at))
	p := program(hello)
	p.Image = suite.image
	b.ResetTimer()
	inParallel(b, at, func() error {
		k := &kept{}
		_, err := sandboxes.Run(b.Context(), p, k)
		if err == nil && k.stdout.String() != "hello\n" {
			err = fmt.Errorf("it printed %q", k.stdout.String())
		}
		return err
	})
	sandboxes.Close()
	rate(b)
}

// runscFlags are what runsc has to be told to run below rootless Podman, and the same
// as glovebox-runtime tells it.
var runscFlags = []string{"ignore-cgroups", "network=none", "platform=systrap", "host-uds=none", "host-fifo=none", "overlay2=root:memory"}

// freshPodman is a stock Podman: neither glovebox-runtime nor Glovebox's configuration of
// it, except for the storage driver, which makes it faster.
func freshPodman(b *testing.B, at int) {
	b.Helper()
	argv := []string{"--runtime", gbtest.ToolsDir + "/runsc"}
	for _, flag := range runscFlags {
		argv = append(argv, "--runtime-flag", flag)
	}
	argv = append(argv, "--cgroup-manager", "cgroupfs", "--events-backend", "file",
		"run", "--rm", "--read-only", "--network", "none", suite.image, "python3", "-c", hello)
	conf := filepath.Join(reachable(b), "containers.conf")
	if err := os.WriteFile(conf, nil, 0o644); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	inParallel(b, at, func() error {
		cmd := exec.CommandContext(b.Context(), "podman", argv...)
		cmd.Env = append(append(os.Environ(), podmanEnv()...), "CONTAINERS_CONF="+conf)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "hello\n") {
			return fmt.Errorf("podman run: %w: %s", err, out)
		}
		return nil
	})
	rate(b)
}

// freshRunsc loops over `runsc run` in the user namespace in which Podman runs it: below
// one `podman unshare`, in which the image is mounted as Podman mounts it.
func freshRunsc(b *testing.B, at int) {
	b.Helper()
	dir := reachable(b)
	script := `set -e
root=$(podman image mount "$IMAGE")
trap 'podman image unmount "$IMAGE" >/dev/null' EXIT
sed "s|@root@|$root|" "$DIR/template.json" >"$DIR/config.json"
mkdir "$DIR/root"
echo ready
read -r _
work() {
    for n in $(seq "$2"); do
        "$RUNSC" --root="$DIR/root" $FLAGS run --bundle="$DIR" "hello-$1-$n" </dev/null
    done
}
workers=
for w in $(seq "$AT"); do
    work "$w" $(((N + AT - w) / AT)) &
    workers="$workers $!"
done
for w in $workers; do wait "$w"; done`
	cmd := exec.CommandContext(b.Context(), "podman", "unshare", "bash", "-c", script)
	cmd.Env = append(append(os.Environ(), podmanEnv()...), "IMAGE="+suite.image, "DIR="+dir, "RUNSC="+gbtest.ToolsDir+"/runsc",
		"FLAGS=--"+strings.Join(runscFlags, " --"), fmt.Sprintf("AT=%d", at), fmt.Sprintf("N=%d", b.N))
	config, err := json.Marshal(bareSpec())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "template.json"), config, 0o644); err != nil {
		b.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	var said gbtest.Buffer
	cmd.Stderr = &said
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	out := bufio.NewScanner(stdout)
	if !out.Scan() || out.Text() != "ready" {
		b.Fatalf("mount the image: %s", said.String())
	}
	b.ResetTimer()
	if _, err := stdin.Write([]byte("\n")); err != nil {
		b.Fatal(err)
	}
	hellos := 0
	for out.Scan() {
		if out.Text() == "hello" {
			hellos++
		}
	}
	if err := cmd.Wait(); err != nil || hellos != b.N {
		b.Fatalf("runsc run: %v, got %d hellos, want %d: %s", err, hellos, b.N, said.String())
	}
	rate(b)
}

// bareSpec is about what Podman makes of `podman run --read-only --network none`.
func bareSpec() spec.Spec {
	tmpfs := func(path string) spec.Mount {
		return spec.Mount{Destination: path, Type: "tmpfs", Source: "tmpfs", Options: []string{"rw", "nosuid", "nodev"}}
	}
	capabilities := []string{"CAP_KILL", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"}
	return spec.Spec{
		Version: "1.0.2", Hostname: "bare",
		Process: &spec.Process{
			Args: []string{"python3", "-c", hello}, Cwd: "/", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, NoNewPrivileges: true,
			Capabilities: &spec.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities},
		},
		Root: &spec.Root{Path: "@root@", Readonly: true},
		Mounts: []spec.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			tmpfs("/dev"), tmpfs("/dev/shm"), tmpfs("/tmp"), tmpfs("/work"),
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		},
		Linux: &spec.Linux{Namespaces: []spec.LinuxNamespace{
			{Type: spec.PIDNamespace}, {Type: spec.NetworkNamespace}, {Type: spec.IPCNamespace}, {Type: spec.UTSNamespace}, {Type: spec.MountNamespace},
		}},
	}
}

// reachable is a directory that Podman can reach, unlike b.TempDir.
func reachable(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // see above
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// inParallel calls work b.N times, at most so many at once.
func inParallel(b *testing.B, at int, work func() error) {
	b.Helper()
	turns := make(chan struct{}, b.N)
	for range b.N {
		turns <- struct{}{}
	}
	close(turns)
	var workers sync.WaitGroup
	for range at {
		workers.Go(func() {
			for range turns {
				if err := work(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

func rate(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hellos/s")
}
