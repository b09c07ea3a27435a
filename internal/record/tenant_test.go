package record_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// process opens the records of the same Redis once more, as another process would.
func process(t *testing.T, url string) *record.Store {
	t.Helper()
	s, err := record.Open(t.Context(), record.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newTenant(t *testing.T, s *record.Store, name string, terms job.Terms) record.TenantRecord {
	t.Helper()
	made, err := s.CreateTenant(t.Context(), name, terms)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func addToken(t *testing.T, s *record.Store, tenant, label string) (string, job.Token) {
	t.Helper()
	token, known, err := s.AddToken(t.Context(), tenant, job.Token{Label: label})
	if err != nil {
		t.Fatal(err)
	}
	return token, known
}

func owns(t record.TenantRecord, token string) bool {
	_, ok := t.Token(token)
	return ok
}

func TestTenantLifecycle(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	if _, err := s.Tenant(ctx, "acme"); !errors.Is(err, job.ErrNoTenant) {
		t.Errorf("before it is made: got %v, want ErrNoTenant", err)
	}
	terms := job.Terms{Quotas: job.Quotas{JobsQueued: 5}, Runtimes: []string{"python"}}
	made := newTenant(t, s, "acme", terms)
	if diff := cmp.Diff(terms, made.Terms); diff != "" || made.Revision != 1 || made.Name != "acme" || time.Since(made.CreatedAt).Abs() > time.Minute {
		t.Errorf("got %+v: %s", made.Tenant, diff)
	}
	if now, err := s.Tenant(ctx, "acme"); err != nil || now.Revision != 1 {
		t.Errorf("what this process changed is not seen by it at once: %+v, %v", now.Tenant, err)
	}
	if _, err := s.CreateTenant(ctx, "acme", job.Terms{}); !errors.Is(err, job.ErrTenantExists) {
		t.Errorf("again: got %v, want ErrTenantExists", err)
	}
	newTenant(t, s, "abc", job.Terms{})
	create(t, s, spec()) // of "default", which has no record
	list, err := s.Tenants(ctx)
	if err != nil || len(list) != 2 || list[0].Name != "abc" || list[1].Terms.Quotas.JobsQueued != 5 {
		t.Errorf("got %+v, %v, want abc and acme", list, err)
	}

	changed, err := s.SetTerms(ctx, "acme", 1, job.Terms{Disabled: true})
	if err != nil || changed.Revision != 2 || !changed.Terms.Disabled || changed.Terms.Runtimes != nil {
		t.Errorf("got %+v, %v", changed.Tenant, err)
	}
	if _, err := s.SetTerms(ctx, "acme", 1, job.Terms{}); !errors.Is(err, job.ErrRevision) {
		t.Errorf("a change of old terms: got %v, want ErrRevision", err)
	}
	for _, name := range []string{"nobody", "no}body", ""} {
		if _, err := s.SetTerms(ctx, name, 1, job.Terms{}); !errors.Is(err, job.ErrNoTenant) {
			t.Errorf("%q: got %v, want ErrNoTenant", name, err)
		}
		if _, err := s.ReadTenant(ctx, name); !errors.Is(err, job.ErrNoTenant) {
			t.Errorf("%q: got %v, want ErrNoTenant", name, err)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	ctx := t.Context()
	newTenant(t, s, "acme", job.Terms{})
	newTenant(t, s, "other", job.Terms{})
	first, known := addToken(t, s, "acme", "ci")
	second, _ := addToken(t, s, "acme", "")
	foreign, _ := addToken(t, s, "other", "")
	if tenant, ok := job.TenantOfToken(first); !ok || tenant != "acme" || !strings.HasPrefix(first, "gb_acme_") || first == second {
		t.Errorf("got a token of tenant %q, %v", tenant, ok)
	}
	acme, err := s.Tenant(ctx, "acme")
	if err != nil || len(acme.Tokens) != 2 || known.Label != "ci" {
		t.Fatalf("got %+v, %v", acme.Tokens, err)
	}
	for token, want := range map[string]bool{
		first: true, second: true, foreign: false, "": false, first[:len(first)-1]: false, first + "a": false, strings.ToUpper(first): false,
		strings.Replace(foreign, "other", "acme", 1): false,
	} {
		if _, got := acme.Token(token); got != want {
			t.Errorf("owns a token of %d characters: got %v, want %v", len(token), got, want)
		}
	}
	// Redis knows no token, nor what could be made one.
	stored, err := s.Redis().HGetAll(ctx, "gb:{acme}:tenant").Result()
	if err != nil {
		t.Fatal(err)
	}
	for field, value := range stored {
		if strings.Contains(field+value, first[len("gb_acme_"):]) {
			t.Errorf("field %s holds a token", field)
		}
	}

	there := process(t, server.URL())
	if now, err := there.Tenant(ctx, "acme"); err != nil || !owns(now, first) {
		t.Fatalf("another process: %v", err)
	}
	if err := s.RevokeToken(ctx, "acme", known.ID); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	if now, err := s.Tenant(ctx, "acme"); err != nil || owns(now, first) || !owns(now, second) {
		t.Errorf("this process goes by a revoked token (%v)", err)
	}
	for {
		asked := time.Now()
		now, err := there.Tenant(ctx, "acme")
		if err != nil {
			t.Fatal(err)
		}
		if !owns(now, first) {
			break
		}
		if asked.Sub(revoked) > time.Second {
			t.Fatalf("another process goes by a token %s after it was revoked", asked.Sub(revoked))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := s.RevokeToken(ctx, "acme", known.ID); !errors.Is(err, job.ErrNoToken) {
		t.Errorf("again: got %v, want ErrNoToken", err)
	}
	if err := s.RevokeToken(ctx, "nobody", known.ID); !errors.Is(err, job.ErrNoTenant) {
		t.Errorf("of nobody: got %v, want ErrNoTenant", err)
	}
	if _, _, err := s.AddToken(ctx, "nobody", job.Token{}); !errors.Is(err, job.ErrNoTenant) {
		t.Errorf("a token for nobody: got %v, want ErrNoTenant", err)
	}
	for range job.MaxTokens - 1 {
		addToken(t, s, "acme", "")
	}
	if _, _, err := s.AddToken(ctx, "acme", job.Token{}); !errors.Is(err, job.ErrTooManyTokens) {
		t.Errorf("one token too many: got %v, want ErrTooManyTokens", err)
	}
}

// A Redis that is away must not leave the last word to what is remembered.
func TestTenantIsNotRememberedOverAnOutage(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	newTenant(t, s, "acme", job.Terms{})
	if _, err := s.Tenant(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := s.Tenant(t.Context(), "acme")
		if err != nil && !errors.Is(err, job.ErrNoTenant) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("10 s without Redis: got %v, want a fault", err)
		}
	}
}
