package infra

import (
	"os"
	"strings"
	"testing"
)

// packaged puts the maintainer scripts of glovebox-worker on a machine as the package has them,
// except that its files are where infra/worker-host.sh has them.
func packaged(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	text := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	included := strings.NewReplacer("#INCLUDE drain.sh\n", text("deb/drain.sh"), "#INCLUDE ../remove.sh\n", text("remove.sh"))
	for _, script := range []string{"preinst", "postinst", "prerm", "postrm"} {
		m.write("tree/"+script, included.Replace(text("deb/glovebox-worker."+script)))
	}
	m.write("tree/runsc-postinst", included.Replace(text("deb/glovebox-runsc.postinst")))
	m.write("tree/api-postrm", text("deb/glovebox.postrm"))
	m.write(lib+"sandbox-owner.sh", text("sandbox-owner.sh"))
	m.write(lib+"worker.env", text("settings/worker.env"))
	m.write(lib+"podman.sh", "#!/bin/sh\n")
	m.policy("0")
	return m
}

// policy has policy-rc.d, which says whether packages may start units, end with that status.
func (m *machine) policy(status string) {
	m.t.Helper()
	m.write("usr/sbin/policy-rc.d", "#!/bin/sh\nexit "+status+"\n")
}

// TestPackageInstall: an installation starts nothing, says what to do, and keeps what is filled in.
func TestPackageInstall(t *testing.T) {
	t.Parallel()
	m := packaged(t)
	m.write("etc/subuid", "")
	m.write("etc/subgid", "")
	m.run("./preinst", "install")
	out := m.run("./postinst", "configure", "")
	for _, want := range []string{"glovebox runtimes build", "/etc/glovebox/worker.env", "systemctl enable --now glovebox-worker"} {
		if !strings.Contains(out, want) {
			t.Errorf("it doesn't say %q:\n%s", want, out)
		}
	}
	asked := m.asked()
	if strings.Contains(asked, "start") || strings.Contains(asked, "enable") {
		t.Errorf("it starts or enables something:\n%s", asked)
	}
	for _, want := range []string{"systemctl --quiet mask user@", "usermod --add-subuids"} {
		if !strings.Contains(asked, want) {
			t.Errorf("it didn't call %q:\n%s", want, asked)
		}
	}
	if info, err := os.Stat(m.upper("etc/glovebox/worker.env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("worker.env: %v, %v, want mode 0600", info, err)
	}
	if deny := m.read("etc/cron.deny"); deny != "glovebox\n" {
		t.Errorf("cron.deny is %q", deny)
	}

	m.write("etc/glovebox/worker.env", "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
	out = m.run("./postinst", "configure", "0.1.0-1")
	if got := m.read("etc/glovebox/worker.env"); got != "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n" {
		t.Errorf("after another version was installed, worker.env is %q", got)
	}
	if deny := m.read("etc/cron.deny"); deny != "glovebox\n" {
		t.Errorf("after another version was installed, cron.deny is %q", deny)
	}
	if strings.Contains(out, "Next") {
		t.Errorf("it says what to do next where nothing is to be done:\n%s", out)
	}

	m.run("./prerm", "remove")
	if !strings.Contains(m.asked(), "systemctl --quiet --now disable glovebox-worker.service") {
		t.Errorf("a removal doesn't stop the worker:\n%s", m.asked())
	}
	m.run("./postrm", "remove")
	if m.read("etc/glovebox/worker.env") == "" {
		t.Error("a removal takes the settings away")
	}
}

// TestPackageUpgrade: a worker that runs is drained before any of its files is replaced, and
// started again after; one that doesn't run is left alone.
func TestPackageUpgrade(t *testing.T) {
	t.Parallel()
	m := packaged(t)
	m.run("./prerm", "upgrade", "0.2.0-1")
	if !strings.Contains(m.asked(), "systemctl stop glovebox-worker.service glovebox-podman.socket glovebox-podman.service") {
		t.Fatalf("it doesn't drain the worker:\n%s", m.asked())
	}
	m.run("./postinst", "configure", "0.1.0-1")
	if !strings.Contains(m.asked(), "systemctl start glovebox-worker.service") {
		t.Errorf("it doesn't start the worker that it drained:\n%s", m.asked())
	}
	m.run("./postinst", "configure", "0.1.0-1")
	if strings.Contains(m.asked(), "start glovebox-worker") {
		t.Errorf("it starts a worker once more:\n%s", m.asked())
	}

	// An interrupted drain goes on, and what waits for its restart isn't active, either.
	for _, c := range []struct {
		state, job string
		disabled   bool
		stays      bool // away
	}{
		{"deactivating", "stop", false, false},
		{"activating", "", false, false},
		{"deactivating", "stop", true, true},
		{"deactivating", "restart", true, false},
		{"deactivating", "", true, false}, // it has ended by itself
	} {
		enabled, jobs := "exit 0", ""
		if c.disabled {
			enabled = "exit 1"
		}
		if c.job != "" {
			jobs = "1234 glovebox-worker.service " + c.job + " running"
		}
		m.stub("systemctl", `case "$*" in *is-active*) echo `+c.state+`; exit 3 ;; *is-enabled*) `+enabled+` ;; *list-jobs*) echo "`+jobs+`" ;; esac`)
		m.run("./prerm", "upgrade", "0.2.0-1")
		if !strings.Contains(m.asked(), "systemctl stop glovebox-worker.service") {
			t.Errorf("%+v: it doesn't wait for the worker's end:\n%s", c, m.asked())
		}
		m.run("./postinst", "configure", "0.1.0-1")
		if starts := strings.Contains(m.asked(), "start glovebox-worker"); starts == c.stays {
			t.Errorf("%+v: it starts the worker that it drained: %t\n%s", c, starts, m.asked())
		}
	}

	m.stub("systemctl", `case "$*" in *is-active*) echo inactive; exit 3 ;; esac`)
	m.run("./prerm", "upgrade", "0.2.0-1")
	m.run("./postinst", "configure", "0.1.0-1")
	if strings.Contains(m.asked(), "start glovebox-worker") {
		t.Errorf("it starts a worker that didn't run:\n%s", m.asked())
	}
}

// TestPackageUpgradeByPolicy: where policy-rc.d forbids a start, the packages leave the worker that they drained
// stopped, and say so.
func TestPackageUpgradeByPolicy(t *testing.T) {
	t.Parallel()
	m := packaged(t)
	for _, postinst := range []string{"./postinst", "./runsc-postinst"} {
		for status, starts := range map[string]bool{"0": true, "104": true, "101": false} {
			m.policy(status)
			m.run("./prerm", "upgrade", "0.2.0-1")
			out := m.run(postinst, "configure", "0.1.0-1")
			if strings.Contains(m.asked(), "systemctl start glovebox-worker.service") != starts || strings.Contains(out, "to do     the worker ran and was stopped") == starts {
				t.Errorf("%s, policy-rc.d %s: want the worker started: %v, got\n%s\n%s", postinst, status, starts, m.asked(), out)
			}
		}
	}
}

// TestPackageBesideWorkerHost: systemd would take the units of worker-host.sh for the package's.
func TestPackageBesideWorkerHost(t *testing.T) {
	t.Parallel()
	m := packaged(t)
	m.write("etc/systemd/system/glovebox-podman.service", "[Service]\n")
	if out, err := m.try("./preinst", "install"); err == nil || !strings.Contains(out, "systemctl disable --now") ||
		!strings.Contains(out, " /usr/local/lib/glovebox ") {
		t.Errorf("got %v, want a refusal that says what to do:\n%s", err, out)
	}
}

// TestPurgeBesideWorkerHost: a purge leaves what worker-host.sh has installed since the package was removed.
func TestPurgeBesideWorkerHost(t *testing.T) {
	t.Parallel()
	m := packaged(t)
	m.write("etc/glovebox/worker.env", "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
	m.write("etc/systemd/system/glovebox-podman.service", "[Service]\n")
	out, err := m.try("./postrm", "purge")
	if err != nil || !strings.Contains(out, "infra/worker-host.sh") {
		t.Errorf("got %v, want it to say what it keeps:\n%s", err, out)
	}
	if m.read("etc/glovebox/worker.env") == "" {
		t.Error("it takes the settings away")
	}
	m.write("etc/glovebox/api.env", "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
	m.write("etc/systemd/system/glovebox-api.service", "[Service]\n")
	if out := m.run("./api-postrm", "purge"); !strings.Contains(out, "kept      settings: infra/worker-host.sh") || m.read("etc/glovebox/api.env") == "" {
		t.Errorf("want the api's settings kept, and that said:\n%s", out)
	}
}

// TestPurgeKeeps: a purge deletes the package's own settings, and says which other files it keeps.
func TestPurgeKeeps(t *testing.T) {
	t.Parallel()
	m := packaged(t)
	const says = "kept      /etc/glovebox, for what is not the package's:"
	for _, name := range []string{"worker.env", "images", "api.env"} {
		m.write("etc/glovebox/"+name, "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
	}
	purge := m.onData("/run/volume", "./postrm purge")
	if out := m.run(purge...); strings.Contains(out, says) || m.read("etc/glovebox/worker.env")+m.read("etc/glovebox/images") != "" || m.read("etc/glovebox/api.env") == "" {
		t.Errorf("want the worker's settings gone, and the api's left to its package:\n%s", out)
	}
	m.write("etc/glovebox/operator.env", "GLOVEBOX_REDIS_URL=redis://127.0.0.1\n")
	for _, command := range [][]string{purge, {"./api-postrm", "purge"}} {
		if out := m.run(command...); !strings.Contains(out, says+" operator.env\n") || m.read("etc/glovebox/operator.env") == "" {
			t.Errorf("%s: want operator.env kept, and that said:\n%s", command[0], out)
		}
	}
	if m.read("etc/glovebox/api.env") != "" {
		t.Error("the api's settings stay")
	}
}

// TestPurgeMounted: images in a volume of their own keep no purge from its end.
func TestPurgeMounted(t *testing.T) {
	t.Parallel()
	m := packaged(t)
	m.stub("userdel", "")
	m.stub("getent", `case $2 in glovebox) echo x:x:0:0::/var/lib/glovebox: ;; *) echo x:x:0:0::/nonexistent: ;; esac`)
	out := m.run(m.onData("/var/lib/glovebox", "./postrm purge")...)
	if !strings.Contains(out, "to do     /var/lib/glovebox is a mount point") || strings.Contains(out, "left: /var/lib/glovebox/") {
		t.Errorf("want the mount point said, and empty:\n%s", out)
	}
	for _, user := range []string{"glovebox", "glovebox-worker"} {
		if !strings.Contains(m.asked(), "userdel "+user+"\n") {
			t.Errorf("the user %s stays, asked was\n%s", user, m.asked())
		}
	}
}

// TestArchiveOfRelease: where a release's archive has no images, they are built on the host, by the
// glovebox that the archive has.
func TestArchiveOfRelease(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.pack("x")
	if err := os.RemoveAll(m.upper("tree/pack/images")); err != nil {
		t.Fatal(err)
	}
	m.write("tree/pack/bin/glovebox", "#!/bin/sh\necho \"glovebox $*\"\n")
	m.stub("dpkg-query", `case "$*" in *mmdebstrap*) echo not-installed ;; *) echo installed ;; esac`)
	out := m.run("infra/worker-host.sh", "--from", "pack")
	if !strings.Contains(out, "glovebox runtimes build") {
		t.Errorf("no image is built:\n%s", out)
	}
	if !strings.Contains(m.asked(), "install mmdebstrap") {
		t.Errorf("mmdebstrap isn't installed:\n%s", m.asked())
	}
}
