package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
)

// access is who may use a route.
type access struct {
	// scope that a tenant's token needs: one of job.Scopes, or one of those below.
	scope job.Scope
	// action is what the audit log calls it; "" for what changes nothing.
	action string
}

// What routes ask for besides job.Scopes.
const (
	anyScope job.Scope = "any"    // whatever a tenant's token is good for
	operator job.Scope = "admin"  // the operator's token
	nobodys  job.Scope = "public" // no token
)

// accesses says of each route who may use it. Whoever adds a route adds it here: New fails
// without, and so would each request to it. Those of façades, which say so themselves, are beside them in
// API.accesses.
var accesses = map[string]access{
	"POST /v1/jobs":                            {job.ScopeSubmit, "job.submit"},
	"GET /v1/jobs":                             {job.ScopeRead, ""},
	"GET /v1/jobs/{id}":                        {job.ScopeRead, ""},
	"DELETE /v1/jobs/{id}":                     {job.ScopeSubmit, "job.cancel"}, // what it answers beyond id, status and times is for ScopeRead; to purge is ScopeManage, which the handler asks for
	"POST /v1/jobs/{id}/input":                 {job.ScopeSubmit, "job.input"},
	"GET /v1/jobs/{id}/stdout":                 {job.ScopeRead, ""},
	"GET /v1/jobs/{id}/stderr":                 {job.ScopeRead, ""},
	"GET /v1/jobs/{id}/artifacts/{name...}":    {job.ScopeRead, ""},
	"GET /v1/jobs/{id}/events":                 {job.ScopeRead, ""},
	"POST /v1/code-sandbox/execute":            {job.ScopeSubmit, "job.submit"},
	"POST /v1/batches":                         {job.ScopeSubmit, "batch.submit"},
	"GET /v1/batches":                          {job.ScopeRead, ""},
	"GET /v1/batches/{id}":                     {job.ScopeRead, ""},
	"DELETE /v1/batches/{id}":                  {job.ScopeSubmit, "batch.cancel"}, // what it answers beyond id, status, counts and times is for ScopeRead
	"GET /v1/batches/{id}/results":             {job.ScopeRead, ""},
	"GET /v1/deliveries":                       {job.ScopeRead, ""},
	"GET /v1/deliveries/{id}":                  {job.ScopeRead, ""},
	"POST /v1/deliveries/{id}/redeliver":       {job.ScopeManage, "delivery.redeliver"},
	"POST /v1/endpoints":                       {job.ScopeManage, "endpoint.create"},
	"GET /v1/endpoints":                        {job.ScopeRead, ""},
	"GET /v1/endpoints/{id}":                   {job.ScopeRead, ""},
	"PATCH /v1/endpoints/{id}":                 {job.ScopeManage, "endpoint.change"},
	"DELETE /v1/endpoints/{id}":                {job.ScopeManage, "endpoint.delete"},
	"GET /v1/endpoints/{id}/secret":            {job.ScopeManage, ""}, // it shows them
	"POST /v1/endpoints/{id}/rotate":           {job.ScopeManage, "endpoint.rotate"},
	"POST /v1/endpoints/{id}/test":             {job.ScopeManage, "endpoint.test"},
	"GET /v1/endpoints/{id}/attempts":          {job.ScopeRead, ""},
	"POST /v1/endpoints/{id}/recover":          {job.ScopeManage, "endpoint.recover"},
	"POST /v1/uploads":                         {job.ScopeSubmit, ""},
	"GET /v1/secrets":                          {job.ScopeRead, ""},
	"PUT /v1/secrets/{name}":                   {job.ScopeManage, "secret.set"},
	"DELETE /v1/secrets/{name}":                {job.ScopeManage, "secret.delete"},
	"GET /v1/templates":                        {job.ScopeRead, ""},
	"GET /v1/templates/{name}":                 {job.ScopeRead, ""},
	"PUT /v1/templates/{name}":                 {job.ScopeManage, "template.set"},
	"DELETE /v1/templates/{name}":              {job.ScopeManage, "template.delete"},
	"POST /v1/templates/{name}/run":            {job.ScopeSubmit, "job.submit"},
	"POST /v1/problems":                        {job.ScopeManage, "problem.store"},
	"GET /v1/problems":                         {job.ScopeRead, ""},
	"GET /v1/problems/{digest}":                {job.ScopeManage, ""}, // it shows hidden tests
	"DELETE /v1/problems/{digest}":             {job.ScopeManage, "problem.delete"},
	"POST /v1/problems/{digest}/regrade":       {job.ScopeSubmit, "batch.submit"}, // and ScopeRead, which the handler asks for
	"POST /v1/hooks":                           {job.ScopeManage, "hook.create"},
	"GET /v1/hooks":                            {job.ScopeRead, ""},
	"GET /v1/hooks/{id}":                       {job.ScopeRead, ""},
	"PUT /v1/hooks/{id}":                       {job.ScopeManage, "hook.change"},
	"DELETE /v1/hooks/{id}":                    {job.ScopeManage, "hook.delete"},
	"POST /v1/hooks/{id}/rotate":               {job.ScopeManage, "hook.rotate"},
	"GET /v1/hooks/{id}/deliveries":            {job.ScopeRead, ""},
	"POST /v1/hooks/{id}":                      {nobodys, ""}, // its signature says who posts
	"OPTIONS /v1/hooks/{id}":                   {nobodys, ""},
	"GET /v1/usage":                            {job.ScopeRead, ""},
	"GET /v1/usage/events":                     {job.ScopeRead, ""},
	"POST /v1/runs":                            {job.ScopeSubmit, "run.start"},
	"POST /v1/runs/{id}/rerun":                 {job.ScopeSubmit, "run.start"}, // and ScopeRead, which the handler asks for
	"GET /v1/runs":                             {job.ScopeRead, ""},
	"GET /v1/runs/{id}":                        {job.ScopeRead, ""},
	"GET /v1/runs/{id}/graph":                  {job.ScopeRead, ""},
	"DELETE /v1/runs/{id}":                     {job.ScopeSubmit, "run.cancel"}, // what it answers beyond id and status is for ScopeRead
	"GET /v1/schedules":                        {job.ScopeRead, ""},
	"GET /v1/schedules/{name}":                 {job.ScopeRead, ""},
	"GET /v1/schedules/{name}/fires":           {job.ScopeRead, ""},
	"PUT /v1/schedules/{name}":                 {job.ScopeManage, "schedule.set"},
	"DELETE /v1/schedules/{name}":              {job.ScopeManage, "schedule.delete"},
	"POST /v1/schedules/{name}/pause":          {job.ScopeManage, "schedule.pause"},
	"POST /v1/schedules/{name}/resume":         {job.ScopeManage, "schedule.resume"},
	"POST /v1/schedules/{name}/run":            {job.ScopeSubmit, "job.submit"},
	"POST /v1/sessions":                        {job.ScopeSubmit, "session.start"},
	"GET /v1/sessions":                         {job.ScopeRead, ""},
	"GET /v1/sessions/{id}":                    {job.ScopeRead, ""},
	"GET /v1/sessions/{id}/executions":         {job.ScopeRead, ""},
	"GET /v1/sessions/{id}/transcript":         {job.ScopeRead, ""},
	"GET /v1/sessions/{id}/notebook":           {job.ScopeRead, ""},
	"PATCH /v1/sessions/{id}":                  {job.ScopeSubmit, "session.change"},
	"DELETE /v1/sessions/{id}":                 {job.ScopeSubmit, "session.end"}, // to purge is ScopeManage, which the handler asks for
	"POST /v1/sessions/{id}/execute":           {job.ScopeSubmit, "job.submit"},
	"POST /v1/sessions/{id}/interrupt":         {job.ScopeSubmit, "job.cancel"},
	"POST /v1/sessions/{id}/fork":              {job.ScopeSubmit, "session.start"},
	"POST /v1/sessions/{id}/restart":           {job.ScopeSubmit, "job.cancel"},
	"GET /v1/sessions/{id}/contexts":           {job.ScopeRead, ""},
	"PUT /v1/sessions/{id}/contexts/{name}":    {job.ScopeSubmit, "session.change"},
	"DELETE /v1/sessions/{id}/contexts/{name}": {job.ScopeSubmit, "job.cancel"},
	"GET /v1/sessions/{id}/files":              {job.ScopeSubmit, "session.files"}, // it is an execution; and ScopeRead, which the handler asks for
	"GET /v1/sessions/{id}/files/{name...}":    {job.ScopeSubmit, "session.files"}, // likewise
	"PUT /v1/sessions/{id}/files/{name...}":    {job.ScopeSubmit, "session.files"},
	"DELETE /v1/sessions/{id}/files/{name...}": {job.ScopeSubmit, "session.files"},
	"GET /v1/approvals":                        {job.ScopeApprove, ""},
	"GET /v1/approvals/{id}":                   {job.ScopeApprove, ""},
	"POST /v1/approvals/{id}/approve":          {job.ScopeApprove, "job.approve"},
	"POST /v1/approvals/{id}/reject":           {job.ScopeApprove, "job.reject"},
	"GET /v1/webhook-secret":                   {job.ScopeManage, ""}, // it shows them
	"POST /v1/webhook-secret/rotate":           {job.ScopeManage, "webhook.rotate"},
	"GET /v1/webhook-keys":                     {job.ScopeRead, ""},
	"GET /v1/runtimes":                         {anyScope, ""},
	"GET /v1/keys":                             {anyScope, ""},
	"GET /v1/tools":                            {anyScope, ""},
	"POST /v1/tools/{name}":                    {anyScope, ""}, // each tool asks for its own
	"POST /mcp":                                {anyScope, ""}, // likewise

	"GET /v1/admin/tenants/{name}/usage":                  {operator, ""},
	"GET /v1/admin/tenants/{name}/usage/events":           {operator, ""},
	"GET /v1/admin/tenants/{name}/webhook-secret":         {operator, ""},
	"POST /v1/admin/tenants/{name}/webhook-secret/rotate": {operator, "webhook.rotate"},
	"POST /v1/admin/tenants":                              {operator, "tenant.create"},
	"GET /v1/admin/audit":                                 {operator, ""},
	"GET /v1/admin/tenants":                               {operator, ""},
	"GET /v1/admin/tenants/{name}":                        {operator, ""},
	"PUT /v1/admin/tenants/{name}":                        {operator, "tenant.terms"},
	"POST /v1/admin/tenants/{name}/stop":                  {operator, "tenant.stop"},
	"POST /v1/admin/tenants/{name}/tokens":                {operator, "token.add"},
	"DELETE /v1/admin/tenants/{name}/tokens/{token}":      {operator, "token.revoke"},

	"GET /healthz":      {nobodys, ""},
	"GET /readyz":       {nobodys, ""},
	"GET /openapi.json": {nobodys, ""},
}

