package worker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// storeMB is what a store without images of its own has plenty of room in.
const storeMB = 32

func TestDiskOfPodmanIsFull(t *testing.T) {
	t.Parallel()
	p := gbtest.PodmanOfItsOwn(t, storeMB)
	g := startOn(t, p.PodmanService, nil)
	g.endure(p.Fill, p.Empty)
	g.says("no space left on device")
}

func TestRunscIsMissing(t *testing.T) {
	t.Parallel()
	p := gbtest.PodmanOfItsOwn(t, storeMB)
	g := startOn(t, p.PodmanService, nil)
	runsc := filepath.Join(p.Lib, "runsc")
	g.endure(func() { rename(t, runsc, runsc+".away") }, func() { rename(t, runsc+".away", runsc) })
	g.says("runsc: no such file or directory")
}

// pretender is an OCI runtime that runs the agent on the host's kernel and says that it
// is runsc.
const pretender = `#!/bin/sh
echo "$*" >>AT/asked
until case "$1" in --version | create | start | state | kill | delete | '') true ;; *) false ;; esac; do shift; done
command=$1; shift
for id; do :; done
case $command in
--version) echo runsc version v1; echo spec: 1.2.1 ;;
create)
	while [ $# -gt 0 ]; do case $1 in --pid-file) pidfile=$2 ;; --pid-file=*) pidfile=${1#*=} ;; esac; shift; done
	{ until [ -e AT/$id.go ]; do sleep 0.05; done; exec AGENT; } &
	echo $! >AT/$id.pid; cp AT/$id.pid "$pidfile" ;;
start) touch AT/$id.go ;;
state) echo "{\"ociVersion\":\"1.0.0\",\"id\":\"$id\",\"pid\":$(cat AT/$id.pid),\"status\":\"running\",\"bundle\":\"/\"}" ;;
kill) for id; do kill -9 $(cat AT/$id.pid) 2>/dev/null && exit; done ;;
delete) kill -9 $(cat AT/$id.pid) 2>/dev/null; rm -f AT/$id.* ;;
esac
exit 0
`

// TestRunscIsReplaced: what lies where runsc was makes no sandbox and says that it does.
// No job may run in it.
func TestRunscIsReplaced(t *testing.T) {
	t.Parallel()
	p := gbtest.PodmanOfItsOwn(t, storeMB)
	agent := agentPath(t)
	g := startOn(t, p.PodmanService, nil)
	dir := t.TempDir()
	runsc := filepath.Join(p.Lib, "runsc")
	g.endure(func() {
		rename(t, runsc, runsc+".away")
		script := strings.NewReplacer("AT", dir, "AGENT", agent).Replace(pretender)
		if err := os.WriteFile(runsc, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}, func() { rename(t, runsc+".away", runsc) })
	g.says("the kernel is not gVisor")
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil || !strings.Contains(string(asked), " start ") {
		t.Errorf("what pretends to be runsc was never asked to start a sandbox: %v %s", err, asked)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
