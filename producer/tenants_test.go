package producer_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// TestTenants is the contract of producer.Tenants, which both implementations keep.
func TestTenants(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	admin := api.HashToken("admin")
	a, err := api.New(api.Config{Client: w.Client, Links: w.Links, AdminToken: &admin})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	over := func(t *testing.T, token string) *producer.Client {
		t.Helper()
		h, err := producer.New(srv.URL, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		return h
	}
	for name, tenants := range map[string]producer.Tenants{"client": w.Client, "http": over(t, "admin")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tenantSuite{tenants, name, over}
			t.Run("life", s.life)
			t.Run("refusals", s.refusals)
			t.Run("tokens", s.tokens)
			t.Run("quota", s.quota)
		})
	}
	t.Run("a client of Redis", func(t *testing.T) {
		t.Parallel()
		if _, err := w.Client.CreateTenant(t.Context(), "direct", job.Terms{Disabled: true}); err != nil {
			t.Fatal(err)
		}
		_, err := w.Client.For("direct").Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
		if !coded(err, job.CodeForbidden) {
			t.Errorf("submit as a disabled tenant: got %v, want forbidden", err)
		}
	})
}

// A Wait bears with a quota of requests that is used up for the moment.
func TestWaitBeyondTheQuota(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	w.Runtimes(t)
	if _, err := w.Client.CreateTenant(t.Context(), "default", job.Terms{Quotas: job.Quotas{RequestsPerMinute: 60}}); err != nil {
		t.Fatal(err)
	}
	j, err := w.Client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if err != nil {
		t.Fatal(err)
	}
	w.End(t, w.Start(t, j.ID), nil, nil)
	jobs := overHTTP(t, w, "default")
	for range 1000 {
		if _, err = jobs.Runtimes(t.Context()); err != nil {
			break
		}
	}
	if !coded(err, job.CodeRateLimited) {
		t.Fatalf("got %v, want rate_limited", err)
	}
	if got, err := jobs.Wait(t.Context(), j.ID); err != nil || !got.Ended() {
		t.Errorf("got %+v, %v, want the result", got, err)
	}
}

type tenantSuite struct {
	tenants producer.Tenants
	prefix  string                                    // both share one Redis
	over    func(*testing.T, string) *producer.Client // with that token
}

func coded(err error, code string) bool {
	var said *job.Error
	return errors.As(err, &said) && said.Code == code
}

func (s tenantSuite) life(t *testing.T) {
	ctx, name := t.Context(), s.prefix+"life"
	terms := job.Terms{
		Quotas:   job.Quotas{RequestsPerMinute: 600, JobsQueued: 10, BytesQueued: 1 << 20, RunningAtOnce: 3},
		Maximums: job.Limits{WallMS: 5000, CPUs: 0.5}, Runtimes: []string{"python"}, CallbackHosts: []string{"*.example.com"},
	}
	made, err := s.tenants.CreateTenant(ctx, name, terms)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(job.Tenant{Name: name, CreatedAt: made.CreatedAt, Revision: 1, Terms: terms, Tokens: []job.Token{}}, made); diff != "" {
		t.Error(diff)
	}
	got, err := s.tenants.GetTenant(ctx, name)
	if diff := cmp.Diff(made, got); err != nil || diff != "" {
		t.Errorf("get: %v %s", err, diff)
	}
	list, err := s.tenants.ListTenants(ctx)
	found := false
	for _, one := range list {
		found = found || cmp.Equal(one, made)
	}
	if err != nil || !found {
		t.Errorf("list: got %+v, %v, want %s in it", list, err, name)
	}
	changed, err := s.tenants.SetTerms(ctx, name, 1, job.Terms{Disabled: true})
	if err != nil || changed.Revision != 2 || !cmp.Equal(changed.Terms, job.Terms{Disabled: true}) {
		t.Errorf("set terms: got %+v, %v", changed, err)
	}
	if _, err := s.tenants.SetTerms(ctx, name, 1, terms); !errors.Is(err, job.ErrRevision) {
		t.Errorf("an old revision: got %v, want ErrRevision", err)
	}
	if _, err := s.tenants.CreateTenant(ctx, name, terms); !errors.Is(err, job.ErrTenantExists) {
		t.Errorf("again: got %v, want ErrTenantExists", err)
	}
}

