package infra

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fresh is a machine on which infra/install.sh finds the pack that it lies in.
func fresh(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	for _, name := range []string{"chgrp", "caddy", "ss"} {
		m.stub(name, "")
	}
	m.stub("curl", "")
	m.stub("df", "echo Avail; echo 8000")
	m.stub("awk", `case $1 in *MemTotal*) echo 1800 ;; *) exec /usr/bin/awk "$@" ;; esac`)
	// It has no other users, and /var is not its own.
	m.stub("install", `args=()
while [ $# -gt 0 ]; do case $1 in -[og]) shift ;; /var/*) exit ;; *) args+=("$1") ;; esac; shift; done
exec /usr/bin/install "${args[@]}"`)
	m.write("etc/os-release", "ID=debian\nVERSION_ID=12\n")
	m.makeDir("upper/etc/glovebox")
	// This machine's own, where there is one, is not the new machine's. Not every TMPDIR can hide it.
	if _, err := os.Stat("/etc/glovebox"); err == nil {
		if err := unix.Setxattr(m.upper("etc/glovebox"), "user.overlay.opaque", []byte("y"), 0); err != nil {
			t.Fatal(err)
		}
	}
	m.write("etc/caddy/Caddyfile", "# the package's\n")
	m.pack("packed")
	m.write("tree/pack/bin/glovebox", `#!/bin/bash
case $1 in
redis-acl)
    mkdir -p "$2"
    for user in glovebox-api glovebox-worker default; do echo "password-of-$user" >"$2/$user"; done
    echo user default on ;;
runtimes) printf 'NAME\nbash\n' ;;
esac`)
	return m
}

// remembering is a Podman whose store remembers the runtime directory of the first call, as Podman's does. Those of all
// calls are in /run/home/directories.
const remembering = `store=$HOME/.local/share/glovebox
mkdir -p $store
echo "$XDG_RUNTIME_DIR" >>/run/home/directories
[ -e $store/first ] || echo "$XDG_RUNTIME_DIR" >$store/first
case "$*" in info*RunRoot*) echo "$(cat $store/first)/containers"; exit ;; esac
`

// sourceTree is a fresh machine on which the tree itself can be installed: with a Go that builds, and with programs.
func sourceTree(t *testing.T) *machine {
	t.Helper()
	m := fresh(t)
	m.stub("podman", remembering+stubs["podman"])
	m.stub("make", "")
	m.stub("go", `case "$*" in *" bin/glovebox "*) exit ;; esac`+"\n"+strings.Replace(goStub, "go1.20", "go99.0", 1))
	for _, name := range []string{"glovebox", "glovebox-worker"} {
		m.write("tree/bin/"+name, m.read("tree/pack/bin/"+name))
	}
	return m
}

// TestInstallFromTree: Podman's store, which setup.sh makes, is that of the unit, which comes later, also where a
// store of before is left.
func TestInstallFromTree(t *testing.T) {
	t.Parallel()
	m := sourceTree(t)
	directories := filepath.Join(m.dir, "run/home/directories")
	for run := range 2 {
		m.run("infra/install.sh")
		if got, err := os.ReadFile(directories); err != nil || strings.ReplaceAll(string(got), "/run/glovebox-podman\n", "") != "" {
			t.Errorf("run %d: want /run/glovebox-podman for each call of Podman, got %v\n%s", run, err, got)
		}
		m.run("infra/install.sh", "--uninstall")
		if err := os.Remove(directories); err != nil {
			t.Fatal(err)
		}
	}
}

func install(args string) []string {
	return []string{"bash", "-c", "cp -r infra pack/ && exec pack/infra/" + args}
}

