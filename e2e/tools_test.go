package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestTools: a model's program calls tools over HTTP and by standard input, and sees the chart that
// was drawn for it.
func TestTools(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	command := exec.CommandContext(t.Context(), binary(t, "glovebox"), "mcp")
	command.Env = []string{"GLOVEBOX_URL=" + g.url, "GLOVEBOX_TOKEN=" + g.token}
	var stderr bytes.Buffer
	command.Stderr = &stderr
	t.Cleanup(func() {
		if stderr.Len() > 0 {
			t.Errorf("glovebox mcp said %q", stderr.String())
		}
	})
	for name, transport := range map[string]mcp.Transport{
		"http":  &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp", HTTPClient: &http.Client{Transport: withToken(g.token)}, DisableStandaloneSSE: true},
		"stdio": &mcp.CommandTransport{Command: command},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan string, 16)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { told <- r.Params.Message },
			})
			session, err := client.Connect(t.Context(), transport, nil)
			if err != nil {
				t.Fatal(err)
			}
			params := &mcp.CallToolParams{Name: "run_code", Arguments: json.RawMessage(`{"timeout_ms": 120000, "language": "python", "code": ` +
				`"import matplotlib.pyplot as plt\nprint('drawing', flush=True)\nplt.plot([1, 4, 9])\nplt.show()\nprint(open('in.txt').read())", ` +
				`"files": [{"name": "in.txt", "content": "was read"}]}`)}
			params.SetProgressToken("p")
			r, err := session.CallTool(t.Context(), params)
			if err != nil || r.IsError || len(r.Content) != 3 {
				t.Fatalf("got %+v, %v", r, err)
			}
			if text := r.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, "stdout:\ndrawing\nwas read\n") {
				t.Errorf("got %q", text)
			}
			if image := r.Content[1].(*mcp.ImageContent); !bytes.HasPrefix(image.Data, []byte("\x89PNG")) || image.MIMEType != "image/png" {
				t.Errorf("got an image of %s, %d bytes", image.MIMEType, len(image.Data))
			}
			select {
			case line := <-told:
				if line != "drawing" && line != "was read" {
					t.Errorf("progress: got %q", line)
				}
			case <-time.After(patience):
				t.Error("no progress was told")
			}
			link := r.Content[2].(*mcp.ResourceLink)
			res, err := http.Get(link.URI) //nolint:noctx // it ends with the API
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if res.StatusCode != http.StatusOK || res.ContentLength != *link.Size {
				t.Errorf("%s: got %d with %d bytes, want %d", link.URI, res.StatusCode, res.ContentLength, *link.Size)
			}
			r, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_code", Arguments: json.RawMessage(`{"timeout_ms": 120000, "language": "bash", "code": "echo no >&2; exit 3"}`)})
			if err != nil || !r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "exit code 3\nstderr:\nno\n") {
				t.Errorf("got %+v, %v", r, err)
			}
			call := func(name, arguments string) (string, map[string]any) {
				t.Helper()
				r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(arguments)})
				if err != nil || r.IsError {
					t.Fatalf("%s: got %+v, %v", arguments, r, err)
				}
				outcome, _ := r.StructuredContent.(map[string]any)
				return r.Content[0].(*mcp.TextContent).Text, outcome
			}
			_, outcome := call("run_code", `{"session_id": "new", "timeout_ms": 120000, "language": "python", "code": "x = 41"}`)
			id, _ := outcome["session_id"].(string)
			text, outcome := call("run_code", `{"session_id": "`+id+`", "code": "x + 1"}`)
			if !strings.Contains(text, "stdout:\n42\n") || !strings.Contains(text, "session_id: "+id) || outcome["state"] != "kept" {
				t.Errorf("got %q, %v", text, outcome)
			}
			if text, _ := call("write_file", `{"session_id": "`+id+`", "path": "d/in.txt", "content": "a\nb"}`); text != "d/in.txt is written, 3 bytes.\n" {
				t.Errorf("got %q", text)
			}
			call("run_code", `{"session_id": "`+id+`", "code": "open('out.txt', 'w').write(open('d/in.txt').read().upper())"}`)
			if text, _ := call("read_file", `{"session_id": "`+id+`", "path": "out.txt"}`); text != "A\nB" {
				t.Errorf("got %q", text)
			}
			if text, _ := call("end_session", `{"session_id": "`+id+`"}`); text != "The session has ended.\n" {
				t.Errorf("got %q", text)
			}
			if err := session.Close(); err != nil {
				t.Errorf("the end: %v", err)
			}
		})
	}
}

// withToken adds a token to requests.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}
