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

// TestJudge0Refuses: what is wrong with a request is said as Judge0 says it, and nobody sees what is another's.
func TestJudge0Refuses(t *testing.T) {
	t.Parallel()
	const admin = "operator-0123456789abcdef"
	addr := gbtest.Addr(t)
	g := start(t, options{apiEnv: []string{
		"GLOVEBOX_ADMIN_TOKEN=" + admin, "GLOVEBOX_FACADES=judge0", "GLOVEBOX_FACADE_ADDRESSES=judge0=" + addr,
	}})
	j := judge0{g, "http://" + addr, g.token}
	other := judge0{g, g.url + "/judge0", g.tenantToken(admin, "other", job.Terms{})}
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
