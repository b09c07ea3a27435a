package main

import (
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestInterruptWaits: no interrupt is sent before the code was read, nor as long as the interpreter masks them; then one is, and the interpreter goes on.
func TestInterruptWaits(t *testing.T) {
	t.Parallel()
	ours, theirs, err := newControl()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `trap 'echo interrupted; exit 0' INT; echo ready; while :; do sleep 0.01; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	begun := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, begun); err != nil {
		t.Fatal(err)
	}
	i := newInterpreter(ours)
	i.pid = cmd.Process.Pid
	told := i.tell([]byte("code"))
	shows := make(chan struct{})
	answer := i.hear(told, &shown{send: func([]byte) error { <-shows; return nil }})
	if i.interrupt() {
		t.Error("one was sent that had not read its code")
	}
	if _, err := theirs.Read(make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	say := func(word string) {
		t.Helper()
		if _, err := io.WriteString(theirs, "\x00"+told.token+" "+word+"\x00"); err != nil {
			t.Fatal(err)
		}
	}
	say(maskWord)
	gbtest.Eventually(t, "it is heard", i.masked.Load)
	if i.interrupt() {
		t.Error("one was sent though they are masked")
	}
	say(unmaskWord)
	gbtest.Eventually(t, "it is heard", func() bool { return !i.masked.Load() })
	say("{}")
	say(maskWord)
	if i.interrupt() {
		t.Error("one was sent though what was said is not heard yet")
	}
	say(unmaskWord)
	close(shows)
	gbtest.Eventually(t, "it was sent", i.interrupt)
	rest, err := io.ReadAll(out)
	if err != nil || strings.TrimSpace(string(rest)) != "interrupted" {
		t.Errorf("got %q, %v", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	say("3")
	if code := <-answer; code != 3 {
		t.Errorf("got the answer %d", code)
	}
	i.finish(true)
}
