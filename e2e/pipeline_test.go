package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// push is a push to GitHub with so many commits, of which each changes three files. Its name makes it another than others.
func push(tb testing.TB, name string, commits int) []byte {
	tb.Helper()
	type m map[string]any
	var list []m
	for i := range commits {
		list = append(list, m{
			"id": fmt.Sprint(name, i), "message": "it's a $(test)", "author": m{"name": []string{"Ada", "Linus", "Grace"}[i%3]},
			"added": []string{"a"}, "modified": []string{"b", "c"}, "removed": []string{},
		})
	}
	body, err := json.Marshal(m{"ref": "refs/heads/main", "commits": list})
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// pushed sends a push to a hook, as GitHub does, until it is accepted.
func (g *glovebox) pushed(hook producer.NewHook, delivery string, body []byte) producer.HookAccepted {
	g.tb.Helper()
	sum := hmac.New(sha256.New, []byte(hook.Secret))
	sum.Write(body)
	var said producer.HookAccepted
	gbtest.Eventually(g.tb, "the push is accepted", func() bool {
		req, err := http.NewRequestWithContext(g.tb.Context(), http.MethodPost, g.url+"/v1/hooks/"+hook.ID, bytes.NewReader(body))
		if err != nil {
			g.tb.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "X-GitHub-Event": "push", "X-GitHub-Delivery": delivery, "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(sum.Sum(nil)),
		} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false // the api is away
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode == http.StatusAccepted && json.Unmarshal(text, &said) == nil
	})
	return said
}

// command runs glovebox as a tenant does from a shell.
func (g *glovebox) command(args ...string) string {
	g.tb.Helper()
	cmd := exec.CommandContext(g.tb.Context(), binary(g.tb, "glovebox"), args...)
	cmd.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
	cmd.Stderr = g.tb.Output()
	out, err := cmd.Output()
	if err != nil {
		g.tb.Fatalf("glovebox %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// pushHook stores docs/pipelines/push.yaml, and makes the hook and the endpoint of docs/pipelines.md.
func (g *glovebox) pushHook() producer.NewHook {
	g.tb.Helper()
	g.command("pipeline", "set", "push", "../docs/pipelines/push.yaml")
	hook, err := g.client.CreateHook(g.tb.Context(), producer.HookRequest{HookSettings: job.HookSettings{
		Template: "push", Sender: job.SenderGitHub, From: map[string]string{"ref": "/body/ref", "commits": "/body/commits"},
	}})
	if err != nil {
		g.tb.Fatal(err)
	}
	endpoint, err := g.client.CreateEndpoint(g.tb.Context(), job.EndpointSettings{URL: g.hook.url, Events: []string{job.EventPipelineCompleted}})
	if err != nil {
		g.tb.Fatal(err)
	}
	g.hook.trust(g.tb, endpoint.Secret)
	return hook
}

// checkPush reads what pipeline.completed says of a push of so many commits.
func (g *glovebox) checkPush(run job.Run, commits int) {
	g.tb.Helper()
	if run.Status != job.Succeeded || run.Steps["count"].Succeeded != commits || run.Steps["warn"].Status != "skipped" || run.Template != "push@1" {
		g.tb.Errorf("got %+v", run)
	}
	var outputs struct {
		Chart struct {
			URL  string
			Size int
		}
		Files int
	}
	if err := json.Unmarshal(run.Outputs, &outputs); err != nil || outputs.Files != 3*commits {
		g.tb.Fatalf("got %s, %v, want %d files", run.Outputs, err, 3*commits)
	}
	res, err := http.Get(outputs.Chart.URL) //nolint:noctx // the test's own server
	if err != nil {
		g.tb.Fatal(err)
	}
	defer res.Body.Close()
	chart, err := io.ReadAll(res.Body)
	if err != nil || !bytes.HasPrefix(chart, []byte("\x89PNG\r\n")) || len(chart) != outputs.Chart.Size {
		g.tb.Errorf("got %d bytes, %v, of a chart of %d", len(chart), err, outputs.Chart.Size)
	}
}

// TestPushToChart is docs/pipelines.md: a push to GitHub becomes a chart in a webhook.
func TestPushToChart(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	hook := g.pushHook()
	said := g.pushed(hook, "one", push(t, "one", 20))
	if said.RunID == "" {
		t.Fatalf("got %+v, want a run", said)
	}
	m := g.hook.messages(t, 1, patience)
	if m[0].Run.ID != said.RunID {
		t.Fatalf("got %+v, want run %s", m[0].Run, said.RunID)
	}
	g.checkPush(m[0].Run, 20)
	if again := g.pushed(hook, "one", push(t, "one", 20)); again.RunID != said.RunID || !again.Duplicate {
		t.Errorf("got %+v, want the run of the first", again)
	}
	if graph := g.command("pipeline", "graph", said.RunID); !strings.Contains(graph, "count   succeeded 20/20  needs branch") {
		t.Errorf("got %s", graph)
	}
	if graph := g.command("pipeline", "graph", "--format", "mermaid", "../docs/pipelines/push.yaml"); !strings.Contains(graph, "s_table --> s_chart") {
		t.Errorf("got %s", graph)
	}
	dir := t.TempDir()
	shown := g.command("pipeline", "run", "--template", "push", "--param", "ref=refs/heads/x", "--param", `commits:=[{"author":{"name":"Ada"},"added":["a"]}]`, "--out", dir)
	if !strings.Contains(shown, "succeeded") || !strings.Contains(shown, "warn  skipped") {
		t.Errorf("got %s", shown)
	}
	if b, err := os.ReadFile(dir + "/chart/chart.png"); err != nil || !bytes.HasPrefix(b, []byte("\x89PNG")) {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
}

// TestRerun: a step's template is mended, and the run goes on from there: what came before runs no second time.
func TestRerun(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	middle := func(source string) {
		t.Helper()
		if _, err := g.client.SetTemplate(t.Context(), "middle", producer.TemplateRequest{Spec: job.TemplateSpec{Spec: job.Spec{Runtime: "bash", Source: source}}}); err != nil {
			t.Fatal(err)
		}
	}
	middle("exit 3")
	file := filepath.Join(t.TempDir(), "three.yaml")
	if err := os.WriteFile(file, []byte(`
steps:
  first: {runtime: bash, source: 'echo from the first > text; echo "{\"n\": 7}" > outputs.json'}
  second: {needs: [first], template: middle}
  third:
    needs: [first, second]
    runtime: bash
    files: [{name: text, from: /needs/first/artifacts/text}]
    args: [{from: /needs/first/outputs/n}]
    source: 'cat text > last; echo "$1" >> last'
outputs:
  last: {from: /needs/third/artifacts/last}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), binary(t, "glovebox"), "pipeline", "run", file, "--wait", "--json")
	run.Env = append(os.Environ(), "GLOVEBOX_URL="+g.url, "GLOVEBOX_TOKEN="+g.token)
	text, err := run.Output() // it exits with 1, as the run has failed
	var first job.Run
	if jsonErr := json.Unmarshal(text, &first); jsonErr != nil || err == nil || first.Status != job.Failed || first.Steps["first"].Status != "succeeded" {
		t.Fatalf("got %s, %v", text, err)
	}
	middle("echo mended")
	dir := t.TempDir()
	shown := g.command("pipeline", "rerun", first.ID, "--wait", "--out", dir)
	if !strings.Contains(shown, "first  succeeded, kept") || !strings.Contains(shown, "third  succeeded") || !strings.Contains(shown, "again after "+first.ID) {
		t.Errorf("got %s", shown)
	}
	if b, err := os.ReadFile(dir + "/last/last"); err != nil || string(b) != "from the first\n7\n" {
		t.Errorf("got %q, %v", b, err)
	}
	page, err := g.client.List(t.Context(), producer.ListOptions{})
	if err != nil || len(page.Jobs) != 4 {
		t.Errorf("got %d jobs, %v, want the first step's, the second's twice and the third's", len(page.Jobs), err)
	}
}
