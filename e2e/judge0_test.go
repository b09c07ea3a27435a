package e2e

import (
	"encoding/json"
	"fmt"
	"io"
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
