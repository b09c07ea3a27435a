// Package infra tests the scripts of this directory as they are, on a machine that only
// they see: whatever they install lies in a directory of the test.
package infra

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// machine is this machine with nothing of Glovebox installed, with stubs in the place of what
// would change it. Scripts run on it as root of a user namespace; except for /etc, /usr/local,
// /usr/sbin, /run and the tree, it is read-only to them.
type machine struct {
	t     *testing.T
	dir   string
	stdin string // what the next commands read
}

// overlaid are the directories whose changes are kept, each in the upper directory of that name.
var overlaid = []string{"/etc", "/usr/local", "/usr/sbin", "/tree"}

// enter makes the machine, and becomes the command.
const enter = `
dir=$1 tree=$2; shift 2
overlay() { mount -t overlay overlay -o "lowerdir=$2,upperdir=$dir/upper$1,workdir=$dir/work$1,userxattr" "$3"; }
mkdir -p "$dir/empty/bin" "$dir/tree"
mount --bind "$dir" "$dir"
overlay /etc /etc /etc
overlay /usr/local "$dir/empty" /usr/local
overlay /usr/sbin /usr/sbin /usr/sbin
overlay /tree "$tree" "$dir/tree"
mount --bind "$dir/run" /run
mount -o remount,bind,ro /
cd "$dir/tree"
exec "$@"
`

// stubs answer as a machine does on which everything is well; log has what was asked of them.
var stubs = map[string]string{
	"dpkg-query": "echo installed",
	"id":         "case $1,${2:-} in -un,*) echo root ;; -u,*) echo 0 ;; *) exec /usr/bin/id -u ;; esac",
	"getent":     "echo glovebox:x:0:0::/run/home:/usr/sbin/nologin",
	"setpriv":    "while [ \"${1#-}\" != \"$1\" ]; do shift; done; exec \"$@\"",
	"podman": `case $1 in
info) case $3 in *RunRoot*) echo /run/glovebox-podman/containers ;; *) echo glovebox-runtime overlay true ;; esac ;;
save) echo image ;;
unshare) cat >/dev/null ;;
image) [ "$2" = exists ] || echo 1234 ;;
esac`,
	"systemctl": "", "useradd": "", "usermod": "", "apt-get": "", "loginctl": "", "chown": "",
}

// impossible is why no machine can be made, found out by the first one.
var (
	possible   sync.Once
	impossible struct {
		out string
		err error
	}
)

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	for _, dir := range overlaid {
		m.makeDir("upper" + dir)
		m.makeDir("work" + dir)
	}
	for _, dir := range []string{"run/systemd/system", "run/home", "run/user/0", "run/glovebox-podman", "upper/usr/local/bin"} {
		m.makeDir(dir)
	}
	for name, script := range stubs {
		m.stub(name, script)
	}
	possible.Do(func() { impossible.out, impossible.err = m.try("true") })
	if impossible.err != nil {
		t.Skipf("SKIPPED, NOT PROVEN: this machine lets nobody make one in a user namespace: %v: %s", impossible.err, impossible.out)
	}
	return m
}

// stub puts a script in the place of a command, for all that comes after.
func (m *machine) stub(name, script string) {
	m.t.Helper()
	m.write("usr/local/bin/"+name, fmt.Sprintf("#!/bin/bash\necho \"%s $*\" >>%s/log\n%s\n", name, m.dir, script))
}

// write makes a file of the machine. The path is one of those overlaid, or tree/….
func (m *machine) write(path, content string) {
	m.t.Helper()
	m.makeDir(filepath.Dir("upper/" + path))
	if err := os.WriteFile(m.upper(path), []byte(content), 0o755); err != nil { //nolint:gosec // some are programs
		m.t.Fatal(err)
	}
}

// read is a file's content; "" where there is none.
func (m *machine) read(path string) string {
	m.t.Helper()
	content, err := os.ReadFile(m.upper(path))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(content)
}

func (m *machine) upper(path string) string { return filepath.Join(m.dir, "upper", path) }

func (m *machine) makeDir(path string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Join(m.dir, path), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// try runs a command in the tree, and returns what it printed.
func (m *machine) try(argv ...string) (string, error) {
	m.t.Helper()
	tree, err := filepath.Abs("..")
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(m.dir, "log")); err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(m.t.Context(), "unshare", append([]string{"--user", "--map-root-user", "--mount", "bash", "-eu", "-c", enter, "enter", m.dir, tree}, argv...)...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/run/home", "TMPDIR=/run/home", "SHELL=/bin/bash", "LANG=C.UTF-8"}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(m.stdin), &out, &out
	err = cmd.Run()
	return out.String(), err
}

// run is try for what has to succeed.
func (m *machine) run(argv ...string) string {
	m.t.Helper()
	out, err := m.try(argv...)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

// onData is the command on a machine with data in /var, which stays from one run to the next, and in a volume at the
// given directory. It prints which files of them are left.
func (m *machine) onData(volume, command string) []string {
	m.t.Helper()
	for _, name := range []string{"glovebox/.local/image", "glovebox-redis/appendonly", "glovebox-s3/object"} {
		m.makeDir(filepath.Dir("var/" + name))
		if err := os.WriteFile(filepath.Join(m.dir, "var", name), nil, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	// Without the first mount it would be this machine's own data.
	return []string{"bash", "-eu", "-c", `mount --bind "$1/var" /var/lib
mkdir -p "$2"
mount -t tmpfs volume "$2"
touch "$2/in-volume"
status=0
bash -c "$3" || status=$?
find /var/lib -type f -printf 'left: %p\n'
exit $status`, "on-data", m.dir, volume, command}
}

// asked is what the last run asked of stubs, a line for each.
func (m *machine) asked() string {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(b)
}

// pack makes what worker-host.sh --pack does, in the tree, with programs of that content.
func (m *machine) pack(content string) {
	m.t.Helper()
	for _, name := range []string{"lib/runsc", "lib/glovebox-runtime", "lib/glovebox-agent", "bin/glovebox", "bin/glovebox-worker", "images/bash-1234.tar"} {
		m.write("tree/pack/"+name, content)
	}
}
