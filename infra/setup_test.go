package infra

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lib is where setup.sh installs, on a machine.
const lib = "usr/local/lib/glovebox/"

// goStub is a go that is older than go.mod asks for. It fetches a toolchain whose bin has been
// written and whose pkg has, too, where the disk had room; and of gVisor what infra/runsc/build.sh changes.
const goStub = `case "$*" in
"env GOVERSION") echo go1.20 ;;
"env GOMODCACHE") echo /run/modules ;;
"mod download"*)
    dir=/run/modules/${3}
    mkdir -p "$dir/bin" "$dir/pkg/tool"
    cat "$0" >"$dir/bin/go"
    echo new >"$dir/pkg/tool/compile" ;;
"mod vendor")
    vendored=vendor/gvisor.dev/gvisor
    mkdir -p $vendored/runsc/boot/filter/config $vendored/pkg/sentry/platform/systrap
    printf '\tprograms := make(x)\n' >$vendored/runsc/boot/filter/config/config_precompiled.go
    echo 'seccomp.EqualTo(os.Getpid())' >$vendored/pkg/sentry/platform/systrap/filters.go ;;
build*) while [ "$1" != -o ]; do shift; done; echo built >"$2" ;;
install*) echo built >"$GOBIN/versitygw" ;;
run*) : ;;
esac`

// withGo is a machine with a Go that is new enough.
func withGo(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.stub("go", strings.Replace(goStub, "go1.20", "go99.0", 1))
	return m
}

// withOldGo is a machine whose Go, which works, is older than this tree asks for.
func withOldGo(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.write(lib+"go/bin/go", "#!/bin/bash\n"+goStub)
	m.write(lib+"go/pkg/tool/compile", "old")
	return m
}

// fails runs setup.sh, which has to fail and to leave the Go that works.
func (m *machine) failsAndKeepsGo() {
	m.t.Helper()
	out, err := m.try("infra/setup.sh", "--no-images")
	if err == nil {
		m.t.Errorf("setup.sh succeeds:\n%s", out)
	}
	if !strings.Contains(out, "fetched go") {
		m.t.Errorf("it fails at something else:\n%s", out)
	}
	if got := m.read(lib + "go/bin/go"); !strings.Contains(got, "go1.20") {
		m.t.Errorf("the Go that worked is now %q", got)
	}
	if got := m.read(lib + "go/pkg/tool/compile"); got != "old" {
		m.t.Errorf("the compiler of the Go that worked is now %q", got)
	}
}

func TestGoThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	m := withOldGo(t)
	m.write(lib+"go/bin/go", "#!/bin/bash\n[ \"$1 $2\" != 'mod download' ] || { echo proxy: no route; exit 1; }\n"+goStub)
	m.failsAndKeepsGo()
}

func TestGoThatDoesNotFitTheDisk(t *testing.T) {
	t.Parallel()
	m := withOldGo(t)
	m.stub("cp", `[ "$1" = -r ] || exec /bin/cp "$@"
mkdir -p "$3/bin" "$3/pkg/tool" && echo new >"$3/bin/go" && echo "cp: no space left on device" && exit 1`)
	m.failsAndKeepsGo()

	m.stub("cp", `exec /bin/cp "$@"`) // there is room again
	m.run("infra/setup.sh", "--no-images")
	if got := m.read(lib + "go/pkg/tool/compile"); got != "new\n" {
		t.Errorf("with room, the compiler is %q", got)
	}
}

// TestRunscOfAPack: setup.sh builds runsc where a pack has brought another one.
func TestRunscOfAPack(t *testing.T) {
	t.Parallel()
	m := withGo(t)
	m.run("infra/setup.sh", "--no-images")
	m.pack("packed")
	m.run("infra/setup.sh", "--from", "pack")
	if got := m.read(lib + "runsc"); got != "packed" {
		t.Fatalf("runsc is %q after the pack", got)
	}
	out := m.run("infra/setup.sh", "--no-images")
	if got := m.read(lib + "runsc"); got != "built\n" {
		t.Errorf("runsc is %q after a build; setup.sh said\n%s", got, out)
	}
	if out := m.run("infra/setup.sh", "--no-images"); strings.Contains(out, "built v") {
		t.Errorf("it is built once more:\n%s", out)
	}
}

// withoutRedis runs a command where there is no redis-server, whatever this machine has.
const withoutRedis = `[ ! -e /usr/bin/redis-server ] || mount --bind /dev/null /usr/bin/redis-server
exec "$@"`

// TestSetupRedis: a Redis of the distribution's that this run has installed doesn't start with the machine. Where it
// has installed none, as on a worker's host, there is no such unit.
func TestSetupRedis(t *testing.T) {
	t.Parallel()
	m := withGo(t)
	m.pack("packed")
	m.stub("dpkg-query", `case $* in *" podman") exit 1 ;; *) echo installed ;; esac`)
	m.stub("systemctl", `case $* in *redis-server*) echo "unit redis-server.service does not exist" >&2; exit 1 ;; esac`)
	m.run("bash", "-euc", withoutRedis, "bash", "infra/setup.sh", "--from", "pack")
	if asked := m.asked(); !strings.Contains(asked, " install podman\n") || strings.Contains(asked, "redis-server\n") {
		t.Errorf("want podman installed, and nothing asked of redis-server:\n%s", asked)
	}

	m.stub("dpkg-query", `case $* in *" redis-server") exit 1 ;; *) echo installed ;; esac`)
	m.stub("systemctl", "")
	m.run("bash", "-euc", withoutRedis, "bash", "infra/setup.sh", "--no-images")
	if asked := m.asked(); !strings.Contains(asked, " install redis-server\n") || !strings.Contains(asked, "systemctl --quiet disable redis-server\n") {
		t.Errorf("want redis-server installed, and disabled:\n%s", asked)
	}
}

// TestSetupProxy: apt-get has the proxy of an ordinary user, though sudo drops what it isn't told to keep.
func TestSetupProxy(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.pack("packed")
	m.makeDir("run/user/1000")
	m.stub("id", "case $1 in -un) echo user ;; *) echo 1000 ;; esac")
	m.stub("dpkg-query", `case $* in *" podman") exit 1 ;; *) echo installed ;; esac`)
	m.stub("apt-get", `echo "$http_proxy $HTTPS_PROXY $OTHER" >>/run/proxies`)
	m.stub("sudo", `kept=()
while [ "$1" != -- ] && [ "${1#-}" != "$1" ]; do
    IFS=, read -ra names <<<"${1#--preserve-env=}"
    for name in "${names[@]}"; do [ -z "${!name:-}" ] || kept+=("$name=${!name}"); done
    shift
done
[ "$1" != -- ] || shift
exec /usr/bin/env -i PATH="$PATH" "${kept[@]}" "$@"`)
	proxies := []string{"/usr/bin/env", "http_proxy=http://proxy:1", "HTTPS_PROXY=http://proxy:2", "OTHER=other"}
	for _, command := range [][]string{{"infra/setup.sh", "--images-from", "pack"}, {"PATH=/usr/local/bin", "/bin/bash", "infra/setup-tests.sh"}} {
		m.run(slices.Concat(proxies, command)...)
		got, err := os.ReadFile(filepath.Join(m.dir, "run/proxies"))
		if want := strings.Repeat("http://proxy:1 http://proxy:2 \n", 2); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q: for the lists, and for the packages", command, got, err, want)
		}
		if err := os.Remove(filepath.Join(m.dir, "run/proxies")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"mktemp", "rm", "env"} { // setup-tests.sh finds nothing else
			m.stub(name, "exec /usr/bin/"+name+` "$@"`)
		}
	}
}
