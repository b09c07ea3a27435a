package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestRuntimesOfSessions: a runtime that is listed says whether it has sessions, and which languages their contexts can have.
func TestRuntimesOfSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	var list struct {
		Runtimes []struct {
			Name      string
			Sessions  *bool
			Languages []string
		}
	}
	w.expecting(t, "GET", "/v1/runtimes", "", http.StatusOK, &list)
	got := map[string][]string{}
	for _, r := range list.Runtimes {
		if r.Sessions == nil || *r.Sessions != (len(r.Languages) > 0) {
			t.Errorf("%s: got sessions %v, languages %v", r.Name, r.Sessions, r.Languages)
		}
		got[r.Name] = r.Languages
	}
	want := map[string][]string{"python": {"python", "javascript"}, "bash": {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestContexts: contexts are made, listed, restarted and deleted, and what they can't be is refused. A worker's part is made by hand.
func TestContexts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	ctx := t.Context()
	var x job.Session
	w.expecting(t, "POST", "/v1/sessions", `{"runtime":"python"}`, http.StatusAccepted, &x)
	path := "/v1/sessions/" + x.ID
	var made job.SessionContext
	for range 2 {
		w.expecting(t, "PUT", path+"/contexts/js", `{"language":"javascript","directory":"src/app"}`, http.StatusOK, &made)
		if made.Name != "js" || made.Language != "javascript" || made.Directory != "src/app" || made.Generation != 0 || made.CreatedAt.IsZero() {
			t.Errorf("got %+v", made)
		}
	}
	w.expecting(t, "PUT", path+"/contexts/main", ``, http.StatusOK, &made)
	var first, second job.Summary
	w.expecting(t, "POST", path+"/execute", `{"code":"1","context":"js"}`, http.StatusAccepted, &first)
	w.expecting(t, "POST", path+"/execute", `{"code":"1","context":"other","expect_generation":1}`, http.StatusAccepted, &second)
	refused := func(method, path, body string, status int, code, field string) {
		t.Helper()
		var p producer.Problem
		w.expecting(t, method, path, body, status, &p)
		if p.Code() != code || field != "" && (len(p.Errors) != 1 || p.Errors[0].Field != field) {
			t.Errorf("%s %s %s: got %+v, want %s of %q", method, path, body, p, code, field)
		}
	}
	for body, field := range map[string]string{
		`{"code":"1","context":"A"}`:                               "context",
		`{"code":"1","context":"` + strings.Repeat("a", 33) + `"}`: "context",
		`{"code":"1","context":"js","language":"python"}`:          "language",
		`{"code":"1","language":"javascript"}`:                     "language", // main has the runtime's own
		`{"code":"1","context":"new","language":"cobol"}`:          "language",
		`{"code":"1","expect_generation":-1}`:                      "expect_generation",
	} {
		refused("POST", path+"/execute", body, http.StatusUnprocessableEntity, job.CodeInvalid, field)
	}
	for _, c := range []struct{ method, name, body, field string }{
		{"PUT", "A", `{}`, "name"},
		{"PUT", "js", `{"language":"python"}`, "language"},
		{"PUT", "js", `{"language":"javascript"}`, "directory"},
		{"PUT", "new", `{"language":"cobol"}`, "language"},
		{"PUT", "new", `{"directory":"../x"}`, "directory"},
		{"PUT", "new", `{"directory":"/x"}`, "directory"},
		{"PUT", "main", `{"directory":"x"}`, "directory"},
		{"PUT", "new", `{"image":"x"}`, "image"},
		{"DELETE", "main", ``, "name"},
		{"DELETE", "A", ``, "name"},
	} {
		refused(c.method, path+"/contexts/"+c.name, c.body, http.StatusUnprocessableEntity, job.CodeInvalid, c.field)
	}
	refused("POST", path+"/restart", `{"context":"A"}`, http.StatusUnprocessableEntity, job.CodeInvalid, "context")
	refused("POST", path+"/restart", `{"execution":"x"}`, http.StatusUnprocessableEntity, job.CodeInvalid, "execution")
	refused("POST", path+"/restart", `{"context":"none"}`, http.StatusNotFound, job.CodeNoContext, "")
	refused("DELETE", path+"/contexts/none", ``, http.StatusNotFound, job.CodeNoContext, "")
	if _, err := w.Worker.ClaimSession(ctx, x.ID, "w1"); err != nil {
		t.Fatal(err)
	}
	j, err := w.Worker.TakeTurn(ctx, x.ID, "w1", "", nil, record.Rest{Slot: true})
	if err != nil || j.ID != first.ID || j.Generation != 1 || j.Place != (record.Place{Context: "js", Language: "javascript"}) || len(j.Contexts) != 3 || j.Contexts[1].Directory != "src/app" {
		t.Fatalf("got %+v, %v", j, err)
	}
	w.expecting(t, "POST", path+"/restart", `{"context":"js"}`, http.StatusOK, &x)
	w.expecting(t, "POST", path+"/restart", ``, http.StatusOK, &x) // nothing was executed in main
	if x.Generation != 0 {
		t.Errorf("got %+v", x)
	}
	var list producer.ContextList
	w.expecting(t, "GET", path+"/contexts", ``, http.StatusOK, &list)
	if len(list.Contexts) != 3 || list.Contexts[0].Name != "main" || list.Contexts[0].Language != "python" || list.Contexts[1].Generation != 2 || list.Contexts[1].Executions != 1 ||
		list.Contexts[2].Name != "other" || list.Contexts[2].Language != "python" || list.Contexts[2].Generation != 0 {
		t.Errorf("got %+v", list)
	}
	var p producer.Problem
	w.expecting(t, "POST", path+"/execute", `{"code":"1","context":"js","expect_generation":1}`, http.StatusConflict, &p)
	if p.Code() != job.CodeGenerationChanged || p.Generation != 2 || p.Context != "js" {
		t.Errorf("got %+v", p)
	}
	for _, name := range []string{"c", "d", "e", "f", "g"} {
		w.expecting(t, "PUT", path+"/contexts/"+name, ``, http.StatusOK, nil)
	}
	refused("PUT", path+"/contexts/h", ``, http.StatusConflict, job.CodeTooManyContexts, "")
	refused("POST", path+"/execute", `{"code":"1","context":"h"}`, http.StatusConflict, job.CodeTooManyContexts, "")
	w.expecting(t, "DELETE", path+"/contexts/js", ``, http.StatusNoContent, nil)
	w.expecting(t, "PUT", path+"/contexts/h", ``, http.StatusOK, nil)
	w.expecting(t, "DELETE", path, ``, http.StatusOK, nil)
	for _, c := range []struct{ method, path string }{{"POST", "/restart"}, {"PUT", "/contexts/z"}, {"DELETE", "/contexts/c"}} {
		refused(c.method, path+c.path, ``, http.StatusGone, job.CodeSessionEnded, "")
	}
}
