package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// readVersion is the version of runsc whose `start` is repeated here. A sandbox of another
// version is started by runsc itself.
const readVersion = "v0.0.0-20260905035102-160fafc42237"

// What runsc says to a sandbox as it starts it with --network=none.
const (
	setNetwork = `{"method":"containerManager.SetNetworkArgs","arg":{"LoopbackLinks":[{"Name":"lo",` +
		`"Addresses":[{"Address":"127.0.0.1","PrefixLen":8},{"Address":"::1","PrefixLen":128}],` +
		`"Routes":[{"Destination":{"IP":"127.0.0.0","Mask":"/wAAAA=="}},{"Destination":{"IP":"::1","Mask":"/////////////////////w=="}}]}]}}`
	startRoot = `{"method":"containerManager.StartRoot","arg":%q}`
	// restoreRoot goes with three files, a snapshot's state, its list of pages, and its pages; or
	// with one that has all of them.
	restoreRoot = `{"method":"containerManager.Restore","arg":{"HavePagesFile":%t}}`
)

// pathOnly is O_PATH, which the package syscall lacks.
const pathOnly = 0x200000

// maxAnswer is more than a sandbox ever answers, bytes.
const maxAnswer = 64 << 10

// start starts a sandbox that was created, as `runsc start` does, without the start of runsc
// itself, which is most of that command's cost. sent says that the sandbox was told to start;
// until then an error leaves the start to runsc.
func start(runsc string, argv []string, id string) (sent bool, err error) {
	lock, err := lockState(argv, id)
	if err != nil {
		return false, err
	}
	defer lock.Close()
	s, err := loadState(argv, id)
	if err != nil {
		return false, err
	}
	known := s.Sandbox.Metadata
	if s.Status != "created" || s.Sandbox.Socket == "" || known.Version != readVersion || known.Network != "none" || !isNull(s.Spec.Process.OOMScoreAdj) {
		return false, errUnusual
	}
	how, err := askHow(runsc, s, id)
	if err != nil {
		return true, err // runsc would start it in the usual way, which is not what its worker waits for
	}
	defer how.close()
	socket, err := connect(s.Sandbox.Socket, 0)
	if err != nil {
		return how.special(), err
	}
	sandbox := os.NewFile(uintptr(socket), s.Sandbox.Socket)
	defer sandbox.Close()
	if err := call(sandbox, setNetwork); err != nil {
		return how.special(), err
	}
	if how.snapshot != nil {
		err = call(sandbox, fmt.Sprintf(restoreRoot, len(how.snapshot) == 3), how.snapshot...)
	} else {
		err = call(sandbox, fmt.Sprintf(startRoot, id))
	}
	if err != nil {
		return true, fmt.Errorf("start sandbox: %w", err)
	}
	if err := markRunning(stateFile(argv, id)); err != nil {
		return true, err
	}
	return true, how.handOver(sandbox, s.Sandbox.Socket)
}

// connect opens a unix socket, of which each step may take so many seconds, 0 for any time. (Package net
// would do much more, at each start of this program.)
func connect(path string, timeout int64) (socket int, err error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("make socket: %w", err)
	}
	for _, option := range []int{syscall.SO_RCVTIMEO, syscall.SO_SNDTIMEO} {
		err = errors.Join(err, syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, option, &syscall.Timeval{Sec: timeout}))
	}
	// A socket's path may be too long for connect(2).
	file, openErr := syscall.Open(path, pathOnly|syscall.O_CLOEXEC, 0)
	if err = errors.Join(err, openErr); openErr == nil {
		to := &syscall.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d", file)}
		err = errors.Join(err, uninterrupted(func() error { return syscall.Connect(fd, to) }), syscall.Close(file))
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("connect to %s: %w", path, err), syscall.Close(fd))
	}
	return fd, nil
}

// call sends a call to the sandbox, with files, and waits for its answer.
func call(sandbox *os.File, message string, files ...int) error {
	var rights []byte
	if len(files) > 0 {
		rights = syscall.UnixRights(files...)
	}
	err := uninterrupted(func() error { return syscall.Sendmsg(int(sandbox.Fd()), []byte(message), rights, nil, 0) })
	if err != nil {
		return fmt.Errorf("call sandbox: %w", err)
	}
	var answer struct {
		Success bool   `json:"success"`
		Err     string `json:"err"`
	}
	if err := json.NewDecoder(io.LimitReader(sandbox, maxAnswer)).Decode(&answer); err != nil {
		return fmt.Errorf("read the sandbox's answer: %w", err)
	}
	if !answer.Success {
		why, _, _ := strings.Cut(strings.TrimSpace(answer.Err), "\n") // what follows is where in gVisor it was
		return fmt.Errorf("the sandbox refused: %.500s", why)
	}
	return nil
}

// markRunning changes nothing but the status in a state file.
func markRunning(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read state: %w", err)
	}
	if b, err = withFields(b, map[string]any{"status": "running"}); err != nil {
		return fmt.Errorf("note that the sandbox runs: %w", err)
	}
	if err := os.WriteFile(file, b, 0o640); err != nil {
		return fmt.Errorf("note that the sandbox runs: %w", err)
	}
	return nil
}
