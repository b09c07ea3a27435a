package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// requested makes a request to the API, follows redirects, and returns the status and the body.
func (g *glovebox) requested(method, path string, body []byte) (status int, answer []byte) {
	g.tb.Helper()
	req, err := http.NewRequestWithContext(g.tb.Context(), method, g.url+path, bytes.NewReader(body))
	if err != nil {
		g.tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		g.tb.Fatal(err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	if err != nil {
		g.tb.Fatal(err)
	}
	return res.StatusCode, answer
}

// TestSessionFiles: files of a session are listed, read, written and deleted over HTTP and from a shell, in turn with its executions, and the transcript has it all: it is proven, and replayed.
func TestSessionFiles(t *testing.T) {
	t.Parallel()
	g := start(t, options{workerEnv: []string{"GLOVEBOX_SIGNING_KEY=" + attest.NewSeed(), "GLOVEBOX_SESSION_PAUSE_MB=1024", "GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS=1"}})
	ctx := t.Context()
	x, err := g.client.StartSession(ctx, job.SessionSettings{Runtime: "python", Limits: job.Limits{MemoryMB: 256, WallMS: 60_000, ArtifactMB: 1}})
	if err != nil {
		t.Fatal(err)
	}
	files := "/v1/sessions/" + x.ID + "/files"
	large := bytes.Repeat([]byte{0, 0xff, 'x', '\n'}, 50_000)
	expect := func(method, path string, body []byte, status int, want string) {
		t.Helper()
		got, answer := g.requested(method, path, body)
		if got != status || !strings.Contains(string(answer), want) {
			t.Errorf("%s %s: got %d %.300q, want %d with %q", method, path, got, answer, status, want)
		}
	}
	expect("PUT", files+"/in/small.txt", []byte("41"), 204, "")
	expect("PUT", files+"/in/large.bin", large, 204, "")
	expect("PUT", files+"/empty", nil, 204, "")
	g.executedIn(x.ID, "import os; n = int(open('in/small.txt').read()); open('out.txt', 'w').write(str(n + 1)); os.symlink('/etc/passwd', 'link'); open('big', 'wb').truncate(2 << 20)")
	expect("GET", files+"/out.txt", nil, 200, "42")
	expect("GET", files+"/empty", nil, 200, "")
	if status, got := g.requested("GET", files+"/in/large.bin", nil); status != 200 || !bytes.Equal(got, large) {
		t.Errorf("got %d and %d bytes, want what was written", status, len(got))
	}
	expect("PUT", files+"/a/b?directory=true", nil, 204, "")
	expect("DELETE", files+"/empty", nil, 204, "")
	expect("GET", files, nil, 200, `{"files":[{"name":"a","kind":"directory"},{"name":"big","kind":"file","size":2097152},{"name":"in","kind":"directory"},{"name":"link","kind":"link"},{"name":"out.txt","kind":"file","size":2}]}`)
	expect("GET", files+"?path=in", nil, 200, `{"files":[{"name":"large.bin","kind":"file","size":200000},{"name":"small.txt","kind":"file","size":2}]}`)
	expect("GET", files+"/empty", nil, 404, "problem:no_file")
	expect("GET", files+"/link", nil, 409, "symbolic link")
	expect("GET", files+"/in", nil, 409, "is a directory")
	expect("GET", files+"/big", nil, 413, "limits.artifact_mb (1)")
	expect("DELETE", files+"/in", nil, 409, "not empty")
	expect("PUT", files+"/out.txt/a", []byte("1"), 409, "problem:file_refused")

	shell := func(want string, args ...string) {
		t.Helper()
		if out, code := g.shell(append([]string{"session"}, args...)...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("session %v: got exit code %d, %.300q; want %q", args, code, out, want)
		}
	}
	here := filepath.Join(t.TempDir(), "here.bin")
	if err := os.WriteFile(here, large, 0o600); err != nil {
		t.Fatal(err)
	}
	shell("", "put", x.ID, here, "a/there.bin="+here)
	shell("there.bin", "files", x.ID, "a")
	shell("", "mkdir", x.ID, "a/c")
	shell("", "rm", x.ID, "a/c")
	shell("42", "get", x.ID, "out.txt")
	back := filepath.Join(t.TempDir(), "back.bin")
	shell("", "get", "--out", back, x.ID, "a/there.bin")
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, large) {
		t.Errorf("got %d bytes, %v, want those that were put", len(got), err)
	}

	gbtest.Eventually(t, "the session is paused", func() bool {
		now, err := g.client.Session(ctx, x.ID)
		return err == nil && now.Status == job.SessionPaused
	})
	expect("GET", files+"/out.txt", nil, 200, "42")
	if r := g.executedIn(x.ID, "print(n)"); r.Stdout != "41\n" {
		t.Errorf("got %+v, want the state kept", r)
	}

	var lines []string
	for e, err := range g.client.Transcript(ctx, x.ID) {
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b)+"\n")
	}
	transcript := filepath.Join(t.TempDir(), "transcript.jsonl")
	check := func(text, want string, exit int) {
		t.Helper()
		if err := os.WriteFile(transcript, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := g.shell("verify", "--session", transcript); code != exit || !strings.Contains(out, want) {
			t.Errorf("got exit code %d, %.500s; want %q", code, out, want)
		}
	}
	whole := strings.Join(lines, "")
	check(whole, "verified  session "+x.ID, 0)
	check(strings.Replace(whole, `{\"do\":\"read\",\"name\":\"out.txt\"}`, `{\"do\":\"read\",\"name\":\"in/small.txt\"}`, 1), "REJECTED", 1)
	check(strings.Replace(whole, `"language":"files",`, ``, 1), "REJECTED", 1) // a command is no code of the interpreter
	if out, code := g.shell("session", "replay", x.ID); code != 0 || strings.Count(out, "same") < len(lines) {
		t.Errorf("got exit code %d, %s; want that all comes to the same", code, out)
	}
	if _, err := g.client.EndSession(ctx, x.ID); err != nil {
		t.Fatal(err)
	}
	expect("GET", files+"/out.txt", nil, 410, "problem:session_ended")
}
