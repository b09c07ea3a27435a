package podman

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// newTestPipeServer opens a server in a directory of its own, for the group of a file of ours.
func newTestPipeServer(t *testing.T) (d *pipeServer, dir string) {
	t.Helper()
	dir = t.TempDir()
	d, err := newPipeServer(dir, ourFile(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d, dir
}

func ourFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "podman.sock")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// request asks for pipes as glovebox-runtime does, and returns them.
func request(t *testing.T, d *pipeServer, id string) []*os.File {
	t.Helper()
	c := dial(t, d)
	ask(t, c, askPipes, id, "")
	_, files := answer(t, c)
	return files
}

func dial(t *testing.T, d *pipeServer) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: d.path()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a question.
func ask(t *testing.T, c *net.UnixConn, question byte, id, detail string) {
	t.Helper()
	words := append([]byte{question}, id...)
	words = binary.BigEndian.AppendUint16(words, uint16(len(detail))) //nolint:gosec // short
	if _, err := c.Write(append(words, detail...)); err != nil {
		t.Fatal(err)
	}
}

// answer returns what comes, -1 for nothing.
func answer(t *testing.T, c *net.UnixConn) (word int, _ []*os.File) {
	t.Helper()
	b, rights := make([]byte, 1), make([]byte, 64)
	read, n, _, _, err := c.ReadMsgUnix(b, rights)
	if read <= 0 {
		return -1, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return int(b[0]), filesOf(t, rights[:n])
}

func filesOf(t *testing.T, rights []byte) []*os.File {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), "pipe"))
	}
	return files
}

// TestPipeServer: the OCI runtime that names a container that is about to be started gets its
// pipes, and once.
func TestPipeServer(t *testing.T) {
	t.Parallel()
	d, dir := newTestPipeServer(t)
	id, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	pipes, _, err := d.reserve(id)
	if err != nil {
		t.Fatal(err)
	}
	defer pipes.Close()
	for name, words := range map[string]string{"another container": other, "half an id": id[:32], "nothing": ""} {
		began := time.Now()
		c := dial(t, d)
		ask(t, c, askPipes, words, "")
		if name != "half an id" { // the server waits for the other half, and gives up
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		if _, got := answer(t, c); got != nil {
			t.Errorf("%s: got %d pipes", name, len(got))
		}
		if took := time.Since(began); took > gbtest.AtOnce {
			t.Errorf("%s: the server was held up for %s", name, took)
		}
	}
	if d.claimed(id) {
		t.Error("the pipes are gone")
	}
	far := request(t, d, id)
	if len(far) != 3 || !d.claimed(id) {
		t.Fatalf("got %d pipes, claimed: %v", len(far), d.claimed(id))
	}
	if again := request(t, d, id); again != nil {
		t.Errorf("the second request got %d pipes", len(again))
	}
	if _, err := pipes.Stdin.Write([]byte("in")); err != nil {
		t.Error(err)
	}
	buf := make([]byte, 10)
	if n, err := far[0].Read(buf); err != nil || string(buf[:n]) != "in" {
		t.Errorf("stdin: got %q, %v", buf[:n], err)
	}
	for i, text := range []string{"out", "err"} {
		if _, err := far[i+1].WriteString(text); err != nil {
			t.Error(err)
		}
		far[i+1].Close()
	}
	if got, err := io.ReadAll(pipes.Stdout); err != nil || string(got) != "out" { // and its end: nobody else has the pipe
		t.Errorf("stdout: got %q, %v", got, err)
	}
	if got, err := io.ReadAll(pipes.Stderr); err != nil || string(got) != "err" {
		t.Errorf("stderr: got %q, %v", got, err)
	}
	far[0].Close()

	var dirStat, socketStat unix.Stat_t
	if err := unix.Stat(filepath.Dir(d.path()), &dirStat); err != nil || dirStat.Mode&0o777 != 0o710 {
		t.Errorf("the directory: mode %o, %v", dirStat.Mode, err)
	}
	if err := unix.Stat(d.path(), &socketStat); err != nil || socketStat.Mode&0o777 != 0o660 {
		t.Errorf("the socket: mode %o, %v", socketStat.Mode, err)
	}
	d.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestPipesUnreserved: what was not claimed in time is given to nobody, and the next reservation
// is not touched.
func TestPipesUnreserved(t *testing.T) {
	t.Parallel()
	d, _ := newTestPipeServer(t)
	id := strings.Repeat("a", 64)
	first, unreserveFirst, err := d.reserve(id)
	if err != nil {
		t.Fatal(err)
	}
	second, unreserveSecond, err := d.reserve(id) // a container's next sandbox
	if err != nil {
		t.Fatal(err)
	}
	unreserveFirst()
	first.Close()
	if d.claimed(id) {
		t.Fatal("the end of the first reservation has taken the pipes of the second")
	}
	if _, err := first.Stdout.Read(make([]byte, 1)); err == nil {
		t.Error("a closed pipe was read")
	}
	unreserveSecond()
	second.Close()
	if got := request(t, d, id); got != nil {
		t.Errorf("got %d pipes that were no longer reserved", len(got))
	}
}

func TestPipeServerThatCannotListen(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ dir, socket, says string }{
		"no Podman":    {t.TempDir(), "/nowhere/podman.sock", "/nowhere/podman.sock"},
		"no directory": {"/nowhere", ourFile(t), "/nowhere"},
		"too long":     {long, ourFile(t), long},
	} {
		d, err := newPipeServer(c.dir, c.socket, slog.New(slog.DiscardHandler))
		if err == nil {
			d.close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want an error that names %s", name, err, c.says)
		}
	}
	if left, err := os.ReadDir(long); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestPipeServerRemovesStaleSockets: a new server removes the sockets of workers that were killed,
// and no others.
func TestPipeServerRemovesStaleSockets(t *testing.T) {
	t.Parallel()
	living, dir := newTestPipeServer(t)
	old := time.Now().Add(-2 * minStaleAge)
	for name, age := range map[string]time.Time{"dead": old, "new": time.Now()} {
		path := filepath.Join(dir, socketDirPrefix+name, socketName)
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		if err := os.Chtimes(path, age, age); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(living.path(), old, old); err != nil {
		t.Fatal(err)
	}
	second, err := newPipeServer(dir, ourFile(t), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	for path, want := range map[string]bool{
		living.path(): true, second.path(): true,
		filepath.Join(dir, socketDirPrefix+"new", socketName): true, filepath.Join(dir, socketDirPrefix+"dead"): false,
	} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
}
