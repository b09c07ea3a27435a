package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-run/glovebox/internal/docstest"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// agentsPage is where a newcomer is: a machine with the command, and the directory that glovebox dev runs in.
type agentsPage struct {
	g    *glovebox
	home string
	node string
}

// TestAgentsPage: every example of docs/agents.md does what the page says, as it stands there, on real sandboxes. Of a model there is only what its
// provider's API would answer.
func TestAgentsPage(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "python3")
	text, err := os.ReadFile("../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	p := agentsPage{start(t, options{workerEnv: []string{"GLOVEBOX_WARM=1", "GLOVEBOX_PRELOAD=0"}}), t.TempDir(), newNode(t, gbtest.NPM(t, "testdata/mcp-client"))}
	data := filepath.Join(p.home, ".glovebox") // as dev leaves it
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "env"), []byte("GLOVEBOX_TOKEN="+p.g.token+"\nGLOVEBOX_URL="+p.g.url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, b := range (docstest.Document{Text: string(text)}).Blocks() {
		if strings.HasPrefix(b.Text, "glovebox dev ") {
			continue // TestDev runs it
		}
		ran[b.Language]++
		switch b.Language {
		case "sh":
			if out := p.run(t, p.command("bash", "-euo", "pipefail", "-c", b.Text)); !strings.Contains(out, `"stdout":"42\n"`) {
				t.Errorf("line %d: got %s", b.Line, out)
			}
		case "console":
			p.console(t, b)
		case "json":
			p.configured(t, b)
		case "python":
			p.python(t, b)
		case "typescript":
			p.typescript(t, b)
		default:
			t.Errorf("line %d: nothing runs a block of %q", b.Line, b.Language)
		}
	}
	for language, want := range map[string]int{"sh": 2, "console": 1, "json": 3, "python": 1, "typescript": 1} {
		if ran[language] != want {
			t.Errorf("ran %d blocks of %s, want %d", ran[language], language, want)
		}
	}
}

// command is one of a newcomer's, with what dev's env file has.
func (p agentsPage) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.g.tb.Context(), name, args...)
	cmd.Dir = p.home
	cmd.Env = []string{"PATH=" + filepath.Dir(binary(p.g.tb, "glovebox")) + ":" + os.Getenv("PATH"), "HOME=" + p.home, "GLOVEBOX_URL=" + p.g.url, "GLOVEBOX_TOKEN=" + p.g.token}
	return cmd
}

func (p agentsPage) run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, strings.Join(cmd.Args, " "), out)
	}
	return string(out)
}

// console runs commands, each with what it says, as far as the page has that; … is whatever.
func (p agentsPage) console(t *testing.T, b docstest.Block) {
	t.Helper()
	for _, part := range strings.Split("\n"+b.Text, "\n$ ")[1:] {
		line, want, _ := strings.Cut(part, "\n")
		out := p.run(t, p.command("bash", "-c", line))
		pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", ".*")
		if want != "" && !regexp.MustCompile(`^`+pattern+`\s*$`).MatchString(out) {
			t.Errorf("%s: got %s, want %s", line, out, want)
		}
	}
}

// configured starts, or reaches, the server that a client's settings name, and has it run code.
func (p agentsPage) configured(t *testing.T, b docstest.Block) {
	t.Helper()
	text := strings.NewReplacer("/usr/local/bin/glovebox", binary(t, "glovebox"), "/home/me", p.home, "https://glovebox.example.com", p.g.url, "…", p.g.token).Replace(b.Text)
	var settings struct {
		MCPServers map[string]struct {
			Type, URL string
			Headers   map[string]string
			Command   string
			Args      []string
			Env       map[string]string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		t.Fatalf("line %d: %v", b.Line, err)
	}
	server := settings.MCPServers["glovebox"]
	var transport mcp.Transport
	if server.Type == "http" {
		token, _ := strings.CutPrefix(server.Headers["Authorization"], "Bearer ")
		transport = &mcp.StreamableClientTransport{Endpoint: server.URL, HTTPClient: &http.Client{Transport: withToken(token)}, DisableStandaloneSSE: true}
	} else {
		cmd := exec.CommandContext(t.Context(), server.Command, server.Args...) //nolint:gosec // it is what the page says
		cmd.Dir = "/"
		cmd.Env = []string{"HOME=" + t.TempDir()}
		for name, value := range server.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		transport = &mcp.CommandTransport{Command: cmd}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatalf("line %d: %v", b.Line, err)
	}
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Arguments: json.RawMessage(`{"language": "python", "code": "print(6 * 7)"}`)})
	if err != nil || r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "stdout:\n42\n") {
		t.Errorf("line %d: got %+v, %v", b.Line, r, err)
	}
	if err := session.Close(); err != nil {
		t.Errorf("line %d: the end: %v", b.Line, err)
	}
}

