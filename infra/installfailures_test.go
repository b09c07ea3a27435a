package infra

import (
	"crypto/md5" //nolint:gosec // dpkg's own sums
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstallRefuses: what can't be is said before anything is changed.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		args    string
		prepare func(m *machine)
	}{
		"listens on port 8437":      {"", func(m *machine) { m.stub("ss", "echo LISTEN") }},
		"one of several":            {"", func(m *machine) { m.write("etc/glovebox/worker.env", "GLOVEBOX_REDIS_URL=redis://elsewhere\n") }},
		"Debian 12 and 13":          {"", func(m *machine) { m.write("etc/os-release", "ID=debian\nVERSION_ID=11\n") }},
		"as root":                   {"", func(m *machine) { m.stub("id", "echo 1000") }},
		"doesn't run systemd":       {"", func(m *machine) { os.RemoveAll(m.dir + "/run/systemd") }},
		"--domain is":               {"--domain 'a b'", nil},
		"--tls is":                  {"--domain a.example --tls none", nil},
		"--bucket and --region":     {"--bucket jobs", nil},
		"--purge is for":            {"--purge", nil},
		"less than 1800 MiB":        {"", func(m *machine) { m.stub("awk", "echo 1000") }},
		"/var has less than 8000 M": {"", func(m *machine) { m.stub("df", "echo Avail; echo 100") }},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			m := fresh(t)
			if c.prepare != nil {
				c.prepare(m)
			}
			out, err := m.try(install("install.sh " + c.args)...)
			if err == nil || !strings.Contains(out, want) {
				t.Errorf("got %v, want it refused with %q:\n%s", err, want, out)
			}
			if strings.Contains(m.asked(), "apt-get") || strings.Contains(m.asked(), "systemctl") || m.read("etc/glovebox/redis.conf") != "" {
				t.Errorf("it changed something: asked was\n%s", m.asked())
			}
		})
	}
}

// TestInstallRefusesStore: images that were stored on a machine for development are refused before anything is built or
// installed.
func TestInstallRefusesStore(t *testing.T) {
	t.Parallel()
	m := sourceTree(t)
	m.run("infra/setup.sh", "--no-images")
	for _, command := range []string{"infra/install.sh", "infra/worker-host.sh"} {
		out, err := m.try(command)
		if err == nil || !strings.Contains(out, "were stored for /run/user/0/containers") || !strings.Contains(out, "rm -rf /run/home/.local/share/glovebox") {
			t.Errorf("%s: got %v, want the images refused:\n%s", command, err, out)
		}
		if regexp.MustCompile(`(?m)^(apt-get|systemctl|go|make) `).MatchString(m.asked()) || m.read("etc/systemd/system/glovebox-podman.service") != "" {
			t.Errorf("%s: it changed something, asked was\n%s", command, m.asked())
		}
	}
	if err := os.RemoveAll(filepath.Join(m.dir, "run/home/.local")); err != nil {
		t.Fatal(err)
	}
	m.run("infra/install.sh")
}

