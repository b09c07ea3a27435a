//go:build failpoint

package failpoint

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var passed atomic.Bool

// Hit stops the process when GLOVEBOX_FAILPOINT names this step, once.
func Hit(name string) {
	parts := strings.SplitN(os.Getenv("GLOVEBOX_FAILPOINT"), ":", 3)
	if len(parts) != 3 || parts[1] != name || passed.Load() {
		return
	}
	file := parts[2]
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if os.IsExist(err) {
		return
	}
	if err != nil {
		panic("failpoint: " + err.Error())
	}
	f.Close()
	passed.Store(true)
	if parts[0] == "kill" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	for exists(file) {
		time.Sleep(5 * time.Millisecond)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
