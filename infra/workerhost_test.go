package infra

import (
	"strings"
	"testing"
)

// TestUpgradeThatWasInterrupted: what an upgrade has left undone is done by the next run,
// wherever it stopped.
func TestUpgradeThatWasInterrupted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ command, fails, restarts string }{
		"in setup.sh":               {"podman", "info*", "glovebox-podman.service"},
		"before a restart":          {"systemctl", "daemon-reload", "glovebox-podman.service"},
		"at the restart":            {"systemctl", "restart*", "glovebox-podman.service"},
		"at the restart of the api": {"systemctl", "restart*api*", "glovebox-api.service"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			for _, file := range []string{"worker.env", "api.env"} {
				m.write("etc/glovebox/"+file, "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
			}
			install := []string{"infra/worker-host.sh", "--from", "pack", "--api"}
			m.pack("one")
			m.run(install...)

			m.pack("two")
			m.stub(c.command, "case \"$*\" in "+c.fails+") echo interrupted >&2; exit 1 ;; esac\n"+stubs[c.command])
			if out, err := m.try(install...); err == nil || !strings.Contains(out, "interrupted") {
				t.Fatalf("it was not interrupted: %v\n%s", err, out)
			}
			m.stub(c.command, stubs[c.command])
			if out := m.run(install...); !strings.Contains(m.asked(), "systemctl restart "+c.restarts) {
				t.Errorf("the next run doesn't restart %s, it said\n%s", c.restarts, out)
			}
			if got := m.read("usr/local/bin/glovebox-worker"); got != "two" {
				t.Errorf("the worker is %q", got)
			}
			if out := m.run(install...); strings.Contains(m.asked(), "systemctl restart") {
				t.Errorf("a run that changes nothing restarts, and said\n%s", out)
			}
		})
	}
}
