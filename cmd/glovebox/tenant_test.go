package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/producertest"
	"github.com/glovebox-run/glovebox/webhook"
)

// TestTenantCommands does what an operator does, over a real API and Redis.
func TestTenantCommands(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	const adminToken = "an-admin-token-of-a-test"
	admin := api.HashToken(adminToken)
	handler, err := api.New(api.Config{Client: w.Client, Links: w.Links, AdminToken: &admin})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)

	try := func(env config.File, args ...string) (code int, stdout, stderr string) {
		t.Helper()
		settings := config.File{"GLOVEBOX_URL": srv.URL, "GLOVEBOX_ADMIN_TOKEN": adminToken, "GLOVEBOX_DATA": t.TempDir()}
		for name, value := range env {
			settings[name] = value
		}
		var out, errs bytes.Buffer
		a := &app{stdin: strings.NewReader("print(1)"), stdout: &out, stderr: &errs, getenv: settings.Get}
		code = a.run(t.Context(), args)
		return code, out.String(), errs.String()
	}
	glovebox := func(args ...string) string {
		t.Helper()
		code, out, errs := try(nil, args...)
		if code != exitOK {
			t.Fatalf("%v: got exit code %d, %s", args, code, errs)
		}
		return out
	}
	show := func(name string) job.Tenant {
		t.Helper()
		var tenant job.Tenant
		if err := json.Unmarshal([]byte(glovebox("tenant", "show", name, "--json")), &tenant); err != nil {
			t.Fatal(err)
		}
		return tenant
	}
	asTenant := func(token string) config.File { return config.File{"GLOVEBOX_TOKEN": strings.TrimSpace(token)} }

	first := glovebox("tenant", "create", "acme", "--jobs-queued", "1", "--running-at-once", "7", "--maximum", "wall_ms=5000", "--maximum", "cpus=0.5",
		"--allow-runtimes", "python,bash", "--allow-callback-hosts", "*.acme.example")
	if !strings.HasPrefix(first, "gb_acme_") || strings.Count(first, "\n") != 1 {
		t.Errorf("create: got %q, want the token alone", first)
	}
	want := job.Terms{
		Quotas: job.Quotas{JobsQueued: 1, RunningAtOnce: 7}, Maximums: job.Limits{WallMS: 5000, CPUs: 0.5},
		Runtimes: []string{"python", "bash"}, CallbackHosts: []string{"*.acme.example"},
	}
	if diff := cmp.Diff(want, show("acme").Terms); diff != "" {
		t.Errorf("create: %s", diff)
	}
	submit := []string{"submit", "--runtime", "python", "-"}
	if code, out, errs := try(asTenant(first), submit...); code != exitOK || !strings.HasPrefix(out, "acme-") {
		t.Errorf("submit: got %d, %q, %s", code, out, errs)
	}
	if code, _, errs := try(asTenant(first), submit...); code != exitFailed || !strings.Contains(errs, "jobs_queued") || !strings.Contains(errs, "try again later") {
		t.Errorf("submit beyond the quota: got %d, %s", code, errs)
	}

	// What update does not name stays.
	ofAPI := config.File{"GLOVEBOX_RETENTION_SECONDS": "60", "GLOVEBOX_POLICY": "/nowhere"} // the operator's, not the tenant's
	if code, _, errs := try(ofAPI, "tenant", "update", "acme", "--jobs-queued", "0", "--requests-per-minute", "600", "--maximum", "wall_ms=0", "--maximum", "memory_mb=128", "--allow-runtimes", "", "--allow-images", "localhost/tool"); code != exitOK {
		t.Fatal(errs)
	}
	want.Quotas, want.Maximums, want.Runtimes = job.Quotas{RequestsPerMinute: 600, RunningAtOnce: 7}, job.Limits{CPUs: 0.5, MemoryMB: 128}, nil
	want.Images = []string{"localhost/tool"}
	if diff := cmp.Diff(want, show("acme").Terms); diff != "" {
		t.Errorf("update: %s", diff)
	}
	if code, _, errs := try(asTenant(first), submit...); code != exitUsage || !strings.Contains(errs, "runtime") {
		t.Errorf("submit with a runtime that is not allowed: got %d, %s", code, errs)
	}
	glovebox("tenant", "update", "acme", "--allow-images", "")
	want.Images = nil
	if out := glovebox("tenant", "show", "acme"); !strings.Contains(out, "600 a minute") || !strings.Contains(out, "memory_mb=128 cpus=0.5") || !strings.Contains(out, "1 of any jobs") || !strings.Contains(out, "0 of 7 jobs") {
		t.Errorf("show: got\n%s", out)
	}

	glovebox("tenant", "update", "acme", "--placement", "pool=exams,zone=a")
	if got := show("acme").Terms.Placement.String(); got != "pool=exams,zone=a" || !regexp.MustCompile(`(?m)^placement +pool=exams,zone=a$`).MatchString(glovebox("tenant", "show", "acme")) {
		t.Errorf("a tenant that is tied to a pool: got %q", got)
	}
	if code, _, errs := try(nil, "tenant", "update", "acme", "--placement", "pool=a b"); code != exitUsage || !strings.Contains(errs, "terms.placement.pool") {
		t.Errorf("what is no label: got %d, %s", code, errs)
	}
	if code, _, errs := try(asTenant(first), append(submit, "--placement", "pool=other")...); code != exitUsage || !strings.Contains(errs, "placement.pool") {
		t.Errorf("submit out of the pool: got %d, %s", code, errs)
	}
	glovebox("tenant", "update", "acme", "--placement", "")

	glovebox("tenant", "disable", "acme")
	if code, _, errs := try(asTenant(first), submit...); code != exitGlovebox || !strings.Contains(errs, "disabled") {
		t.Errorf("submit as a disabled tenant: got %d, %s", code, errs)
	}
	if out := glovebox("tenant", "list"); !strings.Contains(out, "acme     disabled   600") {
		t.Errorf("list: got\n%s", out)
	}
	glovebox("tenant", "enable", "acme")
	if diff := cmp.Diff(want, show("acme").Terms); diff != "" {
		t.Errorf("disable and enable: %s", diff)
	}

	// A rotation.
	second := glovebox("tenant", "token", "add", "acme", "--label", "second")
	tokens := show("acme").Tokens
	if len(tokens) != 2 || tokens[1].Label != "second" || !strings.Contains(glovebox("tenant", "token", "list", "acme"), tokens[1].ID) {
		t.Fatalf("got tokens %+v", tokens)
	}
	glovebox("tenant", "token", "revoke", "acme", tokens[0].ID)
	if code, _, errs := try(asTenant(first), submit...); code != exitGlovebox || !strings.Contains(errs, "GLOVEBOX_TOKEN") {
		t.Errorf("the revoked token: got %d, %s", code, errs)
	}
	if code, _, errs := try(asTenant(second), submit...); code != exitOK {
		t.Errorf("the new token: got %d, %s", code, errs)
	}
	var made struct {
		Tenant job.Tenant
		Token  producer.NewToken
	}
	if err := json.Unmarshal([]byte(glovebox("tenant", "create", "json", "--json")), &made); err != nil || made.Tenant.Name != "json" || made.Token.Secret == "" {
		t.Errorf("create --json: got %+v, %v", made.Tenant, err)
	}

	// What signs webhooks: the tenant's own view, and the operator's.
	secret := func(env config.File, args ...string) string {
		t.Helper()
		code, out, errs := try(env, append([]string{"webhook"}, args...)...)
		if code != exitOK {
			t.Fatalf("webhook %v: got exit code %d, %s", args, code, errs)
		}
		return out
	}
	was := secret(asTenant(second), "secret")
	if _, err := webhook.ParseVerifiers(was + secret(asTenant(second), "keys")); err != nil || secret(nil, "secret", "--tenant", "acme") != was {
		t.Errorf("the operator sees another secret than the tenant; %v", err)
	}
	rotated := secret(asTenant(second), "rotate", "--expire", "1h")
	if !strings.HasSuffix(rotated, "\n"+was) || strings.Count(rotated, "whsec_") != 2 {
		t.Error("rotate prints the new secret, then the one before")
	}
	if now := secret(nil, "rotate", "--tenant", "acme", "--expire", "0s"); strings.Count(now, "whsec_") != 1 || strings.Contains(rotated, now) {
		t.Error("rotate --expire 0s prints a new secret alone")
	}
	secret(nil, "rotate", "--tenant", "acme")
	// A token for one thing, for a while.
	narrow := glovebox("tenant", "token", "add", "acme", "--label", "narrow", "--scope", "read", "--expires", "24h")
	if code, _, errs := try(asTenant(narrow), submit...); code != exitGlovebox || !strings.Contains(errs, "the scope submit") {
		t.Errorf("submit with a token that may only read: got %d, %s", code, errs)
	}
	if out := glovebox("tenant", "token", "list", "acme"); !strings.Contains(out, "expires 20") || !strings.Contains(out, "expires never") || !strings.Contains(out, "submit, read, approve, manage") {
		t.Errorf("token list: got\n%s", out)
	}

	// A worker plays along while what the tenant has is stopped.
	stopped := strings.TrimSpace(glovebox("tenant", "create", "stopped", "--running-at-once", "1"))
	var ids []string
	for range 3 {
		code, out, errs := try(asTenant(stopped), submit...)
		if code != exitOK {
			t.Fatalf("submit: got %d, %s", code, errs)
		}
		ids = append(ids, strings.TrimSpace(out))
	}
	w.Start(t, ids[0])
	go func() {
		for t.Context().Err() == nil {
			if j, err := w.Records.Get(t.Context(), ids[0]); err == nil && j.CancelRequested {
				_ = w.Records.EndUnrun(t.Context(), j.ID, j.Epoch, job.Canceled, nil)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	for range 2 { // the second time there is nothing to do
		if out := glovebox("tenant", "disable", "stopped", "--now"); !strings.Contains(out, "disabled") {
			t.Errorf("disable --now: got\n%s", out)
		}
	}
	for _, id := range ids {
		if j, err := w.Records.Get(t.Context(), id); err != nil || j.State != job.Canceled || !strings.Contains(string(j.Result), job.CodeTenantStopped) {
			t.Errorf("%s: got %s %s, %v", id, j.State, j.Result, err)
		}
	}
	audit, deadline := "", time.Now().Add(gbtest.Patience) // entries are written a little later
	for strings.Count(audit, "tenant.stop") < 2 || !strings.Contains(audit, "GLOVEBOX_ADMIN_TOKEN") {
		if time.Now().After(deadline) {
			t.Fatalf("audit: got\n%s", audit)
		}
		audit = glovebox("audit", "--tenant", "stopped", "--action", "tenant.stop")
	}

	for _, c := range []struct {
		code int
		env  config.File
		want string
		args []string
	}{
		{exitFailed, nil, "a tenant of that name already", []string{"tenant", "create", "acme"}},
		{exitUsage, nil, "1 to 32 lower-case letters and digits", []string{"tenant", "create", "Acme"}},
		{exitUsage, nil, "terms.quotas.jobs_queued", []string{"tenant", "update", "acme", "--jobs-queued", "-1"}},
		{exitUsage, nil, "--maximum walls: there is no such limit", []string{"tenant", "update", "acme", "--maximum", "walls=1"}},
		{exitFailed, nil, "no such tenant", []string{"tenant", "show", "nobody"}},
		{exitFailed, nil, "no such tenant", []string{"webhook", "secret", "--tenant", "nobody"}},
		{exitFailed, nil, "two webhook secrets of the tenant are valid already", []string{"webhook", "rotate", "--tenant", "acme"}},
		{exitUsage, nil, "--expire", []string{"webhook", "rotate", "--expire", "169h"}},
		{exitGlovebox, config.File{"GLOVEBOX_ADMIN_TOKEN": strings.TrimSpace(second)}, "this needs the admin token", []string{"webhook", "rotate", "--tenant", "json"}},
		{exitFailed, nil, "no such tenant", []string{"tenant", "disable", "nobody", "--now"}},
		{exitUsage, nil, "scopes[0]", []string{"tenant", "token", "add", "acme", "--scope", "all"}},
		{exitUsage, nil, "--expires", []string{"tenant", "token", "add", "acme", "--expires", "tomorrow"}},
		{exitUsage, nil, "--since", []string{"audit", "--since", "yesterday"}},
		{exitUsage, nil, "--since", []string{"audit", "--since", "-24h"}},
		{exitFailed, nil, "no such token", []string{"tenant", "token", "revoke", "acme", tokens[0].ID}},
		{exitUsage, nil, "ID of a token", []string{"tenant", "token", "revoke", "acme"}},
		{exitUsage, config.File{"GLOVEBOX_ADMIN_TOKEN": ""}, "set GLOVEBOX_ADMIN_TOKEN", []string{"tenant", "list"}},
		{exitGlovebox, config.File{"GLOVEBOX_ADMIN_TOKEN": strings.TrimSpace(second)}, "this needs the admin token", []string{"tenant", "list"}},
		{exitGlovebox, config.File{"GLOVEBOX_ADMIN_TOKEN": "wrong"}, "the token comes from GLOVEBOX_ADMIN_TOKEN", []string{"tenant", "list"}},
	} {
		if code, _, errs := try(c.env, c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: got exit code %d, %s; want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}
