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
	send := func(method, path, token, key string, body any) (*http.Response, string) {
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
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(answer)
	}
	template := map[string]any{"spec": map[string]any{"runtime": "python", "source": adder}}
	if res, body := send(http.MethodPut, "/v1/templates/adder", g.token, "", template); res.StatusCode != http.StatusOK {
		t.Fatalf("set template: got %d %s", res.StatusCode, body)
	}
	settings := job.HookSettings{Template: "adder", Sender: job.SenderBearer, Body: job.BodyStdin, Answer: job.AnswerResult, AnswerSeconds: job.MaxAnswerSeconds, ContentType: "application/json"}
	res, body := send(http.MethodPost, "/v1/hooks", g.token, "", producer.HookRequest{HookSettings: settings})
	var hook producer.NewHook
	if err := json.Unmarshal([]byte(body), &hook); err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("create hook: got %d %s, %v", res.StatusCode, body, err)
	}
	// As often as a busy machine needs: the same delivery is the same job.
	call := func(key string, request any) (*http.Response, string) {
		t.Helper()
		for {
			res, body := send(http.MethodPost, hook.Path, hook.Secret, key, request)
			if res.StatusCode != http.StatusGatewayTimeout || !strings.Contains(body, "wait_over") || t.Context().Err() != nil {
				return res, body
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
		res, body := call(tt.key, tt.request)
		id := res.Header.Get("Glovebox-Job-Id")
		if res.StatusCode != tt.status || res.Header.Get("Content-Type") != tt.kind || tt.body != "" && body != tt.body || id == "" {
			t.Errorf("%s: got %d %v %.300q, want %d %s %.300q", tt.key, res.StatusCode, res.Header, body, tt.status, tt.kind, tt.body)
		}
		if strings.Contains(body, "private") {
			t.Errorf("%s: got %s, which tells what the job printed", tt.key, body)
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
