package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// tenant creates a tenant over the admin API and returns a token of it, and its id.
func (w *world) tenant(t *testing.T, name string, terms job.Terms) (token, id string) {
	t.Helper()
	b, err := json.Marshal(producer.TenantRequest{Name: name, Terms: terms})
	if err != nil {
		t.Fatal(err)
	}
	if a := w.admin(t, "POST", "/tenants", string(b)); a.status != http.StatusCreated {
		t.Fatalf("create tenant: got %d %s", a.status, a.body)
	}
	a := w.admin(t, "POST", "/tenants/"+name+"/tokens", `{"label":"test"}`)
	var made producer.NewToken
	if err := json.Unmarshal(a.body, &made); err != nil || a.status != http.StatusCreated || made.Secret == "" {
		t.Fatalf("add token: got %d %s, %v", a.status, a.body, err)
	}
	return made.Secret, made.ID
}

func (w *world) admin(t *testing.T, method, path, body string) answer {
	t.Helper()
	return w.do(t, method, "/v1/admin"+path, strings.NewReader(body), "Authorization: Bearer "+adminToken)
}

func as(token string) string { return "Authorization: Bearer " + token }

func TestTenantOverTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	token, id := w.tenant(t, "acme", job.Terms{})
	// Golden: the only things that vary are the token, its id and times.
	varying := regexp.MustCompile(`gb_acme_[a-z2-7]{32}|"id": "[a-z2-7]{8}"|\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	golden(t, "tenant.json", varying.ReplaceAll(indented(t, w.admin(t, "GET", "/tenants", "").body), []byte("*")))

	if a := w.submit(t, `{"runtime":"python","source":"1"}`, as(token)); a.status != 202 || !strings.Contains(string(a.body), `"id":"acme-`) {
		t.Errorf("submit as acme: got %d %s, want a job of acme's", a.status, a.body)
	}
	a := w.admin(t, "PUT", "/tenants/acme", `{"revision":1,"terms":{"disabled":true}}`)
	if a.status != 200 || !strings.Contains(string(a.body), `"revision":2`) || !strings.Contains(string(a.body), `"jobs_queued":1`) {
		t.Errorf("disable: got %d %s", a.status, a.body)
	}
	for _, request := range []func() answer{
		func() answer { return w.submit(t, `{"runtime":"python","source":"1"}`, as(token)) },
		func() answer { return w.do(t, "GET", "/v1/runtimes", http.NoBody, as(token)) },
		func() answer {
			return w.do(t, "GET", "/v1/jobs/acme-aaaaaaaaaaaaaaaaaaaaaaaaaa/stdout", http.NoBody, as(token))
		},
	} {
		if a := request(); a.status != 403 || !strings.Contains(string(a.body), "disabled") {
			t.Errorf("disabled: got %d %s, want 403", a.status, a.body)
		}
	}
	if a := w.admin(t, "PUT", "/tenants/acme", `{"revision":2,"terms":{}}`); a.status != 200 {
		t.Errorf("enable: got %d %s", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/runtimes", http.NoBody, as(token)); a.status != 200 {
		t.Errorf("enabled again: got %d %s", a.status, a.body)
	}
	if a := w.admin(t, "DELETE", "/tenants/acme/tokens/"+id, ""); a.status != 204 || len(a.body) != 0 {
		t.Errorf("revoke: got %d %s, want 204", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/runtimes", http.NoBody, as(token)); a.status != 401 {
		t.Errorf("revoked: got %d %s, want 401", a.status, a.body)
	}
	for _, secret := range []string{token, adminToken} {
		if strings.Contains(w.log.String(), secret) {
			t.Error("the log holds a token")
		}
	}
}

// Terms hold for the tenant whose token the settings name, once it has a record.
func TestTermsOfTheConfiguredTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.accepted(t) // it has none yet
	w.tenant(t, "default", job.Terms{Quotas: job.Quotas{JobsQueued: 1}})
	a := w.submit(t, `{"runtime":"python","source":"1"}`)
	if a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d %v %s, want 429", a.status, a.header, a.body)
	}
	golden(t, "problems/quota-exceeded.json", indented(t, a.body))
}

func TestTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	token, _ := w.tenant(t, "acme", job.Terms{
		Maximums: job.Limits{MemoryMB: 128, WallMS: 5000, SourceKB: 1}, Runtimes: []string{"python3"}, CallbackHosts: []string{"*.acme.example"},
	})
	for name, body := range map[string]string{
		"terms-runtime":  `{"runtime":"bash","source":"1"}`,
		"terms-maximum":  `{"runtime":"python","source":"1","limits":{"memory_mb":129}}`,
		"terms-source":   `{"runtime":"python","source":"` + strings.Repeat("#", 1025) + `"}`, // within the default
		"terms-callback": `{"runtime":"python","source":"1","callback":{"url":"https://acme.example.evil.net/"}}`,
	} {
		a := w.submit(t, body, as(token))
		if a.status != 422 {
			t.Errorf("%s: got %d %s, want 422", name, a.status, a.body)
		}
		golden(t, "problems/"+name+".json", indented(t, a.body))
	}
	a := w.submit(t, `{"runtime":"python","source":"1","callback":{"url":"https://hooks.acme.example/x"}}`, as(token))
	var r job.Summary
	if err := json.Unmarshal(a.body, &r); err != nil || a.status != 202 {
		t.Fatalf("got %d %s, %v, want 202", a.status, a.body, err)
	}
	// What the job left to its defaults is no more than it may ask for.
	if j, err := w.Records.Get(t.Context(), r.ID); err != nil || j.Spec.Limits != (job.Limits{MemoryMB: 128, WallMS: 5000, CompileMemoryMB: 128, CompileWallMS: 5000, SourceKB: 1}) {
		t.Errorf("got %+v, %v, want the maximums where the defaults are above", j.Spec, err)
	}
	if a := w.do(t, "GET", "/v1/runtimes", http.NoBody, as(token)); strings.Contains(string(a.body), `"bash"`) || !strings.Contains(string(a.body), `"python"`) {
		t.Errorf("got %s, want the runtimes that the tenant may use", a.body)
	}
}