// TestInstall: one machine gets everything, with secrets that are made on it once and are in no output and no argument.
func TestInstall(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	out := m.run(install("aws/single-host.sh glovebox.example.com jobs eu-central-1")...)
	asked := m.asked()
	for _, unit := range []string{"glovebox-redis", "glovebox-worker", "glovebox-api", "caddy"} {
		if !regexp.MustCompile(`(?m)^systemctl (?:re)?(?:start|load-or-restart) ` + unit + `\.service$`).MatchString(asked) {
			t.Errorf("want %s started, asked was\n%s", unit, asked)
		}
	}
	api, worker, operator := m.read("etc/glovebox/api.env"), m.read("etc/glovebox/worker.env"), m.read("etc/glovebox/operator.env")
	for settings, lines := range map[string][]string{
		api:                                     {"GLOVEBOX_REDIS_URL=redis://glovebox-api:password-of-glovebox-api@127.0.0.1:6390/0\n", "GLOVEBOX_PUBLIC_URL=https://glovebox.example.com\n", "GLOVEBOX_API_ADDR=127.0.0.1:8437\n", "GLOVEBOX_TRUSTED_PROXIES=127.0.0.1\n"},
		worker:                                  {"GLOVEBOX_REDIS_URL=redis://glovebox-worker:password-of-glovebox-worker@127.0.0.1:6390/0\n", "GLOVEBOX_S3_BUCKET=jobs\n"},
		operator:                                {"GLOVEBOX_REDIS_URL=redis://default:password-of-default@127.0.0.1:6390/0\n"},
		m.read("etc/glovebox/redis-users.acl"):  {"user default on\n"},
		m.read("etc/glovebox/redis.conf"):       {"bind 127.0.0.1\n", "appendonly yes\n", "appendfsync always\n", "maxmemory-policy noeviction\n"},
		m.read("etc/caddy/Caddyfile"):           {"glovebox.example.com {\n", "reverse_proxy 127.0.0.1:8437 {\n"},
		m.read("usr/local/bin/glovebox-worker"): {"packed"},
	} {
		for _, line := range lines {
			if !strings.Contains(settings, line) {
				t.Errorf("want %q in\n%s", line, settings)
			}
		}
	}
	for _, secret := range regexp.MustCompile(`(?m)(?:TOKEN|KEY|password-of-\w+)=(\S{20,})$`).FindAllStringSubmatch(api+worker, -1) {
		if strings.Contains(out+asked, secret[1]) {
			t.Errorf("a secret is in the output, or an argument")
		}
	}
	for _, want := range []string{`ADMIN_TOKEN=[0-9a-f]{64}\n`, `\bGLOVEBOX_TOKEN=[0-9a-f]{64}\n`, `WEBHOOK_KEY=\S{44}\n`, `CAPABILITY_KEY=\S{44}\n`} {
		if !regexp.MustCompile(want).MatchString(api) {
			t.Errorf("want %s in\n%s", want, api)
		}
	}
	for name, mode := range map[string]os.FileMode{"api.env": 0o600, "worker.env": 0o600, "operator.env": 0o600, "secrets/token": 0o600, "secrets": 0o700} {
		if info, err := os.Stat(m.upper("etc/glovebox/" + name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: got mode %v, %v, want %v", name, info, err, mode)
		}
	}

	if caddy := m.read("etc/caddy/Caddyfile"); strings.Contains(caddy, "8440") || strings.Contains(api, "PUBLIC_ENDPOINT") {
		t.Errorf("clients go to AWS for objects, not here:\n%s\n%s", caddy, api)
	}
	m.run(install("install.sh --domain glovebox.example.com --bucket jobs --region eu-central-1")...)
	if m.read("etc/glovebox/api.env") != api || m.read("etc/glovebox/worker.env") != worker || m.read("etc/glovebox/operator.env") != operator {
		t.Error("run again, it changed settings")
	}
	if strings.Contains(strings.ReplaceAll(m.asked(), "systemctl reload-or-restart caddy.service", ""), "restart") {
		t.Errorf("run again, it restarted something:\n%s", m.asked())
	}
	// Where objects are stays: without a bucket it is that of before, and no other.
	m.run(install("install.sh --domain glovebox.example.com")...)
	if caddy := m.read("etc/caddy/Caddyfile"); strings.Contains(caddy, "8440") || strings.Contains(m.asked(), "glovebox-s3") || m.read("etc/glovebox/api.env") != api {
		t.Errorf("run again without --bucket: got\n%s\n%s", caddy, m.asked())
	}
	if out, err := m.try(install("install.sh --domain glovebox.example.com --bucket other --region eu-central-1")...); err == nil || !strings.Contains(out, "objects are in jobs, eu-central-1 already") {
		t.Errorf("another bucket: got %v:\n%s", err, out)
	}
}

// TestInstallWithAnotherToken: an upgrade doesn't wait in vain where an operator has changed the token in the api's settings, or taken it out, and
// has a token of their own in the environment: glovebox refuses two.
func TestInstallWithAnotherToken(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.run(install("install.sh --bucket jobs --region eu-central-1")...)
	first, program := m.read("etc/glovebox/api.env"), m.read("tree/pack/bin/glovebox")
	token := regexp.MustCompile(`(?m)^GLOVEBOX_TOKEN=.*$`)
	for _, want := range []string{"another", "'quoted'", ""} {
		m.write("etc/glovebox/api.env", token.ReplaceAllString(first, "GLOVEBOX_TOKEN="+want))
		m.write("tree/pack/bin/glovebox", strings.ReplaceAll(program, "runtimes) printf", `runtimes) [ "$GLOVEBOX_TOKEN$GLOVEBOX_TOKEN_FILE" = "`+strings.Trim(want, "'")+`" ] && printf`))
		out := m.run("bash", "-c", "cp -r infra pack/ && GLOVEBOX_TOKEN_FILE=/etc/glovebox/secrets/token GLOVEBOX_READY_SECONDS=5 exec pack/infra/install.sh --bucket jobs --region eu-central-1")
		if !strings.Contains(out, "another token than") || strings.Contains(out, "Try, as root") {
			t.Errorf("with the token %q: got\n%s", want, out)
		}
	}
}

// TestInstallDomain: the api's settings and Caddy's follow --domain, and what an operator wrote stays where there is none.
func TestInstallDomain(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.write("tree/pack/lib/versitygw", "server")
	m.run(install("install.sh")...)
	alone := m.read("etc/glovebox/api.env")
	m.write("etc/glovebox/api.env", alone+"GLOVEBOX_TRUSTED_PROXIES=10.0.0.1\n")
	m.run(install("install.sh")...)
	if got := m.read("etc/glovebox/api.env"); got != alone+"GLOVEBOX_TRUSTED_PROXIES=10.0.0.1\n" {
		t.Errorf("without --domain it changed what the operator wrote:\n%s", got)
	}
	restarts := func(want int) {
		t.Helper()
		if got := strings.Count(m.asked(), "systemctl try-restart glovebox-api.service"); got != want {
			t.Errorf("the api was restarted for its settings %d times, want %d", got, want)
		}
	}
	for run := range 2 {
		m.run(install("install.sh --domain a.example")...)
		restarts(1 - run) // again, they are the same
		api, caddy := m.read("etc/glovebox/api.env"), m.read("etc/caddy/Caddyfile")
		if want := "GLOVEBOX_PUBLIC_URL=https://a.example\nGLOVEBOX_TRUSTED_PROXIES=127.0.0.1\nGLOVEBOX_S3_PUBLIC_ENDPOINT=https://a.example\n"; !strings.HasSuffix(api, want) || strings.Count(api, "PUBLIC_URL") != 1 || strings.Contains(api, "10.0.0.1") {
			t.Errorf("want %q at the end of\n%s", want, api)
		}
		for _, want := range []string{"a.example {\n", "path /glovebox/tenants/*\n", "query X-Amz-Signature=*\n", "reverse_proxy @signed 127.0.0.1:8440\n"} {
			if !strings.Contains(caddy, want) {
				t.Errorf("want %q in\n%s", want, caddy)
			}
		}
	}
	// Users that are other ones with a newer release are Redis' once it starts anew.
	m.write("tree/pack/bin/glovebox", strings.ReplaceAll(m.read("tree/pack/bin/glovebox"), "user default on", "user default on +@all"))
	m.run(install("install.sh")...)
	restarts(1)
	if want := "systemctl restart glovebox-redis.service"; !strings.Contains(m.asked(), want) || !strings.Contains(m.read("etc/glovebox/redis-users.acl"), "+@all") {
		t.Errorf("other users: want %s, asked was\n%s", want, m.asked())
	}
	if api, caddy := m.read("etc/glovebox/api.env"), m.read("etc/caddy/Caddyfile"); api != alone || caddy != "# the package's\n" || m.read("etc/glovebox/Caddyfile") != "" {
		t.Errorf("without --domain again: got\n%s\n%s\nwant\n%s", api, caddy, alone)
	}
}

// TestInstallCaddy: settings that Caddy refuses replace none, and what it wasn't told it is told later.
func TestInstallCaddy(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.write("tree/pack/lib/versitygw", "server")
	m.stub("caddy", "exit 1")
	if out, err := m.try(install("install.sh --domain a.example")...); err == nil || !strings.Contains(out, "says what is wrong") {
		t.Errorf("got %v:\n%s", err, out)
	}
	if m.read("etc/caddy/Caddyfile") != "# the package's\n" || m.read("etc/glovebox/Caddyfile")+m.read("etc/glovebox/Caddyfile.before") != "" {
		t.Error("settings that Caddy refuses are in place")
	}
	m.stub("caddy", "")
	m.stub("systemctl", "case $* in *caddy*) exit 1 ;; esac")
	if out, err := m.try(install("install.sh --domain a.example")...); err == nil {
		t.Errorf("Caddy didn't start, and it went on:\n%s", out)
	}
	m.stub("systemctl", "")
	m.run(install("install.sh --domain a.example")...)
	if !strings.Contains(m.asked(), "systemctl reload-or-restart caddy.service") {
		t.Errorf("Caddy wasn't told: asked was\n%s", m.asked())
	}
	if m.read("etc/glovebox/Caddyfile.before") != "# the package's\n" {
		t.Error("Caddy's settings of before are lost")
	}
}

// TestInstallRedisPackage: a Redis that comes with the package runs only where it was there before.
func TestInstallRedisPackage(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]bool{"installed": false, "": true} {
		m := fresh(t)
		m.write("tree/pack/lib/versitygw", "server")
		m.stub("dpkg-query", "case $* in *redis-server) echo "+status+" ;; *) echo installed ;; esac")
		m.run(install("install.sh")...)
		if got := strings.Contains(m.asked(), "--now disable redis-server.service"); got != want {
			t.Errorf("%q before: got disabled %v, want %v", status, got, want)
		}
	}
}

