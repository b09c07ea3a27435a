package api_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/tools"
)

// pixel is a picture.
var pixel = func() string {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		panic(err)
	}
	return b.String()
}()

const (
	runHello  = `{"language":"python","code":"print('hello')"}`
	callHello = `{"arguments":` + runHello + `}`
)

// endNext ends the tenant's next job as a worker would, in the background.
func (w *world) endNext(t *testing.T, files map[string]string, change func(*job.Result)) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.End(t, w.Start(t, w.queued(t)), files, change)
	}()
	t.Cleanup(func() { <-done })
}

// queued waits for a job of the tenant that is queued, and returns its id.
func (w *world) queued(t *testing.T, headers ...string) (id string) {
	t.Helper()
	gbtest.Eventually(t, "a job is queued", func() bool {
		var page struct {
			Jobs []job.Summary `json:"jobs"`
		}
		a := w.do(t, http.MethodGet, "/v1/jobs?status=queued", http.NoBody, headers...)
		if err := json.Unmarshal(a.body, &page); err != nil || len(page.Jobs) == 0 {
			return false
		}
		id = page.Jobs[0].ID
		return true
	})
	return id
}

// TestListTools: each provider's form, with the languages of this Glovebox.
func TestListTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	for _, format := range tools.Formats() {
		a := w.do(t, http.MethodGet, "/v1/tools?format="+string(format), http.NoBody)
		if a.status != http.StatusOK {
			t.Fatalf("%s: got %d %s", format, a.status, a.body)
		}
		golden(t, "tools-"+string(format)+".json", indented(t, a.body))
	}
	for query, want := range map[string]int{"": http.StatusOK, "?format=gemini": http.StatusUnprocessableEntity} {
		if a := w.do(t, http.MethodGet, "/v1/tools"+query, http.NoBody); a.status != want {
			t.Errorf("%q: got %d %s, want %d", query, a.status, a.body, want)
		}
	}
}

// TestCallTool: what a model reads of a job that was run for it.
func TestCallTool(t *testing.T) {
	w := newWorld(t)
	w.Runtimes(t)
	for name, body := range map[string]string{
		"object": callHello,
		"text":   `{"arguments":` + marshal(t, runHello) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			w.endNext(t, map[string]string{"chart-1.png": pixel}, nil)
			answer := w.call(t, "run_code", body)
			if answer.IsError || answer.JobID == "" || len(answer.Content) != 3 {
				t.Fatalf("got %+v", answer)
			}
			text, image, link := answer.Content[0], answer.Content[1], answer.Content[2]
			if !strings.Contains(text.Text, "status: succeeded, exit code 0\nstdout:\nhello\n") || !strings.Contains(text.Text, "- chart-1.png (image/png, ") || !strings.Contains(text.Text, "job_id: "+answer.JobID) {
				t.Errorf("got text %q", text.Text)
			}
			if image.Type != "image" || string(image.Data) != pixel || image.MediaType != "image/png" {
				t.Errorf("got image %+v", image)
			}
			if got := w.do(t, http.MethodGet, strings.TrimPrefix(link.URL, w.srv.URL), http.NoBody, "Authorization: "); got.status != http.StatusFound {
				t.Errorf("link %s: got %d", link.URL, got.status)
			}
			again := w.call(t, "get_job", `{"arguments":{"job_id":"`+answer.JobID+`","wait_seconds":30}}`)
			if again.Content[0].Text != text.Text {
				t.Errorf("get_job: got %q", again.Content[0].Text)
			}
		})
	}
}

// TestCallToolFailed: a program that failed is an error for the model, with its whole story.
func TestCallToolFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.endNext(t, nil, func(r *job.Result) {
		one := 1
		r.Status, r.ExitCode, r.Stdout = job.Failed, &one, strings.Repeat("é", 10_000)
		r.Stderr = "Traceback" + strings.Repeat("x", 20_000) + "ValueError: the end"
	})
	answer := w.call(t, "run_code", callHello)
	text := answer.Content[0].Text
	if !answer.IsError || answer.Outcome.Status != job.Failed || *answer.Outcome.ExitCode != 1 {
		t.Errorf("got %+v", answer)
	}
	if len(text) > 20_000 || !strings.Contains(text, "bytes are left out here") || !strings.Contains(text, "Traceback") || !strings.Contains(text, "ValueError: the end") || strings.ContainsRune(text, '\ufffd') {
		t.Errorf("got %d bytes of text: %.200s", len(text), text)
	}
}

