package runtimes_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestInterruptBeforeFirstPiece: Python bears an interrupt as it reads its first piece. The agent sends one once the piece has left the socket.
func TestInterruptBeforeFirstPiece(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "python3")
	driver, err := os.ReadFile("python/session.py")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, its := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "its")
	defer ours.Close()
	var stderr bytes.Buffer
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, os.Interrupt) // a shell's background job would hand down that it ignores them
	defer signal.Stop(caught)
	cmd := exec.CommandContext(t.Context(), "python3", "-c", string(driver))
	cmd.Stderr, cmd.ExtraFiles = &stderr, []*os.File{nil, nil, its} // descriptor 5
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	its.Close()
	gbtest.Eventually(t, "it waits for its first piece", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", cmd.Process.Pid))
		return err == nil && strings.HasPrefix(string(b), fmt.Sprintf("%d 0x5 ", unix.SYS_READ))
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.WriteString("token\nraise SystemExit(7)\x00"); err != nil {
		t.Fatal(err)
	}
	_ = ours.SetReadDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(ours)
	_, _ = r.ReadString(0)
	if got, err := r.ReadString(0); got != "token 7\x00" {
		t.Errorf("got %q, %v", got, err)
	}
	ours.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends by %v: %s", err, &stderr)
	}
}
