package gbtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BareRunsc runs programs by runsc alone, with neither Podman nor conmon: what is left is
// what this isolation costs. It runs them as Podman's runsc does, in the same namespaces of
// the same user and with the flags that glovebox-runtime gives it.
type BareRunsc struct {
	tb      testing.TB
	dir     string
	image   string
	rootfs  string
	bundles int
}

// runscFlags are what runsc has to be told to run below rootless Podman, and the rest of what
// cmd/glovebox-runtime tells it.
var runscFlags = []string{"ignore-cgroups", "network=none", "platform=systrap", "host-uds=none", "host-fifo=none", "overlay2=root:memory"}

// StockPodmanRun returns the command that runs something in an image's fresh container under
// runsc as one has it without Glovebox: neither glovebox-runtime nor Glovebox's configuration,
// except for where images are and the storage driver, which makes it faster.
func StockPodmanRun(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	argv := []string{"--runtime", ToolsDir + "/runsc"}
	for _, flag := range runscFlags {
		argv = append(argv, "--runtime-flag", flag)
	}
	argv = append(argv, "--cgroup-manager", "cgroupfs", "--events-backend", "file", "run", "--rm", "--read-only", "--network", "none")
	cmd := exec.CommandContext(tb.Context(), "podman", append(argv, args...)...)
	cmd.Env = append(cmd.Environ(), PodmanEnv()...)
	cmd.Env = append(cmd.Env, "CONTAINERS_CONF=/dev/null") // the last one counts
	return cmd
}

// NewBareRunsc mounts an image's root file system until the test ends.
func NewBareRunsc(tb testing.TB, image string) *BareRunsc {
	tb.Helper()
	Require(tb, "podman")
	dir, err := os.MkdirTemp("", "gb") //nolint:usetesting // runsc's sockets have short paths
	if err != nil {
		tb.Fatal(err)
	}
	r := &BareRunsc{tb: tb, dir: dir, image: image}
	inside := r.Shell()
	tb.Cleanup(func() {
		// Whether runsc has made that mount depends on its version. Of images, Podman counts the mounts.
		if out, err := inside.Run("umount " + dir + "/state/null-netns 2>/dev/null; podman image unmount " + image); err != nil {
			tb.Errorf("unmount %s: %v: %s", image, err, out)
		}
		inside.close()
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	out, err := inside.Run("podman image mount " + image)
	if err != nil {
		tb.Fatalf("mount %s: %v: %s", image, err, out)
	}
	r.rootfs = strings.TrimSpace(out)
	return r
}

// Bundle makes an OCI bundle of a program and returns its directory. env has NAME=value;
// dirs are those of the host, read-only, by where they are inside: the image has to have
// directories there.
func (r *BareRunsc) Bundle(argv, env []string, cwd string, dirs map[string]string) string {
	r.tb.Helper()
	type mount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	mounts := []mount{{"/proc", "proc", "proc", nil}}
	for _, path := range []string{"/dev", "/tmp", "/work"} {
		mounts = append(mounts, mount{path, "tmpfs", "tmpfs", nil})
	}
	for inside, outside := range dirs {
		mounts = append(mounts, mount{inside, "bind", outside, []string{"bind", "ro"}})
	}
	var namespaces []map[string]string
	for _, n := range []string{"pid", "ipc", "uts", "mount", "network"} {
		namespaces = append(namespaces, map[string]string{"type": n})
	}
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2",
		"process": map[string]any{
			"user": map[string]int{"uid": 0, "gid": 0}, "args": argv, "env": env, "cwd": cwd, "capabilities": struct{}{}, "noNewPrivileges": true,
		},
		"root":   map[string]any{"path": r.rootfs, "readonly": true},
		"mounts": mounts,
		"linux":  map[string]any{"namespaces": namespaces},
	})
	if err != nil {
		r.tb.Fatal(err)
	}
	r.bundles++
	bundle := filepath.Join(r.dir, fmt.Sprint("bundle", r.bundles))
	if err := os.Mkdir(bundle, 0o700); err != nil {
		r.tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600); err != nil {
		r.tb.Fatal(err)
	}
	return bundle
}

// Command is the command line that runs a bundle once. No two that run may have one id.
func (r *BareRunsc) Command(bundle, id string) string {
	return fmt.Sprintf("%s/runsc --root %s/state --%s run --bundle %s %s", ToolsDir, r.dir, strings.Join(runscFlags, " --"), bundle, id)
}

// PodmanShell is a shell in the user and mount namespaces of rootless Podman, which stays
// there, so that what entering them takes is not part of what a command takes.
type PodmanShell struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr Buffer
}

// Shell starts a shell that ends with the test. It runs one command at a time.
func (r *BareRunsc) Shell() *PodmanShell {
	r.tb.Helper()
	s := &PodmanShell{cmd: exec.Command("podman", "unshare", "sh")} //nolint:noctx // clean-ups use it after tb.Context has ended
	s.cmd.Env = append(s.cmd.Environ(), PodmanEnv()...)
	s.cmd.Dir = r.dir
	s.cmd.Stderr = &s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		r.tb.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		r.tb.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		r.tb.Fatalf("enter Podman's namespaces: %v", err)
	}
	r.tb.Cleanup(s.close)
	return s
}

func (s *PodmanShell) close() {
	if s.cmd.ProcessState == nil {
		s.in.Close()
		_ = s.cmd.Wait() // its status is that of the last command, which Run has told
	}
}

// Run returns what a command printed. An error says how it ended, and what all commands of
// this shell wrote to stderr.
func (s *PodmanShell) Run(command string) (string, error) {
	const mark = "\x04 "
	if _, err := io.WriteString(s.in, command+" </dev/null; printf '\\004 %d\\n' $?\n"); err != nil {
		return "", fmt.Errorf("tell the shell: %w: %s", err, s.stderr.String())
	}
	var printed strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			return printed.String(), fmt.Errorf("hear from the shell: %w: %s", err, s.stderr.String())
		}
		before, status, ended := strings.Cut(line, mark)
		printed.WriteString(before)
		if !ended {
			continue
		}
		if status = strings.TrimSpace(status); status != "0" {
			return printed.String(), errors.New("exit status " + status + ": " + s.stderr.String())
		}
		return printed.String(), nil
	}
}