// python runs the loop over chat completions.
func (p agentsPage) python(t *testing.T, b docstest.Block) {
	t.Helper()
	model := p.model(t, "/v1/chat/completions", func(r *http.Request, ask modelAsk) string {
		if r.Header.Get("Authorization") != "Bearer sk-test" || len(ask.Tools) != 6 || ask.Tools[0].Type != "function" || ask.Tools[0].Function.Name != "run_code" {
			t.Errorf("got %v with %+v", r.Header, ask.Tools)
		}
		last := ask.Messages[len(ask.Messages)-1]
		if last.Role == "user" {
			return `{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "run_code",
				"arguments": "{\"language\": \"python\", \"timeout_ms\": 60000, \"code\": \"n, found = 1, 0\\nwhile found < 1000:\\n    n += 1\\n    found += all(n % d for d in range(2, int(n ** .5) + 1))\\nprint(n)\"}"}}]}}]}`
		}
		if last.Role != "tool" || last.ToolCallID != "call_1" || !strings.Contains(string(last.Content), `stdout:\n7919\n`) {
			t.Errorf("got the message %s %s %s", last.Role, last.ToolCallID, last.Content)
		}
		return `{"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "It is 7919."}}]}`
	})
	cmd := p.command("python3", "-I", "-c", b.Text)
	cmd.Env = append(cmd.Env, "OPENAI_BASE_URL="+model+"/v1", "OPENAI_API_KEY=sk-test")
	if out := p.run(t, cmd); out != "It is 7919.\n" {
		t.Errorf("line %d: got %q", b.Line, out)
	}
}

// typescript runs the loop over Anthropic's messages.
func (p agentsPage) typescript(t *testing.T, b docstest.Block) {
	t.Helper()
	model := p.model(t, "/v1/messages", func(r *http.Request, ask modelAsk) string {
		if r.Header.Get("X-Api-Key") != "sk-test" || r.Header.Get("Anthropic-Version") == "" || len(ask.Tools) != 6 || ask.Tools[0].Name != "run_code" || ask.Tools[0].InputSchema == nil {
			t.Errorf("got %v with %+v", r.Header, ask.Tools)
		}
		last := ask.Messages[len(ask.Messages)-1]
		var results []struct {
			Type      string
			ToolUseID string `json:"tool_use_id"`
			IsError   bool   `json:"is_error"`
			Content   []struct {
				Type, Text string
				Source     struct {
					Type      string
					MediaType string `json:"media_type"`
					Data      string
				}
			}
		}
		if json.Unmarshal(last.Content, &results) != nil { // it is the question
			return `{"id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [{"type": "text", "text": "I draw them."}, {"type": "tool_use", "id": "toolu_1", "name": "run_code", "input":
				{"language": "python", "timeout_ms": 60000, "code": "import matplotlib.pyplot as plt\nplt.plot([n for n in range(2, 542) if all(n % d for d in range(2, n))])\nplt.show()"}}]}`
		}
		seen := false
		for _, c := range results[0].Content {
			image, err := base64.StdEncoding.DecodeString(c.Source.Data)
			seen = seen || c.Type == "image" && c.Source.Type == "base64" && c.Source.MediaType == "image/png" && err == nil && strings.HasPrefix(string(image), "\x89PNG")
		}
		if !seen || results[0].Type != "tool_result" || results[0].ToolUseID != "toolu_1" || results[0].IsError {
			t.Errorf("got the message %.2000s", last.Content)
		}
		return `{"id": "msg_2", "type": "message", "role": "assistant", "stop_reason": "end_turn", "content": [{"type": "text", "text": "It is nearly a line."}]}`
	})
	program := filepath.Join(p.home, "agent.mts")
	if err := os.WriteFile(program, []byte(b.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := p.command(p.node, "--disable-warning=ExperimentalWarning", program)
	cmd.Env = append(cmd.Env, "ANTHROPIC_BASE_URL="+model, "ANTHROPIC_API_KEY=sk-test")
	if out := p.run(t, cmd); out != "It is nearly a line.\n" {
		t.Errorf("line %d: got %q", b.Line, out)
	}
}

// modelAsk is what a loop sends to its model, as either provider has it.
type modelAsk struct {
	Messages []struct {
		Role       string
		Content    json.RawMessage
		ToolCallID string `json:"tool_call_id"`
	}
	Tools []struct {
		Type, Name  string
		InputSchema json.RawMessage `json:"input_schema"`
		Function    struct{ Name string }
	}
}

// model stands for a provider's API, which answers what was recorded of one.
func (p agentsPage) model(t *testing.T, path string, answer func(r *http.Request, ask modelAsk) string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask modelAsk
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || r.URL.Path != path || len(ask.Messages) == 0 {
			t.Errorf("%s: %v, with %d messages", r.URL.Path, err, len(ask.Messages))
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(answer(r, ask)))
	}))
	t.Cleanup(server.Close)
	return server.URL
}
