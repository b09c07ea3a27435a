package podman_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestRecycledContainers: a container has one sandbox after another, each of which knows
// nothing of the last; at the end none is left (keepWarm looks).
func TestRecycledContainers(t *testing.T) {
	t.Parallel()
	const worker, runs, most = "recycled", 12, 40
	p := warm(t, worker, 1)
	// Everything that a program could leave something in, and what tells sandboxes apart.
	const source = `import os
seen = []
for dir in ('/', '/work', '/tmp', '/dev/shm', '/run', '/etc', '/var/tmp', '/root', '/home', '/usr/bin'):
    path = os.path.join(dir, 'left')
    if os.path.lexists(path): seen.append(path)
    try: open(path, 'w').write('x')
    except OSError: pass
os.system('sleep 100 & exec 2>/dev/null; echo 1 > /proc/sys/vm/overcommit_memory; hostname left; umask 077')
print(seen, os.uname().nodename, len([p for p in os.listdir('/proc') if p.isdigit()]) < 8, open('/proc/uptime').read().split()[0])
`
	used := map[string]int{}
	n := 0
	for ; n < runs || n-len(used) < 2 && n < most; n++ {
		awaitWarm(t, p, 1)
		for _, id := range containersOf(t, worker) {
			used[id]++
		}
		sink := &kept{}
		o, err := p.Run(t.Context(), programOf(source), sink)
		if err != nil || o.Status != job.Succeeded {
			t.Fatalf("run %d: %+v, %v: %s", n, o, err, sink.stderr.String())
		}
		f := strings.Fields(sink.stdout.String())
		if len(f) != 4 || !slices.Equal(f[:3], []string{"[]", "glovebox", "True"}) {
			t.Errorf("run %d: got %q, want nothing of another's", n, sink.stdout.String())
		}
	}
	t.Logf("%d containers for %d sandboxes", len(used), n)
	if n-len(used) < 2 {
		t.Errorf("%d containers for %d sandboxes: they should have been used again", len(used), n)
	}
}

// TestRecycledWhileItRuns: a container whose sandbox was made to stay is given to nobody.
func TestRecycledWhileItRuns(t *testing.T) {
	t.Parallel()
	p := warm(t, "recycled-runs", 1)
	if err := p.LaunchTwice(t.Context(), suite.image); err == nil || !strings.Contains(err.Error(), "podman made no sandbox") {
		t.Errorf("got %v, want a refusal", err)
	}
	// Nothing of that disturbs the next program.
	if o, err := p.Run(t.Context(), programOf("print('ok')"), &kept{}); err != nil || o.Status != job.Succeeded {
		t.Errorf("after that: got %+v, %v", o, err)
	}
}
