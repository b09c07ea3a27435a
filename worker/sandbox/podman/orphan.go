package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphan is a process that Podman may have forgotten with its container: conmon, of which it starts
// one for each container and which outlives it, or runsc's sandbox without a conmon.
type orphan struct {
	pid       int
	container string
	// root is runsc's directory of the sandbox's state; "" where conmon's environment tells.
	root string
}

// reapOrphans kills sandboxes that Podman has forgotten: a service that is killed while it
// makes one can leave it unknown to everybody. They are found by their processes, so only where
// the worker is Podman's user; elsewhere reapCgroups finds those that have a cgroup.
func (p *Sandboxes) reapOrphans(ctx context.Context) (int, error) {
	p.reaping.Lock()
	defer p.reaping.Unlock()
	found, err := p.orphans()
	if err != nil || len(found) == 0 {
		return 0, err
	}
	// After the processes, so that what is made meanwhile is not among them.
	known, err := p.known(ctx)
	if err != nil {
		return 0, err
	}
	forgotten := map[orphan]time.Time{}
	killed := 0
	var errs []error
	for _, c := range found {
		if known[c.container] {
			continue
		}
		since, seen := p.forgotten[c]
		if !seen {
			since = time.Now()
		}
		forgotten[c] = since
		if time.Since(since) < p.orphanAge {
			continue
		}
		if err := p.killOrphan(ctx, c); err != nil {
			errs = append(errs, fmt.Errorf("kill forgotten sandbox %s: %w", c.container, err))
			continue
		}
		killed++
		p.config.Log.Warn("killed a sandbox that podman had forgotten", "container", c.container)
	}
	p.forgotten = forgotten
	return killed, errors.Join(errs...)
}

// orphans lists the possible ones: this user's conmons whose container is Glovebox's, runs on our
// OCI runtime and lies in the store of our service, and the sandboxes in that store that have no
// conmon any more. Whoever made those, nobody waits for their end.
func (p *Sandboxes) orphans() ([]orphan, error) {
	var found, sandboxes []orphan
	watched := map[string]bool{}
	err := eachProcess(func(pid int, argv []string) {
		if filepath.Base(argv[0]) == "conmon" {
			watched[conmonFlags(argv)["-c"]] = true
		}
		if s, ok := p.parseConmon(pid, argv); ok {
			found = append(found, s)
		}
		if s, ok := p.parseSandbox(pid, argv); ok {
			sandboxes = append(sandboxes, s)
		}
	})
	for _, s := range sandboxes {
		if !watched[s.container] {
			found = append(found, s)
		}
	}
	return found, err
}

var containerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parseConmon reads conmon's arguments.
func (p *Sandboxes) parseConmon(pid int, argv []string) (orphan, bool) {
	if filepath.Base(argv[0]) != "conmon" {
		return orphan{}, false
	}
	flags := conmonFlags(argv)
	id := flags["-c"]
	ours := containerID.MatchString(id) && strings.HasPrefix(flags["-n"], namePrefix) && flags["-r"] == p.ociPath && flags["-b"] == p.bundle(id)
	return orphan{pid: pid, container: id}, ours
}

// conmonFlags returns conmon's flags, the first of each: later ones are arguments of its exit
// command.
func conmonFlags(argv []string) map[string]string {
	flags := map[string]string{}
	for i := 1; i+1 < len(argv); i++ {
		if _, again := flags[argv[i]]; !again {
			flags[argv[i]] = argv[i+1]
		}
	}
	return flags
}

// parseSandbox reads the arguments of runsc's sandbox.
func (p *Sandboxes) parseSandbox(pid int, argv []string) (orphan, bool) {
	id := argv[len(argv)-1]
	ours := argv[0] == sandboxProcess && containerID.MatchString(id) && slices.Contains(argv, "--bundle="+p.bundle(id))
	for _, arg := range argv {
		if root, ok := strings.CutPrefix(arg, "--root="); ok && ours {
			return orphan{pid, id, root}, true
		}
	}
	return orphan{}, false
}

// What runsc calls its two processes of a sandbox.
const (
	sandboxProcess = "runsc-sandbox"
	goferProcess   = "runsc-gofer"
)

// bundle is the directory that Podman gives the OCI runtime for a container.
func (p *Sandboxes) bundle(container string) string {
	return filepath.Join(p.graphRoot, "overlay-containers", container, "userdata")
}

// killOrphan deletes the sandbox as Podman would, then ends what is left of it.
func (p *Sandboxes) killOrphan(ctx context.Context, s orphan) error {
	remove := exec.CommandContext(ctx, p.ociPath, "delete", "--force", s.container)
	if s.root != "" {
		remove.Args = slices.Insert(remove.Args, 1, "--root="+s.root)
		remove.Env = []string{"PATH=" + os.Getenv("PATH")} // the worker's has secrets
	} else {
		// runsc finds its state by the environment that conmon has of the service.
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.pid))
		if err != nil {
			return fmt.Errorf("read conmon's environment: %w", err)
		}
		remove.Env = strings.Split(strings.TrimRight(string(env), "\x00"), "\x00")
	}
	out, err := remove.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("delete sandbox: %w: %.500s", err, out)
	}
	if scanErr := eachProcess(func(pid int, argv []string) {
		if p.partOf(s, pid, argv) {
			err = errors.Join(err, p.killProcess(s, pid))
		}
	}); scanErr != nil {
		return errors.Join(err, scanErr)
	}
	return errors.Join(err, p.removeOnce(ctx, s.container))
}

// partOf reports whether a process is the sandbox's, its gofer or its conmon.
func (p *Sandboxes) partOf(s orphan, pid int, argv []string) bool {
	if found, ok := p.parseConmon(pid, argv); ok {
		return found == s
	}
	name := argv[0]
	return (name == sandboxProcess || name == goferProcess) && slices.Contains(argv, s.container)
}

// killProcess kills a process of the sandbox, and no other that has got its id since.
func (p *Sandboxes) killProcess(s orphan, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if argv := arguments(pid); len(argv) == 0 || !p.partOf(s, pid, argv) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// eachProcess calls visit for each process of this user that has arguments.
func eachProcess(visit func(pid int, argv []string)) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		var stat unix.Stat_t
		if unix.Stat("/proc/"+entry.Name(), &stat) != nil || int(stat.Uid) != os.Getuid() {
			continue // it has ended, or is somebody else's
		}
		if argv := arguments(pid); len(argv) > 0 {
			visit(pid, argv)
		}
	}
	return nil
}

func arguments(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(b) == 0 {
		return nil // it has ended
	}
	return strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
}