// TestCallToolRefused: what can't be done is said so that a model, or its program, can mend it.
func TestCallToolRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	for name, c := range map[string]struct {
		tool, body string
		status     int
		says       string
		headers    []string
	}{
		"no tool":                  {"rm_rf", callHello, http.StatusNotFound, "there is no such tool", nil},
		"no token":                 {"run_code", callHello, http.StatusUnauthorized, "needs a token", []string{"Authorization: "}},
		"no JSON":                  {"run_code", `{"arguments"`, http.StatusBadRequest, "not a call of a tool", nil},
		"nothing":                  {"run_code", `{}`, http.StatusBadRequest, "not a call of a tool", nil},
		"another field":            {"run_code", `{"arguments":{},"code":"x"}`, http.StatusBadRequest, "not a call of a tool", nil},
		"another media type":       {"run_code", callHello, http.StatusUnsupportedMediaType, "application/json", []string{"Content-Type: text/plain"}},
		"unknown argument":         {"run_code", `{"arguments":{"code":"x","language":"python","lang":"x"}}`, http.StatusOK, "lang: is not a known field", nil},
		"wrong type":               {"run_code", `{"arguments":{"code":7,"language":"python"}}`, http.StatusOK, "code: is not a string", nil},
		"no object":                {"run_code", `{"arguments":[1]}`, http.StatusOK, "arguments: is not an object", nil},
		"half a character":         {"run_code", `{"arguments":{"code":"\udc80","language":"python"}}`, http.StatusBadRequest, "half a character", nil},
		"half in text":             {"run_code", `{"arguments":"{\"code\":\"\\udc80\",\"language\":\"python\"}"}`, http.StatusOK, "code: has an escape that is half a character", nil},
		"twice":                    {"run_code", `{"arguments":{"code":"1","code":"2","language":"python"}}`, http.StatusOK, "code: appears more than once", nil},
		"in capitals":              {"run_code", `{"arguments":{"code":"1","CODE":"2","language":"python"}}`, http.StatusOK, "CODE: is not a known field", nil},
		"text that is no JSON":     {"run_code", `{"arguments":"print(1)"}`, http.StatusOK, "arguments: is not JSON", nil},
		"more behind":              {"run_code", `{"arguments":"{} {}"}`, http.StatusOK, "after top-level value", nil},
		"no code":                  {"run_code", `{"arguments":{"code":" ","language":"python"}}`, http.StatusOK, "code: is empty", nil},
		"no such language":         {"run_code", `{"arguments":{"code":"x","language":"cobol"}}`, http.StatusOK, "language: is not a runtime of this Glovebox; allowed: bash, python, python3", nil},
		"too long":                 {"run_code", `{"arguments":{"code":"x","language":"python","timeout_ms":999999999}}`, http.StatusOK, "timeout_ms: is out of range", nil},
		"negative":                 {"run_code", `{"arguments":{"code":"x","language":"python","timeout_ms":-1}}`, http.StatusOK, "timeout_ms: is negative", nil},
		"a file outside":           {"run_code", `{"arguments":{"code":"x","language":"python","files":[{"name":"../x","content":"x"}]}}`, http.StatusOK, "files[0].name", nil},
		"no language":              {"run_code", `{"arguments":{"code":"x"}}`, http.StatusOK, "language: is missing", nil},
		"no session":               {"run_code", `{"arguments":{"code":"x","session_id":"default-s-abcdefghijklmnopqrstuvwxyz"}}`, http.StatusOK, "there is no such session", nil},
		"another's session":        {"end_session", `{"arguments":{"session_id":"other-s-abcdefghijklmnopqrstuvwxyz"}}`, http.StatusOK, "there is no such session", nil},
		"no sessions":              {"run_code", `{"arguments":{"code":"x","language":"bash","session_id":"new"}}`, http.StatusOK, "language: has no sessions", nil},
		"a file outside a session": {"run_code", `{"arguments":{"code":"x","language":"python","session_id":"new","files":[{"name":"../x","content":"x"}]}}`, http.StatusOK, "files[0].name", nil},
		"stdin in a session":       {"run_code", `{"arguments":{"code":"x","language":"python","session_id":"new","stdin":"x"}}`, http.StatusOK, "stdin: a session has none", nil},
		"another's file":           {"read_file", `{"arguments":{"session_id":"other-s-abcdefghijklmnopqrstuvwxyz","path":"a"}}`, http.StatusOK, "there is no such session", nil},
		"a file of the system":     {"read_file", `{"arguments":{"session_id":"default-s-abcdefghijklmnopqrstuvwxyz","path":"/etc/passwd"}}`, http.StatusOK, "path: is absolute", nil},
		"a file without content":   {"write_file", `{"arguments":{"session_id":"default-s-abcdefghijklmnopqrstuvwxyz","path":"a"}}`, http.StatusOK, "content: is missing", nil},
		"a file above":             {"write_file", `{"arguments":{"session_id":"default-s-abcdefghijklmnopqrstuvwxyz","path":"../a","content":""}}`, http.StatusOK, "path: is not a plain path", nil},
		"no such job":              {"get_job", `{"arguments":{"job_id":"default-abcdefghijklmnopqrstuvwxyz"}}`, http.StatusOK, "there is no such job", nil},
		"another's job":            {"get_job", `{"arguments":{"job_id":"other-abcdefghijklmnopqrstuvwxyz"}}`, http.StatusOK, "there is no such job", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.do(t, http.MethodPost, "/v1/tools/"+c.tool, strings.NewReader(c.body), append([]string{"Content-Type: application/json"}, c.headers...)...)
			var answer tools.Answer
			_ = json.Unmarshal(a.body, &answer) // of a problem it is none
			said := string(a.body)
			if len(answer.Content) > 0 {
				said = answer.Content[0].Text
			}
			if a.status != c.status || !strings.Contains(said, c.says) || c.status == http.StatusOK && !answer.IsError {
				t.Errorf("got %d %s, want %d with %q", a.status, a.body, c.status, c.says)
			}
		})
	}
}

