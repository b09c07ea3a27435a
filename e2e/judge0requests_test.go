package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

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
