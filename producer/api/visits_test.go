package api_test

import (
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// What the isolation test does with a route.
type visit struct {
	method string
	// path of the route for something that belongs to another tenant; "<id>" stands for
	// its job, "<batch>" for its batch. It has to be answered for as if there were no such job.
	path string
	// also are other paths of the same route.
	also []string
	// shared says that the route belongs to nobody: what it answers must not tell of others.
	shared bool
	// admin says that the route refuses every tenant, its own things included.
	admin bool
	body  string
	// mediaType of body, if it is not JSON.
	mediaType string
	// headers that vary the request, one at a time.
	headers []string
}

// visits has an entry for each route: whoever adds one says here what another tenant
// sees of it.
var visits = map[string]visit{
	"POST /v1/jobs":                                       {path: "/v1/jobs", body: `{"runtime":"python","source":"1"}`, shared: true, headers: []string{"Prefer: wait=1"}},
	"GET /v1/jobs":                                        {path: "/v1/jobs?limit=200", shared: true},
	"GET /v1/jobs/{id}":                                   {path: "/v1/jobs/<id>", headers: []string{"Prefer: wait=1"}},
	"DELETE /v1/jobs/{id}":                                {path: "/v1/jobs/<id>", also: []string{"/v1/jobs/<id>?purge=true"}},
	"POST /v1/jobs/{id}/input":                            {path: "/v1/jobs/<id>/input", body: `{"data":"1"}`},
	"GET /v1/jobs/{id}/stdout":                            {path: "/v1/jobs/<id>/stdout"},
	"GET /v1/jobs/{id}/stderr":                            {path: "/v1/jobs/<id>/stderr"},
	"GET /v1/jobs/{id}/artifacts/{name...}":               {path: "/v1/jobs/<id>/artifacts/plot.txt"},
	"POST /v1/code-sandbox/execute":                       {path: "/v1/code-sandbox/execute", body: `{"language":"cobol","code":"1"}`, shared: true}, // what can run is waited for
	"GET /v1/tools":                                       {path: "/v1/tools", shared: true},
	"POST /v1/tools/{name}":                               {path: "/v1/tools/get_job", shared: true, body: `{"arguments":{"job_id":"x"}}`},
	"POST /mcp":                                           {path: "/mcp", shared: true, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, headers: []string{"Mcp-Session-Id: owners"}},
	"POST /v1/batches":                                    {path: "/v1/batches", body: `{"runtime":"python","source":"1"}`, shared: true, headers: []string{"Idempotency-Key: owners"}, mediaType: "application/x-ndjson"},
	"GET /v1/batches":                                     {path: "/v1/batches?limit=200", shared: true},
	"GET /v1/batches/{id}":                                {path: "/v1/batches/<batch>", headers: []string{"Prefer: wait=1"}},
	"DELETE /v1/batches/{id}":                             {path: "/v1/batches/<batch>"},
	"GET /v1/batches/{id}/results":                        {path: "/v1/batches/<batch>/results"},
	"GET /v1/jobs/{id}/events":                            {path: "/v1/jobs/<id>/events", headers: []string{"Last-Event-ID: end", "Last-Event-ID: 1-1"}},
	"GET /v1/deliveries":                                  {path: "/v1/deliveries?job=<id>", also: []string{"/v1/deliveries?session=<session>"}},
	"GET /v1/deliveries/{id}":                             {path: "/v1/deliveries/<delivery>"},
	"POST /v1/deliveries/{id}/redeliver":                  {path: "/v1/deliveries/<delivery>/redeliver"},
	"POST /v1/endpoints":                                  {path: "/v1/endpoints", shared: true, body: `{"url":"https://hooks.example.com/"}`},
	"GET /v1/endpoints":                                   {path: "/v1/endpoints", shared: true},
	"GET /v1/endpoints/{id}":                              {path: "/v1/endpoints/<endpoint>"},
	"PATCH /v1/endpoints/{id}":                            {path: "/v1/endpoints/<endpoint>", body: `{"disabled":true}`},
	"DELETE /v1/endpoints/{id}":                           {path: "/v1/endpoints/<endpoint>"},
	"GET /v1/endpoints/{id}/secret":                       {path: "/v1/endpoints/<endpoint>/secret"},
	"POST /v1/endpoints/{id}/rotate":                      {path: "/v1/endpoints/<endpoint>/rotate", body: `{}`},
	"POST /v1/endpoints/{id}/test":                        {path: "/v1/endpoints/<endpoint>/test"},
	"GET /v1/endpoints/{id}/attempts":                     {path: "/v1/endpoints/<endpoint>/attempts"},
	"POST /v1/endpoints/{id}/recover":                     {path: "/v1/endpoints/<endpoint>/recover", body: `{"since":"2026-11-20T09:00:00Z"}`},
	"POST /v1/uploads":                                    {path: "/v1/uploads", shared: true, body: `{"sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","size":4}`},
	"PUT /v1/secrets/{name}":                              {path: "/v1/secrets/STRANGERS", body: `{"value":"another value"}`, shared: true},
	"GET /v1/secrets":                                     {path: "/v1/secrets", shared: true},
	"DELETE /v1/secrets/{name}":                           {path: "/v1/secrets/OWNERS_TOKEN"},
	"PUT /v1/templates/{name}":                            {path: "/v1/templates/strangers", body: `{"spec":{"runtime":"python","source":"1"}}`, shared: true},
	"GET /v1/templates":                                   {path: "/v1/templates", shared: true},
	"GET /v1/templates/{name}":                            {path: "/v1/templates/owners", also: []string{"/v1/templates/owners@1"}},
	"DELETE /v1/templates/{name}":                         {path: "/v1/templates/owners"},
	"POST /v1/templates/{name}/run":                       {path: "/v1/templates/owners/run", body: `{}`, headers: []string{"Idempotency-Key: owners"}},
	"POST /v1/problems":                                   {path: "/v1/problems", body: `{"tests":[{"name":"1","answer":"strangers"}]}`, shared: true},
	"GET /v1/problems":                                    {path: "/v1/problems", shared: true},
	"GET /v1/problems/{digest}":                           {path: "/v1/problems/<problem>"},
	"DELETE /v1/problems/{digest}":                        {path: "/v1/problems/<problem>"},
	"POST /v1/problems/{digest}/regrade":                  {path: "/v1/problems/<problem>/regrade", body: `{"from":"0000000000000000000000000000000000000000000000000000000000000000"}`},
	"PUT /v1/schedules/{name}":                            {path: "/v1/schedules/strangers", body: `{"template":"nones","cron":"@daily"}`, shared: true},
	"GET /v1/schedules":                                   {path: "/v1/schedules", shared: true},
	"GET /v1/schedules/{name}":                            {path: "/v1/schedules/owners"},
	"GET /v1/schedules/{name}/fires":                      {path: "/v1/schedules/owners/fires"},
	"DELETE /v1/schedules/{name}":                         {path: "/v1/schedules/owners"},
	"POST /v1/schedules/{name}/pause":                     {path: "/v1/schedules/owners/pause"},
	"POST /v1/schedules/{name}/resume":                    {path: "/v1/schedules/owners/resume"},
	"POST /v1/schedules/{name}/run":                       {path: "/v1/schedules/owners/run"},
	"GET /v1/usage":                                       {path: "/v1/usage", shared: true},
	"GET /v1/usage/events":                                {path: "/v1/usage/events", shared: true},
	"GET /v1/admin/tenants/{name}/usage/events":           {path: "/v1/admin/tenants/owner/usage/events", admin: true},
	"GET /v1/admin/tenants/{name}/usage":                  {path: "/v1/admin/tenants/owner/usage", admin: true},
	"POST /v1/runs":                                       {path: "/v1/runs", body: `{"pipeline":{"steps":{"a":{"runtime":"python","source":"1"}}}}`, shared: true},
	"POST /v1/runs/{id}/rerun":                            {path: "/v1/runs/<run>/rerun", body: `{}`},
	"GET /v1/runs":                                        {path: "/v1/runs", shared: true},
	"GET /v1/runs/{id}":                                   {path: "/v1/runs/<run>", headers: []string{"Prefer: wait=1"}},
	"GET /v1/runs/{id}/graph":                             {path: "/v1/runs/<run>/graph"},
	"DELETE /v1/runs/{id}":                                {path: "/v1/runs/<run>"},
	"POST /v1/sessions":                                   {path: "/v1/sessions", body: `{"runtime":"python"}`, shared: true},
	"GET /v1/sessions":                                    {path: "/v1/sessions", shared: true},
	"GET /v1/sessions/{id}":                               {path: "/v1/sessions/<session>"},
	"GET /v1/sessions/{id}/executions":                    {path: "/v1/sessions/<session>/executions"},
	"GET /v1/sessions/{id}/transcript":                    {path: "/v1/sessions/<session>/transcript"},
	"GET /v1/sessions/{id}/notebook":                      {path: "/v1/sessions/<session>/notebook"},
	"PATCH /v1/sessions/{id}":                             {path: "/v1/sessions/<session>", body: `{"ttl_seconds":60}`},
	"DELETE /v1/sessions/{id}":                            {path: "/v1/sessions/<session>"},
	"POST /v1/sessions/{id}/execute":                      {path: "/v1/sessions/<session>/execute", body: `{"code":"1"}`},
	"POST /v1/sessions/{id}/interrupt":                    {path: "/v1/sessions/<session>/interrupt"},
	"POST /v1/sessions/{id}/fork":                         {path: "/v1/sessions/<session>/fork", body: `{}`},
	"POST /v1/sessions/{id}/restart":                      {path: "/v1/sessions/<session>/restart"},
	"GET /v1/sessions/{id}/contexts":                      {path: "/v1/sessions/<session>/contexts"},
	"PUT /v1/sessions/{id}/contexts/{name}":               {path: "/v1/sessions/<session>/contexts/a"},
	"DELETE /v1/sessions/{id}/contexts/{name}":            {path: "/v1/sessions/<session>/contexts/a"},
	"GET /v1/sessions/{id}/files":                         {path: "/v1/sessions/<session>/files"},
	"GET /v1/sessions/{id}/files/{name...}":               {path: "/v1/sessions/<session>/files/a.txt"},
	"PUT /v1/sessions/{id}/files/{name...}":               {path: "/v1/sessions/<session>/files/a.txt", also: []string{"/v1/sessions/<session>/files/d?directory=true"}, body: "text", mediaType: "application/octet-stream"},
	"DELETE /v1/sessions/{id}/files/{name...}":            {path: "/v1/sessions/<session>/files/a.txt"},
	"GET /v1/approvals":                                   {path: "/v1/approvals", shared: true},
	"GET /v1/approvals/{id}":                              {path: "/v1/approvals/<id>"},
	"POST /v1/approvals/{id}/approve":                     {path: "/v1/approvals/<id>/approve", body: `{"input_hash":"0000000000000000000000000000000000000000000000000000000000000000"}`},
	"POST /v1/approvals/{id}/reject":                      {path: "/v1/approvals/<id>/reject", body: `{"input_hash":"0000000000000000000000000000000000000000000000000000000000000000"}`},
	"POST /v1/hooks":                                      {path: "/v1/hooks", body: `{"template":"nones","sender":"github","secret":"strangers secret"}`, shared: true},
	"GET /v1/hooks":                                       {path: "/v1/hooks", shared: true},
	"GET /v1/hooks/{id}":                                  {path: "/v1/hooks/<hook>"},
	"PUT /v1/hooks/{id}":                                  {path: "/v1/hooks/<hook>", body: `{"template":"strangers","sender":"github"}`},
	"DELETE /v1/hooks/{id}":                               {path: "/v1/hooks/<hook>"},
	"POST /v1/hooks/{id}/rotate":                          {path: "/v1/hooks/<hook>/rotate", body: `{}`},
	"GET /v1/hooks/{id}/deliveries":                       {path: "/v1/hooks/<hook>/deliveries"},
	"POST /v1/hooks/{id}":                                 {path: "/v1/hooks/owner-h-aaaaaaaaaaaaaaaaaaaaaaaaaa", also: []string{"/v1/hooks/<id>"}, body: `{}`},
	"OPTIONS /v1/hooks/{id}":                              {path: "/v1/hooks/<hook>", shared: true, headers: []string{"WebHook-Request-Origin: strangers.example"}},
	"GET /v1/webhook-secret":                              {path: "/v1/webhook-secret", shared: true},
	"POST /v1/webhook-secret/rotate":                      {path: "/v1/webhook-secret/rotate", shared: true, body: `{}`},
	"GET /v1/webhook-keys":                                {path: "/v1/webhook-keys", shared: true},
	"GET /v1/admin/tenants/{name}/webhook-secret":         {path: "/v1/admin/tenants/owner/webhook-secret", admin: true},
	"POST /v1/admin/tenants/{name}/webhook-secret/rotate": {path: "/v1/admin/tenants/owner/webhook-secret/rotate", admin: true, body: `{}`},
	"GET /v1/runtimes":                                    {path: "/v1/runtimes", shared: true},
	"GET /v1/keys":                                        {path: "/v1/keys", shared: true},
	"GET /healthz":                                        {path: "/healthz", shared: true},
	"GET /readyz":                                         {path: "/readyz", shared: true},
	"GET /openapi.json":                                   {path: "/openapi.json", shared: true},
	"POST /v1/admin/tenants":                              {path: "/v1/admin/tenants", admin: true, body: `{"name":"mine"}`},
	"GET /v1/admin/tenants":                               {path: "/v1/admin/tenants", admin: true},
	"GET /v1/admin/tenants/{name}":                        {path: "/v1/admin/tenants/owner", admin: true},
	"GET /v1/admin/audit":                                 {path: "/v1/admin/audit", admin: true},
	"PUT /v1/admin/tenants/{name}":                        {path: "/v1/admin/tenants/owner", admin: true, body: `{"revision":1,"terms":{"disabled":true}}`},
	"POST /v1/admin/tenants/{name}/stop":                  {path: "/v1/admin/tenants/owner/stop", admin: true},
	"POST /v1/admin/tenants/{name}/tokens":                {path: "/v1/admin/tenants/owner/tokens", admin: true, body: `{}`},
	"DELETE /v1/admin/tenants/{name}/tokens/{token}":      {path: "/v1/admin/tenants/owner/tokens/<token>", admin: true},
}

// everyVisit yields each route's visits by what to call them.
func everyVisit() iter.Seq2[string, visit] {
	return func(yield func(string, visit) bool) {
		for pattern, v := range visits {
			v.method, _, _ = strings.Cut(pattern, " ")
			for _, path := range append([]string{v.path}, v.also...) {
				v.path = path
				if !yield(v.method+" "+path, v) {
					return
				}
			}
		}
	}
}

// checkVisits fails for a route without a visit, be it in the OpenAPI document or not,
// and for a visit without a route.
func checkVisits(t *testing.T, w *world) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(w.do(t, "GET", "/openapi.json", http.NoBody).body, &doc); err != nil {
		t.Fatal(err)
	}
	routes := w.api.Patterns()
	for path, operations := range doc.Paths {
		for method := range operations {
			route := strings.ToUpper(method) + " " + path
			if !slices.ContainsFunc(routes, func(p string) bool { return strings.Replace(p, "...}", "}", 1) == route }) {
				t.Errorf("the OpenAPI document has %s, which is no route", route)
			}
		}
	}
	for _, route := range routes {
		if _, ok := visits[route]; !ok {
			t.Errorf("%s has no visit: say in visits what another tenant sees of it", route)
		}
	}
	for route := range visits {
		if !slices.Contains(routes, route) {
			t.Errorf("%s is visited but no route", route)
		}
	}
	if len(routes) < 23 {
		t.Errorf("got %d routes: are they all?", len(routes))
	}
}

func headerSets(headers []string) [][]string {
	var sets [][]string
	for _, h := range headers {
		sets = append(sets, []string{h})
	}
	return sets
}
