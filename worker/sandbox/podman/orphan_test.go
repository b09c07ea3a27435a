package podman_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// TestReapsWhatPodmanForgot: a sandbox of which Podman knows nothing any more goes; one
// that it knows, and one that is not Glovebox's, stay.
func TestReapsWhatPodmanForgot(t *testing.T) {
	t.Parallel()
	open(t)
	service := gbtest.PodmanOfItsOwn(t, 32)
	api := &podmanAPI{t: t, client: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", service.Socket)
		},
	}}}
	forgotten, others := api.sandbox("glovebox-FORGOTTEN"), api.sandbox("somebody-elses")
	alone := api.sandbox("glovebox-ALONE")
	endConmon(t, alone)
	// The service comes back with an empty store: the old one was in memory that
	// only its own processes saw.
	service.Kill()
	service.Restart()
	known := api.sandbox("glovebox-KNOWN")
	t.Cleanup(func() {
		service.Kill()
		for _, id := range []string{forgotten, alone, others, known} {
			endConmon(t, id) // first: it would call podman for a store that is gone
			for _, process := range processesOf(t, id) {
				_ = process.Kill() // it may have ended
			}
		}
	})
	p, err := podman.Open(t.Context(), podman.Config{
		Socket: service.Socket, Agent: agentPath(), Instance: instance + "-orphan", Worker: "w",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	reap := func() int {
		t.Helper()
		n, err := p.Reap(t.Context(), func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 2 {
		if n := reap(); n != 0 || len(processesOf(t, forgotten)) == 0 || len(processesOf(t, alone)) == 0 {
			t.Fatalf("it removed %d before it was sure", n)
		}
	}
	p.SetOrphanAge(0)
	if n := reap(); n != 2 {
		t.Errorf("it removed %d, want the two that are forgotten", n)
	}
	for name, id := range map[string]string{"forgotten": forgotten, "without conmon": alone} {
		gbtest.Eventually(t, name+": none of its processes is left", func() bool { return len(processesOf(t, id)) == 0 })
		states, err := filepath.Glob(filepath.Join(filepath.Dir(service.Dir), "run/runsc/*"+id+"*"))
		if err != nil || len(states) > 0 {
			t.Errorf("%s: runsc keeps %q, %v", name, states, err)
		}
	}
	for name, id := range map[string]string{"one that podman knows": known, "one that is not ours": others} {
		if len(processesOf(t, id)) < 3 { // conmon, sandbox, gofer
			t.Errorf("%s is gone", name)
		}
	}
	if n := reap(); n != 0 {
		t.Errorf("it removed %d more", n)
	}
}

// podmanAPI makes containers that are none of sandbox's own.
type podmanAPI struct {
	t      *testing.T
	client *http.Client
}

// sandbox makes a container whose sandbox waits to be started, and returns its id.
func (a *podmanAPI) sandbox(name string) string {
	a.t.Helper()
	var made struct{ ID string }
	spec := map[string]any{
		"name": name, "image": suite.image, "command": []string{"true"}, "read_only_filesystem": true,
		"netns": map[string]string{"nsmode": "none"}, "log_configuration": map[string]string{"driver": "none"},
	}
	if err := json.Unmarshal(a.post("/libpod/containers/create", spec), &made); err != nil || made.ID == "" {
		a.t.Fatalf("create container: %v", err)
	}
	a.post(fmt.Sprintf("/libpod/containers/%s/init", made.ID), nil)
	return made.ID
}

func (a *podmanAPI) post(path string, body any) []byte {
	a.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		a.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, "http://d/v4.0.0"+path, bytes.NewReader(b))
	if err != nil {
		a.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		a.t.Fatalf("%s: %s: %s %v", path, response.Status, answer, err)
	}
	return answer
}

// endConmon kills a container's conmon, which leaves the sandbox alone.
func endConmon(t *testing.T, id string) {
	t.Helper()
	for _, process := range processesOf(t, id) {
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", process.Pid)); err == nil && strings.HasPrefix(string(comm), "conmon") {
			_ = process.Kill() // it may have ended
		}
	}
}

// processesOf lists the processes of a container: conmon, runsc's.
func processesOf(t *testing.T, id string) (found []*os.Process) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(b), id) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err != nil {
			t.Fatal(err)
		}
		if process, err := os.FindProcess(pid); err == nil {
			found = append(found, process)
		}
	}
	return found
}
