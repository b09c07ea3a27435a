package infra

import (
	"os"
	"path/filepath"
	"regexp"
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
		if testing.Short() && (name == "before a restart" || name == "at the restart") {
			continue // "at the restart of the api" is the same for another unit
		}
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

// TestUpgradeDrains: a worker is drained before the first of its programs is replaced; one whose programs stay goes on.
func TestUpgradeDrains(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write("etc/glovebox/worker.env", "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
	install := []string{"infra/worker-host.sh", "--from", "pack"}
	const drain = "systemctl stop glovebox-worker.service"
	m.stub("systemctl", `case "$*" in *is-active*) echo inactive; exit 3 ;; esac`)
	m.pack("one")
	m.run(install...)
	if strings.Contains(m.asked(), drain) {
		t.Error("it drains a worker that doesn't run")
	}
	m.stub("systemctl", `case "$*" in "stop glovebox-worker.service") cp /usr/local/lib/glovebox/glovebox-agent /run/drained ;; esac`)
	m.run(install...)
	if strings.Contains(m.asked(), drain) {
		t.Error("it drains a worker whose programs stay")
	}
	m.pack("two")
	m.run(install...)
	if agent, err := os.ReadFile(filepath.Join(m.dir, "run/drained")); err != nil || string(agent) != "one" {
		t.Errorf("as the worker is drained the agent is %q, %v, want the one from before", agent, err)
	}
	if asked := m.asked(); !strings.Contains(asked, "systemctl start glovebox-worker.service") && !strings.Contains(asked, "systemctl restart glovebox-worker.service") {
		t.Errorf("the new worker isn't started:\n%s", asked)
	}
}

// TestUpgradeDrainsLate: images, which take minutes, come before the worker is stopped, and where a run ends while it
// is, it says so.
func TestUpgradeDrainsLate(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write("etc/glovebox/worker.env", "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
	install := []string{"infra/worker-host.sh", "--from", "pack"}
	const drain, said = "systemctl stop glovebox-worker.service", "did not come to its end"
	m.pack("one")
	m.run(install...)
	m.worker("active", "")

	m.pack("two")
	m.stub("podman", `case "$*" in "image exists"*) [ -e /run/loaded ]; exit ;; load*) echo interrupted >&2; exit 1 ;; esac`+"\n"+stubs["podman"])
	out, err := m.try(install...)
	if err == nil || !strings.Contains(out, "interrupted") {
		t.Fatalf("the images are loaded: %v\n%s", err, out)
	}
	if strings.Contains(m.asked(), drain) || strings.Contains(out, said) {
		t.Errorf("where images can't be loaded, the worker is stopped:\n%s\n%s", m.asked(), out)
	}

	m.stub("podman", `case "$*" in "image exists"*) [ -e /run/loaded ]; exit ;; load*) touch /run/loaded ;; info*) echo interrupted >&2; exit 1 ;; esac`+"\n"+stubs["podman"])
	out, err = m.try(install...)
	if err == nil || !strings.Contains(out, "interrupted") {
		t.Fatalf("podman info didn't fail: %v\n%s", err, out)
	}
	if want := "glovebox-worker is inactive"; !strings.Contains(out, want) {
		t.Errorf("want %q in\n%s", want, out)
	}
	load, stop := strings.Index(m.asked(), "podman load"), strings.Index(m.asked(), drain)
	if load < 0 || stop < load {
		t.Errorf("images come at %d, the stop at %d, of\n%s", load, stop, m.asked())
	}

	m.stub("podman", stubs["podman"])
	if out := m.run(install...); strings.Contains(out, said) {
		t.Errorf("a run that came to its end says\n%s", out)
	}
}

// TestUpgradeDrainInterrupted: a worker that is still stopping, as the drain before was interrupted, is waited for, and
// so is one that is about to be restarted.
func TestUpgradeDrainInterrupted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.write("etc/glovebox/worker.env", "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
	install := []string{"infra/worker-host.sh", "--from", "pack"}
	m.pack("one")
	m.worker("inactive", "")
	m.run(install...)

	// The stop goes on where whoever asked for it is interrupted.
	m.pack("two")
	m.worker("active", `case "$*" in "stop glovebox-worker.service") echo deactivating >/run/state; kill -INT $PPID $$ ;; esac`)
	out, err := m.try(install...)
	if want := "glovebox-worker is deactivating"; err == nil || !strings.Contains(out, want) {
		t.Fatalf("interrupted, got %v, want %q in\n%s", err, want, out)
	}
	content := "one"
	for _, state := range []string{"deactivating", "activating"} {
		m.worker(state, "")
		m.pack(state)
		m.run(install...)
		if agent, err := os.ReadFile(filepath.Join(m.dir, "run/drained")); err != nil || string(agent) != content {
			t.Errorf("%s: as the worker is drained the agent is %q, %v, want %q", state, agent, err, content)
		}
		if !regexp.MustCompile(`systemctl (re)?start glovebox-worker\.service`).MatchString(m.asked()) {
			t.Errorf("%s: the new worker isn't started:\n%s", state, m.asked())
		}
		content = state
	}
}

// worker has the machine's worker in that state, as systemctl calls it, until it is stopped; first is what systemctl does before.
func (m *machine) worker(state, first string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, "run/state"), []byte(state+"\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.stub("systemctl", first+`
case "$*" in
*"is-active glovebox-worker.service") [ "$1" = --quiet ] || cat /run/state; grep -qx active /run/state; exit ;;
"stop glovebox-worker.service") cp /usr/local/lib/glovebox/glovebox-agent /run/drained; echo inactive >/run/state ;;
esac`)
}

// TestPackOfUnknownRuntime: a name that no runtime has is refused before anything is packed.
func TestPackOfUnknownRuntime(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.stub("make", "")
	m.write(lib+"runsc", "runsc")
	for _, name := range []string{"glovebox-worker", "glovebox-runtime", "glovebox-agent"} {
		m.write("tree/bin/"+name, name)
	}
	m.write("tree/bin/glovebox", `#!/bin/bash
printf 'RUNTIME VERSION CORE BUILT IMAGE\nbash 5.2 yes yes glovebox/bash:1\npython 3.13 yes yes glovebox/python:1\nrust 1.85 no no glovebox/rust:1\n'`)
	packed := func() []string {
		images, err := filepath.Glob(filepath.Join(m.dir, "run/pack/images/*"))
		if err != nil {
			t.Fatal(err)
		}
		return images
	}

	out, err := m.try("infra/worker-host.sh", "--pack", "/run/pack", "bash", "pyton")
	if err == nil || !strings.Contains(out, "pyton") || !strings.Contains(out, "bash python rust") {
		t.Errorf("got %v, want a failure that names pyton and what there is:\n%s", err, out)
	}
	if images := packed(); len(images) > 0 {
		t.Errorf("it packed %q", images)
	}

	m.run("infra/worker-host.sh", "--pack", "/run/pack", "bash")
	if images := packed(); len(images) != 1 || filepath.Base(images[0]) != "bash-1234.tar" {
		t.Errorf("bash alone: it packed %q", images)
	}
	m.run("infra/worker-host.sh", "--pack", "/run/pack")
	if images := packed(); len(images) != 2 {
		t.Errorf("all that are built: it packed %q", images)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "run/pack/bin/glovebox")); err != nil {
		t.Error(err)
	}
}
