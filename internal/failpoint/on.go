//go:build failpoint

package failpoint

import (
	"os"
	"strings"
	"syscall"
)

// Hit kills the process when GLOVEBOX_FAILPOINT names this step and its file is not there yet.
func Hit(name string) {
	want, file, ok := strings.Cut(os.Getenv("GLOVEBOX_FAILPOINT"), ":")
	if !ok || want != name {
		return
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if os.IsExist(err) {
		return
	}
	if err != nil {
		panic("failpoint: " + err.Error())
	}
	f.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