func (s tenantSuite) refusals(t *testing.T) {
	ctx, name := t.Context(), s.prefix+"refusals"
	if _, err := s.tenants.CreateTenant(ctx, name, job.Terms{}); err != nil {
		t.Fatal(err)
	}
	bad := job.Terms{Quotas: job.Quotas{JobsQueued: -1}}
	_, create := s.tenants.CreateTenant(ctx, s.prefix+"bad", bad)
	_, terms := s.tenants.SetTerms(ctx, name, 1, bad)
	_, called := s.tenants.CreateTenant(ctx, "No Name", job.Terms{})
	_, label := s.tenants.AddToken(ctx, name, producer.TokenRequest{Label: strings.Repeat("x", 65)})
	for what, err := range map[string]error{"create": create, "terms": terms, "name": called, "label": label} {
		var invalid job.Invalid
		if !errors.As(err, &invalid) || len(invalid) != 1 {
			t.Errorf("%s: got %v, want one invalid field", what, err)
		}
	}
	for _, nobody := range []string{s.prefix + "nobody", "..", ""} {
		_, get := s.tenants.GetTenant(ctx, nobody)
		_, set := s.tenants.SetTerms(ctx, nobody, 1, job.Terms{})
		_, add := s.tenants.AddToken(ctx, nobody, producer.TokenRequest{})
		revoke := s.tenants.RevokeToken(ctx, nobody, "aaaaaaaa")
		for what, err := range map[string]error{"get": get, "set": set, "add": add, "revoke": revoke} {
			if !errors.Is(err, job.ErrNoTenant) {
				t.Errorf("%s of %q: got %v, want ErrNoTenant", what, nobody, err)
			}
		}
	}
	for _, none := range []string{"aaaaaaaa", "..", "", "a/b"} {
		if err := s.tenants.RevokeToken(ctx, name, none); !errors.Is(err, job.ErrNoToken) {
			t.Errorf("revoke %q: got %v, want ErrNoToken", none, err)
		}
	}
}

func (s tenantSuite) tokens(t *testing.T) {
	ctx, name := t.Context(), s.prefix+"tokens"
	if _, err := s.tenants.CreateTenant(ctx, name, job.Terms{}); err != nil {
		t.Fatal(err)
	}
	old, err := s.tenants.AddToken(ctx, name, producer.TokenRequest{Label: "old"})
	if err != nil || old.Label != "old" || old.ID == "" || !strings.HasPrefix(old.Secret, "gb_"+name+"_") {
		t.Fatalf("got id %q, label %q, %v", old.ID, old.Label, err)
	}
	fresh, err := s.tenants.AddToken(ctx, name, producer.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	// A rotation: both speak for the tenant, then only the new one.
	j, err := s.over(t, old.Secret).Submit(ctx, job.Spec{Runtime: "python", Source: "1"})
	if err != nil || !strings.HasPrefix(j.ID, name+"-") {
		t.Fatalf("submit: got %q, %v", j.ID, err)
	}
	if err := s.tenants.RevokeToken(ctx, name, old.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.over(t, old.Secret).Get(ctx, j.ID); !coded(err, job.CodeUnauthorized) {
		t.Errorf("the old token: got %v, want unauthorized", err)
	}
	if got, err := s.over(t, fresh.Secret).Get(ctx, j.ID); err != nil || got.ID != j.ID {
		t.Errorf("the new token: got %q, %v", got.ID, err)
	}
	now, err := s.tenants.GetTenant(ctx, name)
	if err != nil || len(now.Tokens) != 1 || now.Tokens[0].ID != fresh.ID || now.Usage.JobsQueued != 1 || now.Usage.BytesQueued == 0 {
		t.Errorf("got %+v, %v, want the new token and one job queued", now, err)
	}
}

func (s tenantSuite) quota(t *testing.T) {
	ctx, name := t.Context(), s.prefix+"quota"
	if _, err := s.tenants.CreateTenant(ctx, name, job.Terms{Quotas: job.Quotas{BytesQueued: 200_000}}); err != nil {
		t.Fatal(err)
	}
	token, err := s.tenants.AddToken(ctx, name, producer.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := s.over(t, token.Secret)
	large := job.Spec{Runtime: "bash", Source: strings.Repeat("# x\n", 30_000)} // goes to the bucket
	first, err := jobs.Submit(ctx, large)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Submit(ctx, large); !coded(err, job.CodeQuotaExceeded) {
		t.Errorf("two large jobs: got %v, want quota_exceeded", err)
	}
	if _, err := jobs.Cancel(ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Submit(ctx, large); err != nil {
		t.Errorf("when the first is canceled: %v", err)
	}
}