// call calls a tool, which must be answered.
func (w *world) call(t *testing.T, tool, body string) (answer tools.Answer) {
	t.Helper()
	a := w.do(t, http.MethodPost, "/v1/tools/"+tool, strings.NewReader(body), "Content-Type: application/json")
	if err := json.Unmarshal(a.body, &answer); err != nil || a.status != http.StatusOK {
		t.Fatalf("got %d %s, %v", a.status, a.body, err)
	}
	return answer
}

// TestListSessionsTool: a model finds its sessions again, and no others.
func TestListSessionsTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	if text := w.call(t, "list_sessions", `{"arguments":{}}`).Content[0].Text; !strings.HasPrefix(text, "There is no session.") {
		t.Errorf("got %q", text)
	}
	ids := map[string]string{}
	for name, metadata := range map[string]string{"own": `{"tool":"run_code"}`, "ended": `{"tool":"run_code"}`, "another's": `{"tool":"notebook"}`} {
		var x job.Session
		w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python","metadata":`+metadata+`}`, http.StatusAccepted, &x)
		ids[name] = x.ID
	}
	w.expecting(t, "DELETE", "/v1/sessions/"+ids["ended"], "", http.StatusOK, nil)
	text := w.call(t, "list_sessions", `{"arguments":{}}`).Content[0].Text
	if !strings.HasPrefix(text, "session_id "+ids["own"]+": python, queued, 0 calls, used last at 20") || strings.Count(text, "\n") != 1 {
		t.Errorf("got %q, want %s alone", text, ids["own"])
	}
}

// TestOddImages: what a program says is an image goes to a model as one only if it is; the link is there
// in any case.
func TestOddImages(t *testing.T) {
	w := newWorld(t)
	w.Runtimes(t)
	huge := []byte(pixel)
	copy(huge[16:], "\x00\x00\xff\xff\x00\x00\xff\xff") // the header's width and height, whose sum is wrong then
	for name, content := range map[string]string{
		"cut off": pixel[:len(pixel)-4], "no picture": "\x89PNG\r\n\x1a\nnot really", "huge": string(huge), "too large": pixel + strings.Repeat("x", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			w.endNext(t, map[string]string{"chart-1.png": content}, nil)
			answer := w.call(t, "run_code", callHello)
			if len(answer.Content) != 2 || answer.Content[1].Type != "link" {
				t.Errorf("got %d pieces: %.300v", len(answer.Content), answer.Content)
			}
		})
	}
}
