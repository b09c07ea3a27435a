package doctor

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// kernelFloor has overlay mounts in user namespaces.
	kernelFloor = "5.13"
	// runscFloor is the date of the runsc that this build was tried with.
	runscFloor = "20260905"
	// idsNeeded is how many subordinate ids an image's users may need.
	idsNeeded = 65536
)

func (r *report) kernel(floor, lacks string) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		r.problem("kernel", err.Error(), "")
		return
	}
	release := unix.ByteSliceToString(u.Release[:])
	if Older(release, floor) {
		r.problem("kernel", release+" "+lacks, "a kernel of "+floor+" or later")
		return
	}
	r.ok("kernel", release)
}

// namespaces looks at what distributions use to forbid user namespaces.
func (r *report) namespaces() {
	read := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			return "" // not a knob of this kernel
		}
		return strings.TrimSpace(string(b))
	}
	switch {
	case read("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		r.problem("user namespaces", "forbidden to ordinary users", "sysctl -w kernel.unprivileged_userns_clone=1")
	case read("/proc/sys/user/max_user_namespaces") == "0":
		r.problem("user namespaces", "none allowed", "sysctl -w user.max_user_namespaces=28633")
	case read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		// What podman starts, runsc too, keeps podman's profile.
		if read("/etc/apparmor.d/podman") == "" {
			r.problem("user namespaces", "AppArmor forbids them to programs without a profile, and podman has none",
				"apt-get install --reinstall -o Dpkg::Options::=--force-confmiss apparmor, then systemctl reload apparmor")
			return
		}
		r.ok("user namespaces", "allowed to podman, by its AppArmor profile")
	default:
		r.ok("user namespaces", "allowed")
	}
}

func (r *report) subordinateIDs() {
	account, err := user.Lookup(r.PodmanUser)
	if err != nil {
		r.problem("podman user", err.Error(), r.setup())
		return
	}
	if account.Uid == "0" {
		r.problem("podman user", "is root: a sandbox that is broken out of would own the machine", "GLOVEBOX_PODMAN_USER=glovebox")
		return
	}
	for _, kind := range []string{"uid", "gid"} {
		file := "/etc/sub" + kind
		b, err := os.ReadFile(file)
		if err != nil {
			r.problem("subordinate ids", err.Error(), r.setup())
			return
		}
		if n := Subordinate(b, account.Username, account.Uid); n < idsNeeded {
			r.problem("subordinate ids", fmt.Sprintf("%s gives %s %d of them, %d are needed", file, account.Username, n, idsNeeded),
				fmt.Sprintf("usermod --add-sub%ss 200000-%d %s", kind, 200000+idsNeeded-1, account.Username))
			return
		}
		if _, err := exec.LookPath("new" + kind + "map"); err != nil {
			r.problem("subordinate ids", err.Error(), "apt-get install uidmap")
			return
		}
	}
	r.ok("subordinate ids", "of "+account.Username)
}

// Subordinate is how many ids a file such as /etc/subuid gives to a user.
func Subordinate(file []byte, name, id string) int {
	total := 0
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		f := strings.Split(lines.Text(), ":")
		if len(f) != 3 || f[0] != name && f[0] != id {
			continue
		}
		if n, err := strconv.Atoi(f[2]); err == nil && n > 0 {
			total += n
		}
	}
	return total
}

var runscDate = regexp.MustCompile(`\b(20\d{6})`)

// tools looks for what infra/setup.sh installs outside of packages.
func (r *report) tools(ctx context.Context) {
	runsc := filepath.Join(r.ToolsDir, "runsc")
	out, err := exec.CommandContext(ctx, runsc, "--version").Output()
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "runsc version "), "\n")
	date := runscDate.FindString(version)
	switch {
	case err != nil:
		r.problem("runsc", err.Error(), r.setup())
	case date == "":
		r.warning("runsc", fmt.Sprintf("%s: of no known date", version), r.setup())
	case date < runscFloor:
		r.warning("runsc", fmt.Sprintf("%s is older than the one that this Glovebox was tried with", version), r.setup())
	default:
		r.ok("runsc", version)
	}
	names := []string{"glovebox-runtime", "podman/containers.conf", "podman/storage.conf"}
	if !r.WorkerHost {
		names = append(names, "versitygw")
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(r.ToolsDir, name)); err != nil {
			r.problem("tools", err.Error(), r.setup())
		}
	}
}
