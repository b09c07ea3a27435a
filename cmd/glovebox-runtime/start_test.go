package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// listen plays a sandbox at its control socket: it gives the answers, one a call, and
// then hangs up. What it returns reads what it was called with, once it has hung up.
func listen(t *testing.T, path string, answers ...string) (calls func() []string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan []string, 1)
	go func() {
		var got []string
		defer func() { heard <- got }()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := json.NewDecoder(conn)
		for _, answer := range answers {
			var call json.RawMessage
			if in.Decode(&call) != nil {
				return
			}
			got = append(got, string(call))
			if _, err := conn.Write([]byte(answer)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { l.Close() })
	return func() []string { l.Close(); return <-heard }
}

// saveMade writes the state of a sandbox that was made, with a control socket in its
// directory, and returns the directory.
func saveMade(t *testing.T, changes ...string) string {
	t.Helper()
	dir := save(t, 1<<22, 1<<22, append(changes, `"status":"running"`, `"status":"created"`,
		`"mountHints"`, `"metricMetadata":{"network":"none","version":"`+readVersion+`"},"mountHints"`)...)
	if err := os.Remove(filepath.Join(dir, "runsc-"+testID+".sock")); err != nil {
		t.Fatal(err)
	}
	return dir
}

const done = `{"success":true,"err":"","result":{}}`

func TestStart(t *testing.T) {
	t.Parallel()
	dir := saveMade(t)
	calls := listen(t, filepath.Join(dir, "runsc-"+testID+".sock"), done, done)
	argv := []string{"runsc", "--root", dir}
	file := stateFile(argv, testID)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if told, err := start("runsc", argv, testID); !told || err != nil {
		t.Fatalf("got %v, %v", told, err)
	}
	if got, want := calls(), []string{setNetwork, `{"method":"containerManager.StartRoot","arg":"` + testID + `"}`}; !slices.Equal(got, want) {
		t.Errorf("it called %q, want %q", got, want)
	}
	var was, is map[string]json.RawMessage
	after, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil {
		t.Fatalf("state %s, %v", after, err)
	}
	was["status"] = json.RawMessage(`"running"`)
	if len(is) != len(was) {
		t.Errorf("got %s, from %s", after, before)
	}
	for key, value := range was {
		if string(is[key]) != string(value) {
			t.Errorf("%s: got %s, want %s", key, is[key], value)
		}
	}
	if told, err := start("runsc", argv, testID); told || err == nil {
		t.Errorf("once more: got %v, %v, want it left to runsc", told, err)
	}
}

// TestStartRefused: the sandbox's answer decides whether runsc is to go on.
func TestStartRefused(t *testing.T) {
	t.Parallel()
	const refuses = `{"success":false,"err":"no such thing"}`
	for name, tt := range map[string]struct {
		answers []string
		told    bool
		refused string // part of the error
	}{
		"network":         {[]string{refuses}, false, "no such thing"},
		"start":           {[]string{done, refuses}, true, "no such thing"},
		"it hangs up":     {[]string{done}, true, "start sandbox"},
		"it is no JSON":   {[]string{done, "x"}, true, "answer"},
		"it never ends":   {[]string{`{"success":true,"err":"` + strings.Repeat("x", maxAnswer)}, false, "answer"},
		"nobody is there": {nil, false, ""},
	} {
		dir := saveMade(t)
		argv := []string{"runsc", "--root", dir}
		listen(t, filepath.Join(dir, "runsc-"+testID+".sock"), tt.answers...)
		told, err := start("runsc", argv, testID)
		if told != tt.told || err == nil || !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: got %v, %v, want %v and an error with %q", name, told, err, tt.told, tt.refused)
		}
		if s, err := loadState(argv, testID); err != nil || s.Status != "created" {
			t.Errorf("%s: the state is %q, %v", name, s.Status, err)
		}
	}
}

// TestStartUnusual: what runsc would do otherwise for is left to it, and nobody is called.
func TestStartUnusual(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][]string{
		"another runsc":    {readVersion, "v9"},
		"a network":        {`"network":"none"`, `"network":"host"`},
		"runs already":     {`"status":"created"`, `"status":"running"`},
		"hooks":            {`"root":`, `"hooks":{"poststart":[]},"root":`},
		"a score":          {`"root":`, `"process":{"oomScoreAdj":0},"root":`},
		"no socket":        {`"DIR/runsc-ID.sock"`, `""`},
		"shared mount":     {`"mounts":{}`, `"mounts":{"/x":{}}`},
		"another's socket": {"DIR/runsc-ID.sock", "/x/runsc-ID.sock"},
	} {
		dir := saveMade(t)
		argv := []string{"runsc", "--root", dir}
		b, err := os.ReadFile(stateFile(argv, testID))
		if err != nil {
			t.Fatal(err)
		}
		names := strings.NewReplacer("ID", testID, "DIR", dir)
		changed := strings.ReplaceAll(string(b), names.Replace(change[0]), change[1])
		if changed == string(b) {
			t.Fatalf("%s: nothing was changed in %s", name, b)
		}
		if err := os.WriteFile(stateFile(argv, testID), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		calls := listen(t, filepath.Join(dir, "runsc-"+testID+".sock"), done, done)
		if told, err := start("runsc", argv, testID); told || err == nil {
			t.Errorf("%s: got %v, %v, want it left to runsc", name, told, err)
		}
		if got := calls(); len(got) > 0 {
			t.Errorf("%s: it called %q", name, got)
		}
	}
}

// TestReadVersion: a new runsc has to be read for what its `start` does.
func TestReadVersion(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../infra/runsc/version")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(b)) != readVersion {
		t.Errorf("infra/runsc/build.sh builds another runsc than %s: read Container.Start and Sandbox.StartRoot of the new one, then change readVersion", readVersion)
	}
}

// TestHandOver: a worker gets the connection by which a sandbox was started, and another where the sandbox has restored its state: that ends those of before.
func TestHandOver(t *testing.T) {
	t.Parallel()
	for name, snapshot := range map[string][]int{"started": nil, "restored": {}} {
		path := filepath.Join(t.TempDir(), "s.sock")
		l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		socket, err := connect(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		before := os.NewFile(uintptr(socket), path)
		defer before.Close()
		sandbox, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if snapshot != nil {
			sandbox.Close()
		}
		ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		h := how{snapshot: snapshot, worker: ends[0]}
		if err := h.handOver(before, path); err != nil {
			t.Fatal(err)
		}
		_, files, err := receiveAnswer(ends[1])
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: got %d files, %v", name, len(files), err)
		}
		if snapshot != nil {
			if sandbox, err = l.Accept(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := syscall.Write(files[0], []byte("x")); err != nil {
			t.Errorf("%s: the worker can't write: %v", name, err)
		} else if n, err := sandbox.Read(make([]byte, 9)); n != 1 {
			t.Errorf("%s: the sandbox read %d bytes, %v", name, n, err)
		}
		sandbox.Close()
		for _, fd := range append(files, ends[:]...) {
			_ = syscall.Close(fd)
		}
	}
}