// checkAccesses fails for a route of which nobody said who may use it.
func (a *API) checkAccesses() error {
	for _, pattern := range a.patterns {
		if _, ok := a.accesses[pattern]; !ok {
			return fmt.Errorf("open API: the route %s names no scope", pattern)
		}
	}
	return nil
}

// security is how the OpenAPI document says who may use a route: by the scheme of the token,
// and the roles that the token needs (OpenAPI 3.1, Security Requirement Object).
func security(method, path string) []map[string][]string {
	needed, ok := accesses[method+" "+path]
	if !ok { // net/http's way to say that a name may hold slashes is not OpenAPI's
		needed = accesses[method+" "+strings.TrimSuffix(path, "}")+"...}"]
	}
	switch scope := needed.scope; scope {
	case nobodys:
		return nil
	case operator:
		return []map[string][]string{{adminScheme: {}}}
	case anyScope:
		return []map[string][]string{{bearerScheme: {}}}
	default:
		return []map[string][]string{{bearerScheme: {string(scope)}}}
	}
}

// may fails unless the token is good for that.
func (c caller) may(scope job.Scope) error {
	if scope == anyScope || c.token.May(scope) {
		return nil
	}
	has := "none"
	if len(c.token.Scopes) > 0 {
		has = job.JoinScopes(c.token.Scopes)
	}
	p := newProblem(job.CodeMissingScope, fmt.Sprintf("this needs a token with the scope %s; this token's scopes: %s", scope, has))
	return huma.ErrorWithHeaders(p, http.Header{ // RFC 6750, section 3.1
		"Www-Authenticate": {fmt.Sprintf(`Bearer realm="glovebox", error="insufficient_scope", scope=%q`, string(scope))},
	})
}
