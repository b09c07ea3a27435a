package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/webhook"
)

// judge0 is a client as front ends of Judge0 CE are, written by its documentation.
type judge0 struct {
	g     *glovebox
	url   string
	token string // "" sends none
}

// object is JSON as a client without a schema reads it.
type object = map[string]any

// do asks, and returns the status and the body. A body that is not a string is sent as JSON.
func (j judge0) do(t *testing.T, method, path string, body any, headers ...string) (status int, answer string) {
	t.Helper()
	said := j.ask(t, method, path, jsonOf(t, body), headers...)
	return said.status, said.body
}

func (j judge0) ask(t *testing.T, method, path, body string, headers ...string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, j.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	askFirst(req)
	req.Header.Set("Content-Type", "application/json")
	if j.token != "" {
		req.Header.Set("X-Auth-Token", j.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{res.StatusCode, res.Header, string(b)}
}

// want asks, and decodes the answer, which has to have that status.
func (j judge0) want(t *testing.T, status int, method, path string, body any, headers ...string) object {
	t.Helper()
	got, text := j.do(t, method, path, body, headers...)
	if got != status {
		t.Fatalf("%s %s: got %d %.300s, want %d", method, path, got, text, status)
	}
	answer := object{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatalf("%s %s: got %.300s: %v", method, path, text, err)
		}
	}
	return answer
}

// run submits, and looks until the submission has ended, as clients do.
func (j judge0) run(t *testing.T, query string, submission object) object {
	t.Helper()
	token := j.want(t, http.StatusCreated, http.MethodPost, "/submissions?wait=false&"+query, submission)["token"]
	if !uuid4.MatchString(fmt.Sprint(token)) {
		t.Fatalf("got the token %v, want a UUID of version 4", token)
	}
	return j.await(t, token, query)
}

func (j judge0) await(t *testing.T, token any, query string) object {
	t.Helper()
	var answer object
	gbtest.Eventually(t, "the submission ends", func() bool {
		answer = j.want(t, http.StatusOK, http.MethodGet, fmt.Sprintf("/submissions/%s?fields=*&%s", token, query), nil)
		id, _ := answer["status_id"].(float64)
		return id > 2
	})
	return answer
}

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func zipped(t *testing.T, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i+1 < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err == nil {
			_, err = io.WriteString(f, files[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// unzipped is what the files of a zip in base64 hold.
func unzipped(t *testing.T, text any) map[string]string {
	t.Helper()
	archive, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(fmt.Sprint(text), "\n", ""))
	if err != nil {
		t.Fatalf("got %v, want a zip in base64", text)
	}
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		content, err := r.Open(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(content)
		if err = errors.Join(err, content.Close()); err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(b)
	}
	return files
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// judge0Program is a submission, and what becomes of it.
type judge0Program struct {
	query string
	sent  object
	want  object // fields of the answer
}

// judge0Programs has each status that a program may come to, and each field that changes what is run or answered.
func judge0Programs(t *testing.T) map[string]judge0Program {
	t.Helper()
	const (
		python, bash, c, cpp, executable, multi, plainText = 71, 46, 50, 54, 44, 89, 43
	)
	none := any(nil)
	return map[string]judge0Program{
		"accepted": {"", object{"language_id": python, "source_code": "print(6 * 7)"}, object{
			"status": object{"id": 3.0, "description": "Accepted"}, "stdout": "42\n", "stderr": none, "compile_output": none, "message": none, "exit_code": 0.0, "exit_signal": none,
			"language_id": 71.0, "source_code": "print(6 * 7)", "stdin": none, "cpu_time_limit": "5.0", "wall_time_limit": "10.0", "stack_limit": 64000.0,
			"number_of_runs": 1.0, "enable_network": false, "callback_url": none,
		}},
		"numbers as text":      {"", object{"language_id": "71", "source_code": "print(1)", "cpu_time_limit": "12.5"}, object{"status_id": 3.0, "cpu_time_limit": "12.5"}},
		"unknown fields":       {"", object{"language_id": python, "source_code": "print(1)", "whatever": object{"a": 1}}, object{"status_id": 3.0}},
		"expected":             {"", object{"language_id": python, "source_code": "print('a  \\nb\\n\\n')", "expected_output": "a\nb"}, object{"status_id": 3.0, "expected_output": "a\nb"}},
		"wrong answer":         {"", object{"language_id": python, "source_code": "print('a')", "expected_output": "b"}, object{"status": object{"id": 4.0, "description": "Wrong Answer"}, "stdout": "a\n"}},
		"nothing expected":     {"", object{"language_id": bash, "source_code": "true", "expected_output": ""}, object{"status_id": 3.0}},
		"stdin":                {"", object{"language_id": python, "source_code": "print(input()[::-1])", "stdin": "abc"}, object{"status_id": 3.0, "stdout": "cba\n", "stdin": "abc"}},
		"exit code":            {"", object{"language_id": bash, "source_code": "echo oh >&2; exit 3"}, object{"status": object{"id": 11.0, "description": "Runtime Error (NZEC)"}, "exit_code": 3.0, "message": "Exited with error status 3", "stderr": "oh\n"}},
		"segmentation fault":   {"", object{"language_id": c, "source_code": "int main(void) { *(volatile int *)8 = 1; }"}, object{"status_id": 7.0, "exit_signal": 11.0, "message": "Caught fatal signal 11", "exit_code": none}},
		"floating point error": {"", object{"language_id": c, "source_code": "#include <signal.h>\nint main(void) { raise(SIGFPE); }"}, object{"status_id": 9.0, "exit_signal": 8.0}},
		"abort":                {"", object{"language_id": cpp, "source_code": "#include <cstdlib>\nint main() { abort(); }"}, object{"status_id": 10.0, "exit_signal": 6.0}},
		"another signal":       {"", object{"language_id": c, "source_code": "#include <signal.h>\nint main(void) { raise(SIGTERM); }"}, object{"status_id": 12.0, "exit_signal": 15.0}},
		"CPU time":             {"", object{"language_id": c, "source_code": "int main(void) { for (volatile int i = 0;; i++); }", "cpu_time_limit": 0.5, "cpu_extra_time": 0.5}, object{"status": object{"id": 5.0, "description": "Time Limit Exceeded"}, "message": "Time limit exceeded", "stderr": none}},
		"wall time":            {"", object{"language_id": bash, "source_code": "echo begun; sleep 100", "wall_time_limit": 8}, object{"status_id": 5.0, "stdout": "begun\n", "stderr": none, "message": "Time limit exceeded (wall clock)"}},
		"memory":               {"", object{"language_id": python, "source_code": "x = [b'x' * (1 << 21) for _ in range(1000)]", "memory_limit": 131072, "cpu_time_limit": 15, "wall_time_limit": 30}, object{"status_id": 12.0, "exit_signal": 9.0}},
		"output":               {"", object{"language_id": bash, "source_code": "yes", "max_file_size": 10}, object{"status_id": 8.0}},
		"compile error":        {"", object{"language_id": c, "source_code": "int main(void) { return answer; }"}, object{"status": object{"id": 6.0, "description": "Compilation Error"}, "stdout": none, "stderr": none, "time": none, "memory": none, "exit_code": none, "message": none}},
		"a compiler's limits":  {"", object{"language_id": c, "source_code": "#include <stdio.h>\nint main(void) { puts(\"one\"); }", "max_processes_and_or_threads": 1}, object{"status_id": 3.0, "stdout": "one\n"}},
		"compiler options":     {"", object{"language_id": c, "compiler_options": "-DANSWER='42' -Wall;", "source_code": "#include <stdio.h>\nint main(void) { printf(\"%d\\n\", ANSWER); }"}, object{"status_id": 3.0, "stdout": "42\n", "compiler_options": "-DANSWER='42' -Wall;"}},
		"arguments":            {"", object{"language_id": python, "command_line_arguments": "one 'two three' $HOME `id`", "source_code": "import sys; print(sys.argv[1:])"}, object{"status_id": 3.0, "stdout": "['one', 'two three', 'HOME', 'id']\n"}},
		"merged streams":       {"", object{"language_id": bash, "source_code": "echo a; echo b >&2; echo c", "redirect_stderr_to_stdout": true}, object{"status_id": 3.0, "stdout": "a\nb\nc\n", "stderr": none, "redirect_stderr_to_stdout": true}},
		"several runs":         {"", object{"language_id": python, "source_code": "print(1)", "number_of_runs": 3}, object{"status_id": 3.0, "stdout": "1\n", "number_of_runs": 3.0}},
		"base64": {"base64_encoded=true", object{"language_id": python, "source_code": encoded("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read() * 20)"), "stdin": encoded("\xff\x00a"), "expected_output": encoded(strings.Repeat("\xff\x00a", 20))}, object{
			"status_id": 3.0, "stdin": encoded("\xff\x00a") + "\n", "stdout": rubyBase64(strings.Repeat("\xff\x00a", 20)), "stderr": none,
		}},
		"files":                  {"", object{"language_id": python, "source_code": "import sub.a; print(open('d.txt').read(), sub.a.x)", "additional_files": zipped(t, "d.txt", "data", "sub/a.py", "x = 7", "main.py", "print('replaced')")}, object{"status_id": 3.0, "stdout": "data 7\n"}},
		"files that it leaves":   {"", object{"language_id": bash, "source_code": "mkdir d; printf one >d/f; echo out"}, object{"status_id": 3.0, "stdout": "out\n", "post_execution_filesystem": map[string]string{"d/f": "one"}}},
		"no files":               {"", object{"language_id": bash, "source_code": "true"}, object{"post_execution_filesystem": none}},
		"plain text":             {"", object{"language_id": plainText, "source_code": "as it is\n"}, object{"status_id": 3.0, "stdout": "as it is\n"}},
		"executable":             {"base64_encoded=true", object{"language_id": executable, "source_code": encoded("#!/bin/bash\necho run\n")}, object{"status_id": 3.0, "stdout": encoded("run\n") + "\n"}},
		"no executable":          {"base64_encoded=true", object{"language_id": executable, "source_code": encoded("\x7fELF\xff\xff\xff\xff\x00\x00")}, object{"status_id": 14.0}},
		"several files":          {"", object{"language_id": multi, "additional_files": zipped(t, "compile", "gcc -o prog a.c b.c", "run", "./prog", "a.c", "int b(void); int main(void) { return b(); }", "b.c", "#include <stdio.h>\nint b(void) { puts(\"b\"); return 0; }")}, object{"status_id": 3.0, "stdout": "b\n", "source_code": none}},
		"several files in shell": {"", object{"language_id": multi, "additional_files": zipped(t, "run.sh", "cat text", "text", "t\n")}, object{"status_id": 3.0, "stdout": "t\n"}},
		"a long output":          {"", object{"language_id": python, "source_code": "print('x' * 200_000)", "expected_output": strings.Repeat("x", 200_000)}, object{"status_id": 3.0, "stdout": strings.Repeat("x", 200_000) + "\n"}},
		"extra time":             {"", object{"language_id": c, "source_code": "#include <stdio.h>\n#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC) {} puts(\"done\"); }", "cpu_time_limit": 0.5, "cpu_extra_time": 5, "wall_time_limit": 60}, object{"status_id": 5.0, "stdout": "done\n", "exit_code": 0.0, "message": "Time limit exceeded"}},
		"a small stack":          {"", object{"language_id": c, "source_code": usingStack, "stack_limit": 1024}, object{"status_id": 7.0, "stack_limit": 1024.0}},
		"a large stack":          {"", object{"language_id": c, "source_code": usingStack}, object{"status_id": 3.0, "stack_limit": 64000.0}},
		"processes":              {"", object{"language_id": python, "source_code": "import os\nfor i in range(60):\n  try:\n    if os.fork() == 0: os.read(0, 1); os._exit(0)\n  except BlockingIOError: print('refused'); os._exit(0)\nprint('all')", "max_processes_and_or_threads": 10}, object{"status_id": 3.0, "stdout": "refused\n"}},
		"a run that fails":       {"", object{"language_id": bash, "source_code": "exit 1", "number_of_runs": 2}, object{"status_id": 11.0, "exit_code": 1.0}},
		"a large submission":     {"", object{"language_id": python, "source_code": "print(1) # " + randomText(60_000)}, object{"status_id": 3.0, "stdout": "1\n"}},
	}
}

// usingStack is a program of C that uses 4 MiB of stack.
const usingStack = "#include <string.h>\nint main(void) { volatile char a[4 << 20]; memset((char *)a, 1, sizeof a); return a[9] - 1; }"

func judge0Told(t *testing.T) []told {
	t.Helper()
	return linesOf(judge0Programs(t), func(name string, p judge0Program) told {
		sent := jsonOf(t, p.sent)
		if p.query != "" {
			sent += " ?" + p.query
		}
		return told{name, sent, jsonOf(t, p.want)}
	})
}

// TestJudge0 runs what a client of Judge0 CE may ask for, on the real queue and sandbox: each status, and
// each field that changes what is run or answered.
func TestJudge0(t *testing.T) {
	t.Parallel()
	const admin = "0123456789abcdef0123456789abcdef"
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=judge0", "GLOVEBOX_ADMIN_TOKEN=" + admin}})
	j := judge0{g, g.url + "/judge0", g.token}
	const python, bash = 71, 46
	none := any(nil)
	for name, tt := range judge0Programs(t) {
		t.Run(name, func(t *testing.T) {
			if _, ok := tt.sent["cpu_time_limit"]; !ok && name != "accepted" { // a busy machine needs long
				tt.sent["cpu_time_limit"] = 60
			}
			if _, ok := tt.sent["wall_time_limit"]; !ok && name != "accepted" {
				tt.sent["wall_time_limit"] = 120
			}
			got := j.run(t, tt.query, tt.sent)
			delete(got, "additional_files")
			for field, want := range tt.want {
				if field == "post_execution_filesystem" && want != none {
					got[field] = unzipped(t, got[field])
				}
				if fmt.Sprint(got[field]) != fmt.Sprint(want) {
					t.Errorf("%s: got %.200v, want %.200v", field, got[field], want)
				}
			}
			if want := 35; len(got) != want { // and additional_files: the Python SDK knows no others
				t.Errorf("got %d fields, want %d", len(got), want)
			}
			for _, field := range []string{"created_at", "finished_at"} {
				if at, _ := got[field].(string); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) {
					t.Errorf("%s: got %v, want a time with milliseconds", field, got[field])
				}
			}
			if got["status_id"] == 3.0 && (!regexp.MustCompile(`^\d+\.\d{1,3}$`).MatchString(fmt.Sprint(got["time"])) || got["memory"].(float64) <= 0) {
				t.Errorf("got time %v, memory %v", got["time"], got["memory"])
			}
			if t.Failed() {
				t.Logf("%.1500v", got)
			}
		})
	}
	t.Run("not UTF-8", func(t *testing.T) {
		sent := object{"language_id": bash, "source_code": `printf '\xff'`}
		const message = "some attributes for this submission cannot be converted to UTF-8, use base64_encoded=true query parameter"
		got := j.want(t, http.StatusCreated, http.MethodPost, "/submissions?wait=true", sent)
		if got["error"] != message || !uuid4.MatchString(fmt.Sprint(got["token"])) {
			t.Errorf("wait: got %v", got)
		}
		if got := j.want(t, http.StatusBadRequest, http.MethodGet, fmt.Sprint("/submissions/", got["token"]), nil); got["error"] != message {
			t.Errorf("got %v", got)
		}
		if got := j.want(t, http.StatusOK, http.MethodGet, fmt.Sprint("/submissions/", got["token"], "?base64_encoded=true&fields=stdout"), nil); got["stdout"] != "/w==\n" {
			t.Errorf("in base64: got %v", got)
		}
		if got := j.want(t, http.StatusBadRequest, http.MethodGet, fmt.Sprint("/submissions/batch?tokens=", got["token"]), nil); got["error"] != strings.Replace(message, "this submission", "one or more submissions", 1) {
			t.Errorf("batch: got %v", got)
		}
	})
	t.Run("wait", func(t *testing.T) {
		got := j.want(t, http.StatusCreated, http.MethodPost, "/submissions?wait=true", object{"language_id": bash, "source_code": "echo hi"})
		if len(got) != 8 || got["stdout"] != "hi\n" || fmt.Sprint(got["status"]) != "map[description:Accepted id:3]" {
			t.Errorf("got %v, want the default fields", got)
		}
	})
	t.Run("a form", func(t *testing.T) {
		form := url.Values{"language_id": {"46"}, "source_code": {"echo form"}}.Encode()
		got := j.want(t, http.StatusCreated, http.MethodPost, "/submissions?wait=true&fields=stdout", form, "Content-Type", "application/x-www-form-urlencoded")
		if got["stdout"] != "form\n" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("processing", func(t *testing.T) {
		token := fmt.Sprint(j.want(t, http.StatusCreated, http.MethodPost, "/submissions", object{"language_id": bash, "source_code": "sleep 250", "wall_time_limit": 300})["token"])
		gbtest.Eventually(t, "it is processed", func() bool {
			got := j.want(t, http.StatusOK, http.MethodGet, "/submissions/"+token, nil)
			return fmt.Sprint(got["status"]) == "map[description:Processing id:2]" && got["time"] == nil && got["stdout"] == nil
		})
		if got := j.want(t, http.StatusBadRequest, http.MethodDelete, "/submissions/"+token, nil); got["error"] != "submission cannot be deleted because its status is 2 (Processing)" {
			t.Errorf("deleting it: got %v", got)
		}
		id, _ := job.IDOfUUID("default", token)
		if _, err := g.client.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := j.await(t, token, ""); fmt.Sprint(got["status"]) != "map[description:Internal Error id:13]" {
			t.Errorf("canceled: got %v", got)
		}
	})
	t.Run("a callback", func(t *testing.T) {
		came := make(chan string, 10)
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			err := webhook.Verify(r.Header, b, g.hook.secrets, 5*time.Minute, time.Now())
			came <- r.Method + " " + r.Header.Get("Content-Type") + " " + fmt.Sprint(err) + " " + string(b)
		}))
		defer receiver.Close()
		for runs, tail := range map[int]string{1: "one", 2: "two"} {
			token := j.want(t, http.StatusCreated, http.MethodPost, "/submissions", object{
				"language_id": bash, "source_code": "echo " + tail, "expected_output": tail, "callback_url": receiver.URL + "/" + tail, "number_of_runs": runs,
			})["token"]
			select {
			case got := <-came:
				if !strings.HasPrefix(got, "PUT application/json <nil> {") || !strings.Contains(got, `"stdout":"`+encoded(tail+"\n")+`\n"`) || !strings.Contains(got, fmt.Sprint(token)) || !strings.Contains(got, `"description":"Accepted"`) {
					t.Errorf("got %s", got)
				}
			case <-time.After(patience):
				t.Error("no callback came")
			}
		}
	})
	t.Run("a batch", func(t *testing.T) {
		began := time.Now()
		status, text := j.do(t, http.MethodPost, "/submissions/batch", object{"submissions": []any{
			object{"language_id": bash, "source_code": "echo 1"}, object{"language_id": bash}, object{"language_id": python, "source_code": "print(2)"},
		}})
		var made []object
		if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusCreated || len(made) != 3 || fmt.Sprint(made[1]) != "map[source_code:[can't be blank]]" {
			t.Fatalf("got %d %s, %v", status, text, err)
		}
		tokens := fmt.Sprintf("%s,00000000-0000-4000-8000-000000000000,%s", made[2]["token"], made[0]["token"])
		gbtest.Eventually(t, "both end", func() bool {
			got := j.want(t, http.StatusOK, http.MethodGet, "/submissions/batch?fields=stdout,status_id&tokens="+tokens, nil)
			list, _ := got["submissions"].([]any)
			if len(list) != 3 || list[1] != nil {
				t.Fatalf("got %v, want three, the second null", got)
			}
			return fmt.Sprint(list) == "[map[status_id:3 stdout:2\n] <nil> map[status_id:3 stdout:1\n]]"
		})
		if got := j.want(t, http.StatusOK, http.MethodGet, "/submissions/batch", nil, "tokens", tokens); len(got["submissions"].([]any)) != 3 {
			t.Errorf("tokens in a header: got %v", got)
		}
		operator, err := producer.New(g.url, admin)
		if err != nil {
			t.Fatal(err)
		}
		defer operator.Close()
		gbtest.Eventually(t, "the audit log has both", func() bool {
			page, err := operator.Audit(t.Context(), producer.AuditOptions{Tenant: "default", Action: "job.submit", Since: began})
			if err != nil {
				t.Fatal(err)
			}
			has := func(token any) bool {
				id, ok := job.IDOfUUID("default", fmt.Sprint(token))
				return ok && slices.ContainsFunc(page.Entries, func(e job.AuditEntry) bool { return e.Object == id })
			}
			return has(made[0]["token"]) && has(made[2]["token"])
		})
	})
}

// randomText can't be compressed to less than half. It is the same each time.
func randomText(n int) string {
	b := make([]byte, n/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return hex.EncodeToString(b)
}

func rubyBase64(s string) (text string) {
	for line := []byte(s); len(line) > 0; {
		n := min(45, len(line))
		text += base64.StdEncoding.EncodeToString(line[:n]) + "\n"
		line = line[n:]
	}
	return text
}

// judge0Requests are one to each route, and each error that needs no program.
func judge0Requests(t *testing.T) (list []exchange) {
	t.Helper()
	hello := object{"language_id": 46, "source_code": "echo hi"}
	with := func(field string, value any) object {
		return object{"language_id": 46, "source_code": "echo hi", field: value}
	}
	bomb := zipped(t, "zeros", strings.Repeat("\x00", 30<<20))
	for _, tt := range []struct {
		method, path string
		body         any
		status       int
		answer       string // a part of it
	}{
		{"POST", "/submissions", object{}, 422, `{"language_id":["can't be blank"],"source_code":["can't be blank"]}`},
		{"POST", "/submissions", "", 422, `"language_id":["can't be blank"]`},
		{"POST", "/submissions", "{", 400, `{"error":`},
		{"POST", "/submissions", "[]", 400, `{"error":`},
		{"POST", "/submissions", with("source_code", " \n"), 422, `{"source_code":["can't be blank"]}`},
		{"POST", "/submissions", with("source_code", object{"a": 1}), 422, `{"source_code":["can't be blank"]}`},
		{"POST", "/submissions", with("language_id", 150000), 422, `{"language_id":["language with id 150000 doesn't exist"]}`},
		{"POST", "/submissions", with("language_id", 4), 422, `{"language_id":["language with id 4 is archived and cannot be used anymore"]}`},
		{"POST", "/submissions", with("language_id", "bash"), 422, `{"language_id":["is not a number"]}`},
		{"POST", "/submissions", with("language_id", 1e300), 422, `{"language_id":["is not a number"]}`},
		{"POST", "/submissions", with("cpu_time_limit", 1000), 422, `{"cpu_time_limit":["must be less than or equal to 300.0"]}`},
		{"POST", "/submissions", with("cpu_time_limit", "NaN"), 422, `{"cpu_time_limit":["is not a number"]}`},
		{"POST", "/submissions", with("cpu_time_limit", -1), 422, `{"cpu_time_limit":["must be greater than or equal to 0"]}`},
		{"POST", "/submissions", with("cpu_extra_time", 5.5), 422, `{"cpu_extra_time":["must be less than or equal to 5.0"]}`},
		{"POST", "/submissions", with("wall_time_limit", 301), 422, `{"wall_time_limit":["must be less than or equal to 300.0"]}`},
		{"POST", "/submissions", with("memory_limit", 2097153), 422, `{"memory_limit":["must be less than or equal to 2097152"]}`},
		{"POST", "/submissions", with("stack_limit", 128001), 422, `{"stack_limit":["must be less than or equal to 128000"]}`},
		{"POST", "/submissions", with("stack_limit", -1), 422, `{"stack_limit":["must be greater than or equal to 0"]}`},
		{"POST", "/submissions", with("max_processes_and_or_threads", 1025), 422, `{"max_processes_and_or_threads":["must be less than or equal to 1024"]}`},
		{"POST", "/submissions", with("max_file_size", -1), 422, `{"max_file_size":["must be greater than or equal to 0"]}`},
		{"POST", "/submissions", with("number_of_runs", 0), 422, `{"number_of_runs":["must be greater than or equal to 1"]}`},
		{"POST", "/submissions", with("enable_per_process_and_thread_memory_limit", true), 422, `["this option cannot be enabled"]`},
		{"POST", "/submissions", with("wall_time_limit", 0.5), 422, `{"wall_time_limit":["must be greater than or equal to 1"]}`},
		{"POST", "/submissions", with("memory_limit", 1), 422, `{"memory_limit":["must be greater than or equal to 2048"]}`},
		{"POST", "/submissions", with("max_processes_and_or_threads", 0), 422, `{"max_processes_and_or_threads":["must be greater than or equal to 1"]}`},
		{"POST", "/submissions", with("number_of_runs", 21), 422, `{"number_of_runs":["must be less than or equal to 20"]}`},
		{"POST", "/submissions", with("command_line_arguments", strings.Repeat("x", 513)), 422, `{"command_line_arguments":["is too long (maximum is 512 characters)"]}`},
		{"POST", "/submissions", with("compiler_options", "-O2"), 422, `{"compiler_options":["setting compiler options is only allowed for `},
		{"POST", "/submissions", with("enable_network", true), 422, `{"enable_network":["enabling network is not allowed"]}`},
		{"POST", "/submissions", with("enable_per_process_and_thread_time_limit", true), 422, `["this option cannot be enabled"]`},
		{"POST", "/submissions", with("callback_url", "http://10.0.0.1/"), 422, `{"callback_url":["`},
		{"POST", "/submissions", with("callback_url", "no URL"), 422, `{"callback_url":["`},
		{"POST", "/submissions", object{"language_id": 46, "source_code": "true", "callback_url": "https://example.com", "max_file_size": 4097}, 422, `{"max_file_size":["must be less than or equal to 4096"]}`},
		{"POST", "/submissions", with("additional_files", "no zip"), 422, `{"additional_files":["is no zip archive"]}`},
		{"POST", "/submissions", with("additional_files", zipped(t, "../../etc/passwd", "x")), 422, `{"additional_files":["has a file whose name is not a plain path`},
		{"POST", "/submissions", with("additional_files", zipped(t, "/etc/passwd", "x")), 422, `{"additional_files":["has a file whose name is absolute`},
		{"POST", "/submissions", with("additional_files", bomb), 422, `{"additional_files":["holds more than 10240 kilobytes"]}`},
		{"POST", "/submissions", object{"language_id": 89}, 422, `{"additional_files":["can't be blank"]}`},
		{"POST", "/submissions", object{"language_id": 89, "source_code": "x", "additional_files": zipped(t, "run", "true")}, 422, `{"source_code":["must be blank"]}`},
		{"POST", "/submissions", object{"language_id": 89, "additional_files": zipped(t, "main", "true")}, 422, `{"additional_files":["has no file run or run.sh"]}`},
		{"POST", "/submissions?wait=true&fields=x", hello, 400, `{"error":"invalid fields: [x]"}`},
		{"GET", "/submissions/{token}?fields=status,y,z", nil, 400, `{"error":"invalid fields: [y, z]"}`},
		{"GET", "/submissions/00000000-0000-4000-8000-000000000000", nil, 404, ""},
		{"GET", "/submissions/..%2f..%2fv1%2fjobs", nil, 404, ""},
		{"GET", "/../v1/jobs", nil, 404, ""},
		{"POST", "/submissions/batch", object{"submissions": []any{}}, 400, `{"error":"there should be at least one submission in a batch"}`},
		{"POST", "/submissions/batch", object{"submissions": "x"}, 400, `{"error":`},
		{"POST", "/submissions/batch", object{"submissions": make([]object, 101)}, 400, `{"error":"number of submissions in a batch should be less than or equal to 100"}`},
		{"POST", "/submissions/batch", object{"submissions": []any{7, nil, object{}}}, 422, `[{"language_id":["can't be blank"],`},
		{"GET", "/submissions/batch", nil, 400, `{"error":"there should be at least one submission in a batch"}`},
		{"GET", "/submissions/batch?tokens=" + strings.Repeat("a,", 101), nil, 400, `{"error":"number of submissions`},
		{"POST", "/submissions", "{100 MiB}", 413, `{"error":"the body is too large`},
		{"POST", "/submissions/batch", "{100 MiB}", 413, `{"error":"the body is too large`},
		{"GET", "/submissions/{token}", nil, 200, `"status":{"id":3,"description":"Accepted"}`},
		{"GET", "/submissions/batch?tokens={token},x&fields=stdout", nil, 200, `{"submissions":[{"stdout":"hi\n"},null]}`},
		{"GET", "/submissions?per_page=1&fields=token", nil, 200, `{"submissions":[{"token":"`},
		{"POST", "/submissions", hello, 201, `{"token":"`},
		{"POST", "/submissions?wait=true&fields=stdout", hello, 201, `{"stdout":"hi\n"}`},
		{"POST", "/submissions/batch", object{"submissions": []any{hello, object{}}}, 201, `"},{"language_id":["can't be blank"],`},
		{"DELETE", "/submissions/{ended}?fields=stdout", nil, 200, `{"stdout":"aGkK\n"}`},
		{"GET", "/submissions/{ended}", nil, 404, ""},
		{"DELETE", "/submissions/00000000-0000-4000-8000-000000000000", nil, 404, ""},
		{"GET", "/", nil, 200, ""},
		{"GET", "/version", nil, 200, "1.13.1"},
		{"GET", "/license", nil, 200, "Apache License 2.0"},
		{"GET", "/isolate", nil, 200, "gVisor"},
		{"GET", "/about", nil, 200, `"version":"1.13.1"`},
		{"GET", "/statuses", nil, 200, `[{"id":1,"description":"In Queue"},{"id":2,"description":"Processing"},{"id":3,"description":"Accepted"},{"id":4,"description":"Wrong Answer"},{"id":5,"description":"Time Limit Exceeded"},{"id":6,"description":"Compilation Error"},{"id":7,"description":"Runtime Error (SIGSEGV)"},{"id":8,"description":"Runtime Error (SIGXFSZ)"},{"id":9,"description":"Runtime Error (SIGFPE)"},{"id":10,"description":"Runtime Error (SIGABRT)"},{"id":11,"description":"Runtime Error (NZEC)"},{"id":12,"description":"Runtime Error (Other)"},{"id":13,"description":"Internal Error"},{"id":14,"description":"Exec Format Error"}]`},
		{"GET", "/languages", nil, 200, `{"id":71,"name":"Python (3.13`},
		{"GET", "/languages/all", nil, 200, `"is_archived":false}`},
		{"GET", "/languages/50", nil, 200, `"source_file":"main.c","compile_cmd":"gcc `},
		{"GET", "/config_info", nil, 200, `"max_submission_batch_size":100`},
		{"GET", "/system_info", nil, 200, "Architecture"},
		{"GET", "/statistics", nil, 200, `"statuses":[`},
		{"GET", "/workers", nil, 200, `"queue":"default"`},
		{"POST", "/authenticate", nil, 200, ""},
		{"POST", "/authorize", nil, 200, ""},
		{"OPTIONS", "/submissions", nil, 204, ""},
		{"GET", "/languages/99999", nil, 404, ""},
		{"GET", "/languages/x", nil, 404, ""},
		{"GET", "/nothing", nil, 404, ""},
		{"PUT", "/submissions", hello, 404, ""},
	} {
		list = append(list, exchange{method: tt.method, path: tt.path, mediaType: "application/json", body: jsonOf(t, tt.body), status: tt.status, answer: tt.answer})
	}
	return append(list,
		exchange{method: "POST", path: "/submissions?wait=true&fields=stdout", mediaType: "application/x-www-form-urlencoded", body: "language_id=46&source_code=echo+form", status: 201, answer: `{"stdout":"form\n"}`},
		exchange{method: "GET", path: "/languages", status: 401, by: noToken},
		exchange{method: "POST", path: "/submissions", mediaType: "application/json", body: jsonOf(t, hello), status: 401, by: wrongToken},
	)
}

// TestJudge0Refuses: what is wrong with a request is said as Judge0 says it, and nobody sees what is another's.
func TestJudge0Refuses(t *testing.T) {
	t.Parallel()
	const admin = "operator-0123456789abcdef"
	addr := gbtest.Addr(t)
	g := start(t, options{apiEnv: []string{
		"GLOVEBOX_ADMIN_TOKEN=" + admin, "GLOVEBOX_FACADES=judge0", "GLOVEBOX_FACADE_ADDRESSES=judge0=" + addr,
	}})
	j := judge0{g, "http://" + addr, g.token}
	operator, err := producer.New(g.url, admin)
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()
	if _, err := operator.CreateTenant(t.Context(), "other", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	made, err := operator.AddToken(t.Context(), "other", producer.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	other := judge0{g, g.url + "/judge0", made.Secret}
	hello := object{"language_id": 46, "source_code": "echo hi"}
	token := fmt.Sprint(j.want(t, http.StatusCreated, http.MethodPost, "/submissions", hello)["token"])
	j.await(t, token, "")
	ended := fmt.Sprint(j.want(t, http.StatusCreated, http.MethodPost, "/submissions?wait=true&fields=token", hello)["token"])
	given{"token": token, "ended": ended}.check(t, judge0Requests(t), func(e exchange) asked {
		return judge0{g, j.url, g.tokenOf(e.by)}.ask(t, e.method, e.path, e.body, "Content-Type", e.mediaType)
	})

	// Whoever asks: a token of none, of another tenant.
	for name, headers := range map[string][]string{
		"none":        nil,
		"wrong":       {"X-Auth-Token", "gb_default_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
		"wrong basic": {"Authorization", "Basic " + encoded("x:y")},
	} {
		if status, text := (judge0{g, j.url, ""}).do(t, http.MethodGet, "/languages", nil, headers...); status != http.StatusUnauthorized || text != "" {
			t.Errorf("token %s: got %d %s, want 401 and nothing", name, status, text)
		}
	}
	for name, headers := range map[string][]string{
		"bearer": {"Authorization", "Bearer " + g.token}, "bare": {"Authorization", g.token}, "basic": {"Authorization", "Basic " + encoded("judge:"+g.token)},
		"RapidAPI": {"X-RapidAPI-Key", g.token}, "authorization": {"X-Auth-User", g.token},
	} {
		if status, text := (judge0{g, j.url, ""}).do(t, http.MethodPost, "/authenticate/", nil, headers...); status != http.StatusOK {
			t.Errorf("token %s: got %d %s, want 200", name, status, text)
		}
	}
	if status, _ := (judge0{g, j.url, ""}).do(t, http.MethodPost, "/authorize?X-Auth-Token="+g.token, nil); status != http.StatusOK {
		t.Errorf("token in the query: got %d", status)
	}
	for _, path := range []string{"/submissions/" + token, "/submissions/" + token + "?fields=*"} {
		if status, text := other.do(t, http.MethodGet, path, nil); status != http.StatusNotFound || text != "" {
			t.Errorf("another tenant's %s: got %d %s", path, status, text)
		}
	}
	if got := other.want(t, http.StatusOK, http.MethodGet, "/submissions/batch?tokens="+token, nil); fmt.Sprint(got) != "map[submissions:[<nil>]]" {
		t.Errorf("another tenant's in a batch: got %v", got)
	}
	if status, _ := other.do(t, http.MethodDelete, "/submissions/"+token, nil); status != http.StatusNotFound {
		t.Errorf("deleting another tenant's: got %d", status)
	}
	native := g.submit(job.Spec{Runtime: "bash", Source: "true"})
	g.wait(native)
	if uuid, _ := job.UUIDOf(native); uuid != "" {
		if status, text := j.do(t, http.MethodGet, "/submissions/"+uuid, nil); status != http.StatusNotFound {
			t.Errorf("a job that is no submission: got %d %s", status, text)
		}
	}

	// A page of another origin asks first.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, j.url+"/submissions", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Access-Control-Request-Headers", "x-custom")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if h := res.Header; res.StatusCode != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Headers") != "x-custom" {
		t.Errorf("preflight: got %d %v", res.StatusCode, res.Header)
	}
}

// judge0Settings are the keys of /config_info, in order: the Python SDK's model wants each, and no other.
func judge0Settings() []string {
	list := strings.Fields(`maintenance_mode enable_wait_result enable_compiler_options allowed_languages_for_compile_options
		enable_command_line_arguments enable_submission_delete enable_callbacks callbacks_max_tries callbacks_timeout enable_additional_files
		max_queue_size max_extract_size enable_batched_submissions max_submission_batch_size submission_cache_duration use_docs_as_homepage
		redirect_stderr_to_stdout`)
	for _, limit := range strings.Fields("cpu_time_limit cpu_extra_time wall_time_limit memory_limit stack_limit max_processes_and_or_threads max_file_size number_of_runs") {
		list = append(list, limit, "max_"+limit)
	}
	for _, choice := range strings.Fields("enable_network enable_per_process_and_thread_time_limit enable_per_process_and_thread_memory_limit") {
		list = append(list, choice, "allow_"+choice)
	}
	slices.Sort(list)
	return list
}

// TestJudge0Routes: what is not about one submission.
func TestJudge0Routes(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=judge0", "GLOVEBOX_FACADE_TENANT=default"}})
	j, anonymous := judge0{g, g.url + "/judge0", g.token}, judge0{g, g.url + "/judge0", ""}
	if got := anonymous.want(t, http.StatusOK, http.MethodGet, "/about", nil); got["version"] != "1.13.1" {
		t.Errorf("about: got %v", got)
	}
	info := anonymous.want(t, http.StatusOK, http.MethodGet, "/config_info", nil)
	if got := slices.Sorted(maps.Keys(info)); !slices.Equal(got, judge0Settings()) {
		t.Errorf("config_info: got %v, want %v", got, judge0Settings())
	}
	if status, _ := anonymous.do(t, http.MethodPost, "/authorize", nil); status != http.StatusForbidden {
		t.Errorf("authorize without a token: got %d, want 403", status)
	}
	for _, path := range []string{"/submissions", "/statistics", "/workers"} { // they tell of others' submissions
		if status, _ := anonymous.do(t, http.MethodGet, path, nil); status != http.StatusForbidden {
			t.Errorf("%s without a token: got %d, want 403", path, status)
		}
	}
	if status, _ := anonymous.do(t, http.MethodGet, "/about", nil, "X-Auth-Token", "wrong"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token, where none is needed: got %d, want 401", status)
	}

	var tokens []string
	for i := range 3 {
		got := anonymous.run(t, "", object{"language_id": 46, "source_code": fmt.Sprint("echo ", i), "number_of_runs": 1 + i%2})
		tokens = append(tokens, fmt.Sprint(got["token"]))
	}
	page := j.want(t, http.StatusOK, http.MethodGet, "/submissions?page=1&per_page=2&fields=token,stdout", nil)
	if list, _ := page["submissions"].([]any); len(list) != 2 || fmt.Sprint(list[0]) != fmt.Sprintf("map[stdout:2\n token:%s]", tokens[2]) || fmt.Sprint(page["meta"]) != "map[current_page:1 next_page:2 prev_page:<nil> total_count:3 total_pages:2]" {
		t.Errorf("list: got %v", page)
	}
	if got := j.want(t, http.StatusOK, http.MethodGet, "/statistics", nil); fmt.Sprint(got["statuses"]) != "[map[count:3 status:map[description:Accepted id:3]]]" {
		t.Errorf("statistics: got %v", got)
	}

	g.worker.Stop()
	waiting := fmt.Sprint(j.want(t, http.StatusCreated, http.MethodPost, "/submissions", object{"language_id": 46, "source_code": "echo late"})["token"])
	got := j.want(t, http.StatusOK, http.MethodGet, "/submissions/"+waiting+"?fields=*", nil)
	if fmt.Sprint(got["status"]) != "map[description:In Queue id:1]" || got["source_code"] != "echo late" || got["finished_at"] != nil || got["time"] != nil {
		t.Errorf("queued: got %v", got)
	}
	if got := j.want(t, http.StatusBadRequest, http.MethodDelete, "/submissions/"+waiting, nil); got["error"] != "submission cannot be deleted because its status is 1 (In Queue)" {
		t.Errorf("deleting a queued one: got %v", got)
	}
	id, _ := job.IDOfUUID("default", waiting)
	if _, err := g.client.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := j.await(t, waiting, ""); got["status_id"] != 13.0 || got["message"] == nil {
		t.Errorf("canceled: got %v", got)
	}
	if status, _ := anonymous.do(t, http.MethodDelete, "/submissions/"+tokens[1], nil); status != http.StatusForbidden {
		t.Errorf("deleting without a token: got %d, want 403", status)
	}
	if got := j.want(t, http.StatusOK, http.MethodDelete, "/submissions/"+tokens[1]+"?fields=stdout", nil); fmt.Sprint(got) != "map[stdout:MQo=\n]" {
		t.Errorf("delete: got %v", got)
	}
	if status, _ := j.do(t, http.MethodGet, "/submissions/"+tokens[1], nil); status != http.StatusNotFound {
		t.Errorf("deleted: got %d, want 404", status)
	}
	if page, err := g.client.List(t.Context(), producer.ListOptions{}); err != nil || len(page.Jobs) != 3 { // the runs of the deleted one are gone, too
		t.Errorf("got %d jobs, %v, want 3", len(page.Jobs), err)
	}
}