// TestUninstall: what runs is stopped and gone, Caddy has its settings of before, and data stay.
func TestUninstall(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.write("tree/pack/lib/versitygw", "server")
	m.run(install("install.sh --domain a.example")...)
	out := m.run(install("install.sh --uninstall")...)
	for _, name := range []string{"redis", "s3", "api", "worker", "podman"} {
		unit := "glovebox-" + name + ".service"
		if !strings.Contains(m.asked(), "systemctl --quiet --now disable "+unit+"\n") || m.read("etc/systemd/system/"+unit) != "" {
			t.Errorf("%s is left, asked was\n%s", unit, m.asked())
		}
	}
	if !strings.Contains(out, "kept") || m.read("etc/glovebox/operator.env") == "" || m.read("etc/caddy/Caddyfile") != "# the package's\n" {
		t.Errorf("want settings kept, and Caddy's of before: it said\n%s", out)
	}
}

// TestPurge: a purge that fails half-way can be run again, and a volume of its own, which stays, is no failure.
func TestPurge(t *testing.T) {
	t.Parallel()
	m := fresh(t)
	m.stub("userdel", "")
	m.write("tree/pack/lib/versitygw", "server")
	m.run(install("install.sh")...)
	purge := install("install.sh --uninstall --purge")[2]
	for _, below := range []string{"/var/lib/glovebox/.local", "/var/lib/glovebox-s3/objects"} {
		out, err := m.try(m.onData(below, purge)...)
		if err == nil || !strings.Contains(out, "problem   rm: skipping '"+below+"'") || !strings.Contains(out, "left: "+below+"/in-volume") {
			t.Errorf("a volume at %s: got %v:\n%s", below, err, out)
		}
		if strings.Contains(m.asked(), "userdel") || m.read("etc/glovebox/operator.env") == "" {
			t.Errorf("it can't be run again, asked was\n%s", m.asked())
		}
	}
	out := m.run(m.onData("/var/lib/glovebox-s3", purge)...)
	if !strings.Contains(out, "to do     /var/lib/glovebox-s3 is a mount point") || strings.Contains(out, "left:") || !strings.Contains(out, "gone") {
		t.Errorf("want the mount point said, and nothing left:\n%s", out)
	}
	for _, user := range []string{"glovebox", "glovebox-worker", "glovebox-redis", "glovebox-s3"} {
		if !strings.Contains(m.asked(), "userdel "+user+"\n") {
			t.Errorf("the user %s stays, asked was\n%s", user, m.asked())
		}
	}
	if m.read("etc/glovebox/operator.env") != "" {
		t.Error("settings stay")
	}
}

