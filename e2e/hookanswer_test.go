package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// adder is a web service of a template's size: it reads a request on standard input, and answers with a sum,
// with a refusal in its own words, or with a chart's bytes.
const adder = `
import json, pathlib, sys
request = json.load(sys.stdin)
out = pathlib.Path("response.json")
if "boom" in request:
    print("private"); sys.exit(3)
if "file" in request:
    pathlib.Path("bytes.bin").write_bytes(bytes(range(256)) * request["file"])
    out.write_text(json.dumps({"artifact": "bytes.bin", "headers": {"Content-Type": "application/octet-stream"}}))
elif "a" not in request:
    out.write_text(json.dumps({"status": 422, "body": json.dumps({"missing": "a"})}))
else:
    print(json.dumps({"sum": request["a"] + request["b"]}))
`

// TestHookAnswersResult: a hook answers what its job printed in a real sandbox, once for each delivery.
func TestHookAnswersResult(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	type answer struct {
		status int
		header http.Header
		body   string
	}
	send := func(method, path, token, key string, body any) answer {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, g.url+path, bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err = io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer{res.StatusCode, res.Header, string(text)}
	}
	template := map[string]any{"spec": map[string]any{"runtime": "python", "source": adder, "limits": map[string]any{"wall_ms": 60_000, "cpu_ms": 60_000}}}
	if got := send(http.MethodPut, "/v1/templates/adder", g.token, "", template); got.status != http.StatusOK {
		t.Fatalf("set template: got %d %s", got.status, got.body)
	}
	settings := job.HookSettings{Template: "adder", Sender: job.SenderBearer, Body: job.BodyStdin, Answer: job.AnswerResult, AnswerSeconds: job.MaxAnswerSeconds, ContentType: "application/json"}
	made := send(http.MethodPost, "/v1/hooks", g.token, "", producer.HookRequest{HookSettings: settings})
	var hook producer.NewHook
	if err := json.Unmarshal([]byte(made.body), &hook); err != nil || made.status != http.StatusCreated {
		t.Fatalf("create hook: got %d %s, %v", made.status, made.body, err)
	}
	// As often as a busy machine needs: the same delivery is the same job.
	call := func(key string, request any) answer {
		t.Helper()
		for {
			got := send(http.MethodPost, hook.Path, hook.Secret, key, request)
			if got.status != http.StatusGatewayTimeout || !strings.Contains(got.body, "wait_over") || t.Context().Err() != nil {
				return got
			}
		}
	}
	jobs := map[string]bool{}
	for _, tt := range []struct {
		key     string
		request any
		status  int
		kind    string
		body    string
	}{
		{"sum", map[string]int{"a": 1, "b": 2}, http.StatusOK, "application/json", "{\"sum\": 3}\n"},
		{"sum", map[string]int{"a": 40, "b": 2}, http.StatusOK, "application/json", "{\"sum\": 3}\n"}, // the delivery of before
		{"other", map[string]int{"a": 40, "b": 2}, http.StatusOK, "application/json", "{\"sum\": 42}\n"},
		{"refused", map[string]int{}, http.StatusUnprocessableEntity, "application/json", `{"missing": "a"}`},
		{"file", map[string]int{"file": 1000}, http.StatusOK, "application/octet-stream", strings.Repeat(everyByte(), 1000)},
		{"fails", map[string]int{"boom": 1}, http.StatusInternalServerError, producer.ProblemMediaType, ""},
	} {
		got := call(tt.key, tt.request)
		id := got.header.Get("Glovebox-Job-Id")
		if got.status != tt.status || got.header.Get("Content-Type") != tt.kind || tt.body != "" && got.body != tt.body || id == "" {
			t.Errorf("%s: got %d %v %.300q, want %d %s %.300q", tt.key, got.status, got.header, got.body, tt.status, tt.kind, tt.body)
		}
		if strings.Contains(got.body, "private") {
			t.Errorf("%s: got %s, which tells what the job printed", tt.key, got.body)
		}
		jobs[id] = true
	}
	if len(jobs) != 5 {
		t.Errorf("got %d jobs, want 5", len(jobs))
	}
}

func everyByte() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}