// TestInstallHalf: a run that fails leaves no settings that the next one would keep.
func TestInstallHalf(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.write("tree/pack/lib/versitygw", "server")
	m.stub("openssl", `case $* in *-base64*) exit 1 ;; esac; exec /usr/bin/openssl "$@"`)
	if out, err := m.try(install("install.sh")...); err == nil {
		t.Errorf("without a secret it went on:\n%s", out)
	}
	for _, name := range []string{"api.env", "worker.env", "operator.env"} {
		if got := m.read("etc/glovebox/" + name); got != "" {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
	m.stub("openssl", `exec /usr/bin/openssl "$@"`)
	m.run(install("install.sh")...)
	for _, want := range []string{"api.env:GLOVEBOX_WEBHOOK_KEY=", "worker.env:GLOVEBOX_SIGNING_KEY=", "operator.env:GLOVEBOX_S3_SECRET_KEY="} {
		name, setting, _ := strings.Cut(want, ":")
		if !regexp.MustCompile(setting + `\S{44,64}\n`).MatchString(m.read("etc/glovebox/" + name)) {
			t.Errorf("want %s in %s", setting, name)
		}
	}
}

// TestInstallFullDisk: an upgrade for whose S3 server the disk has no room fails, and the old one goes on.
func TestInstallFullDisk(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.write("tree/pack/lib/versitygw", "server")
	m.run(install("install.sh")...)
	m.write("tree/pack/lib/versitygw", strings.Repeat("newer", 1<<19))
	upgrade := install("install.sh")
	upgrade[2] = `cp -a /usr/local/lib/glovebox /run/lib
mount -t tmpfs -o size=1m small /usr/local/lib/glovebox
cp -a /run/lib/. /usr/local/lib/glovebox && ` + upgrade[2]
	out, err := m.try(upgrade...)
	if err == nil || !strings.Contains(out, "No space left on device") || strings.Contains(out, "ready") {
		t.Errorf("got %v, want no S3 server installed:\n%s", err, out)
	}
	if strings.Contains(m.asked(), "restart glovebox-s3.service") {
		t.Errorf("it restarted something: asked was\n%s", m.asked())
	}
	m.run(install("install.sh")...)
	if got := m.read(lib + "versitygw"); !strings.HasPrefix(got, "newer") || !strings.Contains(m.asked(), "systemctl restart glovebox-s3.service") {
		t.Errorf("with room, the S3 server has %d bytes; asked was\n%s", len(got), m.asked())
	}
}

// TestInstallInterrupted: a service that a run has left with old files starts anew in the next run, and no more after it.
func TestInstallInterrupted(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.write("tree/pack/lib/versitygw", "server")
	m.run(install("install.sh --domain a.example")...)
	programs := m.read("tree/pack/bin/glovebox")
	for service, fails := range map[string]string{
		"redis": "systemctl restart glovebox-redis.service",
		"s3":    "systemctl restart glovebox-s3.service",
		"api":   "systemctl try-restart glovebox-api.service",
	} {
		m.write("tree/pack/bin/glovebox", strings.ReplaceAll(programs, "user default on", "user default on ~"+service))
		m.write("tree/pack/lib/versitygw", "server of "+service)
		m.stub("systemctl", `case "systemctl $*" in "`+fails+`") echo interrupted >&2; exit 1 ;; esac`)
		args := "install.sh --domain " + service + ".example"
		if out, err := m.try(install(args)...); err == nil || !strings.Contains(out, "interrupted") {
			t.Fatalf("%s: it was not interrupted: %v\n%s", service, err, out)
		}
		m.stub("systemctl", stubs["systemctl"])
		for run, want := range []int{1, 0} {
			m.run(install(args)...)
			if got := strings.Count(m.asked(), fails); got != want {
				t.Errorf("%s: the run after it, and %d more: it was started anew %d times, want %d", service, run, got, want)
			}
		}
	}
}

// TestInstallPorts: a port is free, or of the part of Glovebox that is installed already.
func TestInstallPorts(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.write("tree/pack/lib/versitygw", "server")
	listens := func(process string, ports ...string) {
		m.stub("ss", "case $* in *:"+strings.Join(ports, "|*:")+`) echo 'LISTEN 0 1 *:1 *:* users:(("`+process+`",pid=1,fd=3))' ;; esac`)
	}
	refused := func(args, want string) {
		t.Helper()
		if out, err := m.try(install("install.sh " + args)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: got %v, want %q in\n%s", args, err, want, out)
		}
	}
	for _, port := range []string{"8437", "8440", "6390"} {
		listens("other", port)
		refused("", "listens on port "+port)
	}
	m.stub("ss", "")
	m.run(install("install.sh")...)
	listens("nginx", "80", "8437", "8440", "6390")
	refused("--domain a.example", "listens on port 80 ")
	listens("caddy", "80")
	refused("--domain a.example", "listens on port 80 ") // with settings of the owner's
	if got := m.read("etc/caddy/Caddyfile"); got != "# the package's\n" {
		t.Errorf("it changed Caddy's settings: got\n%s", got)
	}
	m.stub("dpkg-query", fmt.Sprintf("case $3 in *Conffiles*) echo ' /etc/caddy/Caddyfile %x' ;; *) echo installed ;; esac", md5.Sum([]byte("# the package's\n")))) //nolint:gosec // dpkg's own sums
	m.run(install("install.sh --domain a.example")...)
	listens("caddy", "80", "443")
	m.run(install("install.sh --domain a.example")...)
	m.write("etc/caddy/Caddyfile", m.read("etc/caddy/Caddyfile")+"b.example\n")
	refused("--domain a.example", "/etc/caddy/sites")
	if got := m.read("etc/caddy/Caddyfile"); !strings.HasSuffix(got, "b.example\n") {
		t.Errorf("what the owner added is gone:\n%s", got)
	}
}

// TestUninstallRefuses: what install.sh didn't install it doesn't take away.
func TestUninstallRefuses(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.stub("userdel", "")
	m.write("etc/glovebox/worker.env", "GLOVEBOX_REDIS_URL=redis://elsewhere\n")
	m.write("etc/systemd/system/glovebox-worker.service", "worker-host.sh's")
	for _, args := range []string{"--uninstall --purge", "--uninstall"} {
		if out, err := m.try(install("install.sh " + args)...); err == nil || !strings.Contains(out, "install.sh didn't install this machine") {
			t.Errorf("%s: got %v:\n%s", args, err, out)
		}
	}
	if m.read("etc/glovebox/worker.env") == "" || m.read("etc/systemd/system/glovebox-worker.service") == "" || strings.Contains(m.asked(), "userdel") {
		t.Errorf("it took something away: asked was\n%s", m.asked())
	}
}
