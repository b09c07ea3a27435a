package artifacts_test

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
)

var tokenTime = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func tokens(tb testing.TB, ids ...string) *artifacts.Tokens {
	tb.Helper()
	var list []artifacts.TokenKey
	for _, id := range ids {
		list = append(list, artifacts.TokenKey{ID: id, Secret: bytes.Repeat([]byte(id[:1]), 32)})
	}
	t, err := artifacts.NewTokens(list...)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func sign(tb testing.TB, t *artifacts.Tokens, c artifacts.Capability) string {
	tb.Helper()
	token, err := t.Sign(c)
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

func TestTokens(t *testing.T) {
	t.Parallel()
	now := tokenTime
	c := artifacts.Capability{Tenant: "acme", Job: "j1", Path: "artifacts/plot.png", Expires: now.Add(time.Hour)}
	both := tokens(t, "new", "old")
	token := sign(t, both, c)
	if url.QueryEscape(token) != token {
		t.Errorf("token %q needs escaping in a URL", token)
	}
	got, err := both.Verify(token, c.Job, c.Path, now)
	if err != nil || got.Tenant != "acme" || !got.Expires.Equal(c.Expires) {
		t.Errorf("verify: got %+v, %v, want %+v", got, err, c)
	}

	for name, test := range map[string]struct {
		tokens           *artifacts.Tokens
		token, job, path string
		now              time.Time
		want             error
	}{
		"last moment":             {both, token, c.Job, c.Path, c.Expires.Add(-1), nil},
		"expired":                 {both, token, c.Job, c.Path, c.Expires, artifacts.ErrTokenExpired},
		"another job":             {both, token, "j2", c.Path, now, artifacts.ErrTokenInvalid},
		"another path":            {both, token, c.Job, "artifacts/plot.pn", now, artifacts.ErrTokenInvalid},
		"shifted boundary":        {both, token, "j1a", "rtifacts/plot.png", now, artifacts.ErrTokenInvalid},
		"another tenant":          {both, strings.Replace(token, "acme", "acmf", 1), c.Job, c.Path, now, artifacts.ErrTokenInvalid},
		"later expiry":            {both, strings.Replace(token, "1795", "1895", 1), c.Job, c.Path, now, artifacts.ErrTokenInvalid},
		"zero before expiry":      {both, strings.Replace(token, ".1795", ".01795", 1), c.Job, c.Path, now, artifacts.ErrTokenInvalid},
		"expired and forged":      {both, token + "A", c.Job, c.Path, c.Expires, artifacts.ErrTokenInvalid},
		"empty":                   {both, "", c.Job, c.Path, now, artifacts.ErrTokenInvalid},
		"signed by the old key":   {both, sign(t, tokens(t, "old"), c), c.Job, c.Path, now, nil},
		"old key dropped":         {tokens(t, "new"), sign(t, tokens(t, "old"), c), c.Job, c.Path, now, artifacts.ErrTokenInvalid},
		"other secret, same name": {both, strings.Replace(sign(t, tokens(t, "zzz"), c), "zzz", "new", 1), c.Job, c.Path, now, artifacts.ErrTokenInvalid},
	} {
		if _, err := test.tokens.Verify(test.token, test.job, test.path, test.now); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

func TestNewTokensRefuses(t *testing.T) {
	t.Parallel()
	good := artifacts.TokenKey{ID: "a", Secret: make([]byte, 32)}
	for name, list := range map[string][]artifacts.TokenKey{
		"no key":       nil,
		"short secret": {{ID: "a", Secret: make([]byte, 31)}},
		"bad id":       {{ID: "a.b", Secret: make([]byte, 32)}},
		"twice":        {good, good},
	} {
		if _, err := artifacts.NewTokens(list...); err == nil {
			t.Errorf("%s: got nil, want an error", name)
		}
	}
	if _, err := tokens(t, "a").Sign(artifacts.Capability{Tenant: "a.b"}); err == nil {
		t.Error("tenant with a dot: got nil, want an error")
	}
}

// No change of a token or of what it is asked for passes.
func FuzzTokens(f *testing.F) {
	all := tokens(f, "new", "old")
	c := artifacts.Capability{Tenant: "acme", Job: "j1", Path: "stdout", Expires: tokenTime.Add(time.Hour)}
	token := sign(f, all, c)
	f.Add(token, "j1", "stdout")
	f.Add(token+"=", "j1", "stdout")
	f.Add(token, "j1s", "tdout")
	f.Fuzz(func(t *testing.T, got, job, path string) {
		_, err := all.Verify(got, job, path, tokenTime)
		if genuine := got == token && job == c.Job && path == c.Path; (err == nil) != genuine {
			t.Errorf("Verify(%q, %q, %q): got %v", got, job, path, err)
		}
	})
}
