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
	"sync"
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

// orphanReaper finds and kills the sandboxes that Podman has forgotten.
type orphanReaper struct {
	service *service
	age     time.Duration // how long Podman may know nothing of a sandbox

	mu        sync.Mutex           // held while it reaps
	forgotten map[orphan]time.Time // since when Podman knows nothing of them
}

// reap kills sandboxes that Podman has forgotten: a service that is killed while it
// makes one can leave it unknown to everybody. They are found by their processes, so only where
// the worker is Podman's user; elsewhere reapCgroups finds those that have a cgroup.
func (r *orphanReaper) reap(ctx context.Context) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, err := r.find()
	if err != nil || len(found) == 0 {
		return 0, err
	}
	// After the processes, so that what is made meanwhile is not among them.
	known, err := r.service.known(ctx)
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
		since, seen := r.forgotten[c]
		if !seen {
			since = time.Now()
		}
		forgotten[c] = since
		if time.Since(since) < r.age {
			continue
		}
		if err := r.kill(ctx, c); err != nil {
			errs = append(errs, fmt.Errorf("kill forgotten sandbox %s: %w", c.container, err))
			continue
		}
		killed++
		r.service.log.Warn("killed a sandbox that podman had forgotten", "container", c.container)
	}
	r.forgotten = forgotten
	return killed, errors.Join(errs...)
}

// find lists possible orphans: this user's conmons whose container is Glovebox's, runs on our
// OCI runtime and lies in the store of our service, and the sandboxes in that store that have no
// conmon any more. Whoever made those, nobody waits for their end.
func (r *orphanReaper) find() ([]orphan, error) {
	var found, sandboxes []orphan
	watched := map[string]bool{}
	err := eachProcess(func(pid int, argv []string) {
		if filepath.Base(argv[0]) == "conmon" {
			watched[conmonFlags(argv)["-c"]] = true
		}
		if s, ok := r.parseConmon(pid, argv); ok {
			found = append(found, s)
		}
		if s, ok := r.parseSandbox(pid, argv); ok {
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
func (r *orphanReaper) parseConmon(pid int, argv []string) (orphan, bool) {
	if filepath.Base(argv[0]) != "conmon" {
		return orphan{}, false
	}
	flags := conmonFlags(argv)
	id := flags["-c"]
	ours := containerID.MatchString(id) && strings.HasPrefix(flags["-n"], namePrefix) && flags["-r"] == r.service.ociPath && flags["-b"] == r.service.bundle(id)
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
func (r *orphanReaper) parseSandbox(pid int, argv []string) (orphan, bool) {
	id := argv[len(argv)-1]
	ours := argv[0] == sandboxProcess && containerID.MatchString(id) && slices.Contains(argv, "--bundle="+r.service.bundle(id))
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

// kill deletes the sandbox as Podman would, then ends what is left of it.
func (r *orphanReaper) kill(ctx context.Context, s orphan) error {
	remove := exec.CommandContext(ctx, r.service.ociPath, "delete", "--force", s.container)
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
		if r.partOf(s, pid, argv) {
			err = errors.Join(err, r.killProcess(s, pid))
		}
	}); scanErr != nil {
		return errors.Join(err, scanErr)
	}
	return errors.Join(err, r.service.removeOnce(ctx, s.container))
}

// partOf reports whether a process is the sandbox's, its gofer or its conmon.
func (r *orphanReaper) partOf(s orphan, pid int, argv []string) bool {
	if found, ok := r.parseConmon(pid, argv); ok {
		return found == s
	}
	name := argv[0]
	return (name == sandboxProcess || name == goferProcess) && slices.Contains(argv, s.container)
}

// killProcess kills a process of the sandbox, and no other that has got its id since.
func (r *orphanReaper) killProcess(s orphan, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if argv := arguments(pid); len(argv) == 0 || !r.partOf(s, pid, argv) {
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