// A list of runtimes or of images is all that a tenant may run.
func TestTermsOfImages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	w.Images(t)
	name, _, _ := strings.Cut(producertest.Image, "@")
	runtimes, _ := w.tenant(t, "runtimes", job.Terms{Runtimes: []string{"python"}})
	images, _ := w.tenant(t, "images", job.Terms{Images: []string{name}, Maximums: job.Limits{MemoryMB: 64}})
	const withRuntime = `{"runtime":"python","source":"1"}`
	withImage := fmt.Sprintf(`{"image":%q,"command":["/bin/true"]}`, producertest.Image)
	for _, c := range []struct {
		token, body string
		want        int
	}{
		{runtimes, withRuntime, 202},
		{runtimes, withImage, 422},
		{images, withRuntime, 422},
		{images, withImage, 202},
	} {
		a := w.submit(t, c.body, as(c.token))
		if a.status != c.want {
			t.Errorf("%s: got %d %s, want %d", c.body, a.status, a.body, c.want)
		}
		var r job.Summary
		if c.token != images || a.status != 202 {
			continue
		}
		if err := json.Unmarshal(a.body, &r); err != nil {
			t.Fatal(err)
		}
		if j, err := w.Records.Get(t.Context(), r.ID); err != nil || j.Spec.Limits.MemoryMB != 64 {
			t.Errorf("got %+v, %v, want the tenant's maximum where the default is above", j.Spec, err)
		}
	}
	for token, want := range map[string][2]bool{runtimes: {true, false}, images: {false, true}} {
		a := w.do(t, "GET", "/v1/runtimes", http.NoBody, as(token))
		if got := [2]bool{strings.Contains(string(a.body), `"python"`), strings.Contains(string(a.body), producertest.Image)}; got != want {
			t.Errorf("got %s, want what the tenant may run", a.body)
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const quota = 5
	token, _ := w.tenant(t, "acme", job.Terms{Quotas: job.Quotas{RequestsPerMinute: quota}})
	free, _ := w.tenant(t, "free", job.Terms{})
	field := regexp.MustCompile(`^"requests";r=(\d+);t=(\d+)$`)
	get := func() (answer, int, int) {
		t.Helper()
		a := w.do(t, "GET", "/v1/runtimes", http.NoBody, as(token))
		m := field.FindStringSubmatch(a.header.Get("RateLimit"))
		if m == nil || a.header.Get("RateLimit-Policy") != fmt.Sprintf(`"requests";q=%d;w=60`, quota) {
			t.Fatalf("got %d %v, want the RateLimit fields", a.status, a.header)
		}
		r, _ := strconv.Atoi(m[1])
		until, _ := strconv.Atoi(m[2])
		return a, r, until
	}
	began := time.Now()
	admitted := 0
	a, r, until := get()
	for ; a.status == 200; a, r, until = get() {
		admitted++
		if r >= quota || until < 1 || until > 60 || a.header.Get("Retry-After") != "" || admitted == 1 && r != quota-1 {
			t.Errorf("request %d: got r=%d;t=%d, %v", admitted, r, until, a.header)
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("%d requests were admitted within a minute, and none refused", admitted)
		}
	}
	if most := quota + int(time.Since(began)/(time.Minute/quota)) + 1; admitted < quota || admitted > most {
		t.Errorf("got %d requests admitted, want %d to %d", admitted, quota, most)
	}
	if a.status != 429 || r != 0 || a.header.Get("Retry-After") != strconv.Itoa(until) || until < 1 || until > 60/quota {
		t.Errorf("beyond the quota: got %d, r=%d;t=%d, Retry-After %s; want 429", a.status, r, until, a.header.Get("Retry-After"))
	}
	golden(t, "problems/rate-limited.json", indented(t, a.body))
	// Plain handlers count, too; others and capabilities don't.
	if a := w.do(t, "GET", "/v1/jobs/acme-aaaaaaaaaaaaaaaaaaaaaaaaaa/stdout", http.NoBody, as(token)); a.status != 429 || a.header.Get("Retry-After") == "" {
		t.Errorf("a file: got %d, want 429", a.status)
	}
	if a := w.do(t, "GET", "/v1/runtimes", http.NoBody, as(free)); a.status != 200 || a.header.Get("RateLimit") != "" {
		t.Errorf("another tenant: got %d %v, want 200 without RateLimit", a.status, a.header)
	}
	if a := w.do(t, "GET", "/v1/runtimes", http.NoBody); a.status != 200 || a.header.Get("RateLimit") != "" {
		t.Errorf("the configured tenant: got %d %v, want 200 without RateLimit", a.status, a.header)
	}
}

// A link of a tenant that is disabled opens nothing.
func TestLinksOfADisabledTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	token, _ := w.tenant(t, "acme", job.Terms{})
	var r job.Summary
	a := w.submit(t, `{"runtime":"python","source":"1"}`, as(token))
	if err := json.Unmarshal(a.body, &r); err != nil {
		t.Fatalf("got %d %s, %v", a.status, a.body, err)
	}
	w.End(t, w.Start(t, r.ID), nil, nil)
	link, err := w.Links.URL(r.ID, producer.Stdout, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if a := w.do(t, "GET", link, http.NoBody, "Authorization: "); a.status != 200 {
		t.Errorf("got %d %s, want 200", a.status, a.body)
	}
	w.admin(t, "PUT", "/tenants/acme", `{"revision":1,"terms":{"disabled":true}}`)
	if a := w.do(t, "GET", link, http.NoBody, "Authorization: "); a.status != 403 {
		t.Errorf("disabled: got %d %s, want 403", a.status, a.body)
	}
}

func TestAdminProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token, _ := w.tenant(t, "acme", job.Terms{})
	for _, test := range []struct {
		name   string
		status int
		a      answer
	}{
		{"admin-no-token", 401, w.do(t, "GET", "/v1/admin/tenants", http.NoBody, "Authorization: ")},
		{"admin-wrong-token", 401, w.do(t, "GET", "/v1/admin/tenants", http.NoBody, as("gb_acme_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))},
		{"admin-tenants-token", 403, w.do(t, "GET", "/v1/admin/tenants", http.NoBody, as(token))},
		{"admin-token-for-jobs", 403, w.do(t, "GET", "/v1/runtimes", http.NoBody, as(adminToken))},
		{"tenant-exists", 409, w.admin(t, "POST", "/tenants", `{"name":"acme"}`)},
		{"tenant-name", 422, w.admin(t, "POST", "/tenants", `{"name":"Acme Inc."}`)},
		{"tenant-terms", 422, w.admin(t, "POST", "/tenants", `{"name":"x","terms":{"quotas":{"jobs_queued":-1},"maximums":{"cpus":-1},"callback_hosts":["https://x/"],"runtimes":["a","a"]}}`)},
		{"tenant-unknown-field", 422, w.admin(t, "POST", "/tenants", `{"name":"x","terms":{"quota":{}},"token":"x"}`)},
		{"tenant-not-json", 400, w.admin(t, "POST", "/tenants", `name=x`)},
		{"no-tenant", 404, w.admin(t, "GET", "/tenants/nobody", ``)},
		{"terms-of-no-tenant", 404, w.admin(t, "PUT", "/tenants/nobody", `{"revision":1,"terms":{}}`)},
		{"terms-of-old", 409, w.admin(t, "PUT", "/tenants/acme", `{"revision":7,"terms":{}}`)},
		{"token-of-no-tenant", 404, w.admin(t, "POST", "/tenants/nobody/tokens", `{}`)},
		{"token-label", 422, w.admin(t, "POST", "/tenants/acme/tokens", `{"label":"a\nb"}`)},
		{"no-such-token", 404, w.admin(t, "DELETE", "/tenants/acme/tokens/aaaaaaaa", ``)},
	} {
		if test.a.status != test.status || test.a.header.Get("Content-Type") != producer.ProblemMediaType {
			t.Errorf("%s: got %d %s, want a problem %d", test.name, test.a.status, test.a.body, test.status)
		}
		golden(t, "problems/"+test.name+".json", indented(t, test.a.body))
	}
}

// Without an admin token there is no admin API, whatever is presented.
func TestNoAdminAPI(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	a, err := api.New(api.Config{Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken(token): "default"}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	closed := &world{Env: w, api: a, srv: srv}
	for _, header := range []string{"Authorization: ", as(""), as(token), as(adminToken)} {
		if a := closed.do(t, "GET", "/v1/admin/tenants", http.NoBody, header); a.status != 403 || !strings.Contains(string(a.body), "GLOVEBOX_ADMIN_TOKEN") {
			t.Errorf("got %d %s, want 403", a.status, a.body)
		}
	}
	admin := api.HashToken(token)
	if _, err := api.New(api.Config{Client: w.Client, Links: w.Links, AdminToken: &admin, Tokens: map[api.TokenHash]string{admin: "default"}}); err == nil {
		t.Error("one token for both: got no error")
	}
}

// Without Redis nobody is told that their token is wrong.
func TestTokensWithoutRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, _ := w.tenant(t, "acme", job.Terms{})
	w.Redis.Kill()
	for _, token := range []string{acme, token, otherToken, adminToken} {
		path := "/v1/jobs/acme-aaaaaaaaaaaaaaaaaaaaaaaaaa"
		if token == adminToken {
			path = "/v1/admin/tenants"
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			a := w.do(t, "GET", path, http.NoBody, as(token))
			if a.status == 503 && a.header.Get("Retry-After") != "" {
				break
			}
			if a.status != 404 || time.Now().After(deadline) { // another tenant's job needs no Redis while its own tenant is remembered
				t.Errorf("got %d %s, want 503", a.status, a.body)
				break
			}
		}
	}
}