// TestInstallAgrees: what the script, the units and the command line say of each other is so.
func TestInstallAgrees(t *testing.T) {
	t.Parallel()
	text := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	script := text("install.sh")
	for path, want := range map[string]string{
		"systemd/glovebox-redis.service": "/etc/glovebox/redis.conf", "systemd/glovebox-s3.service": "--port 127.0.0.1:8440",
		"../cmd/glovebox/backup.go": `"/etc/glovebox/operator.env"`,
	} {
		if !strings.Contains(text(path), want) {
			t.Errorf("%s has no %s", path, want)
		}
	}
	for _, want := range []string{"readonly etc=/etc/glovebox", "$etc/redis.conf", "127.0.0.1:8440", "$etc/operator.env"} {
		if !strings.Contains(script, want) {
			t.Errorf("install.sh has no %s", want)
		}
	}
	out, err := exec.CommandContext(t.Context(), "./install.sh", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range regexp.MustCompile(`(?m)^    (--[a-z-]+(?: \| --[a-z-]+)*)\)`).FindAllStringSubmatch(script, -1) {
		for _, name := range strings.Split(option[1], " | ") {
			if name != "--help" && !strings.Contains(string(out), name) {
				t.Errorf("--help says nothing of %s", name)
			}
		}
	}
}
