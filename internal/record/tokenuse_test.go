package record_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

func TestTokenScopesAndExpiry(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	newTenant(t, s, "acme", job.Terms{})
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	token, made, err := s.AddToken(ctx, "acme", job.Token{Label: "ci", Scopes: []job.Scope{job.ScopeRead}, ExpiresAt: &at})
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := addToken(t, s, "acme", "")
	acme, err := s.ReadTenant(ctx, "acme")
	if err != nil {
		t.Fatal(err)
	}
	known, ok := acme.Token(token)
	if !ok || known.ID != made.ID || known.May(job.ScopeSubmit) || !known.May(job.ScopeRead) || known.ExpiresAt == nil || !known.ExpiresAt.Equal(at) {
		t.Errorf("got %+v, %v", known, ok)
	}
	if known.Expired(at.Add(-time.Millisecond)) || !known.Expired(at) {
		t.Error("it doesn't expire at its time")
	}
	if all, ok := acme.Token(whole); !ok || len(all.Scopes) != len(job.Scopes()) || all.Expired(time.Now().Add(100*365*24*time.Hour)) {
		t.Errorf("a token without scopes and expiry: got %+v, %v, want all scopes, for ever", all, ok)
	}
}

// The use of a token is written down at once, and then no more than once a minute.
func TestNoteUse(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	ctx := t.Context()
	newTenant(t, s, "acme", job.Terms{})
	_, known := addToken(t, s, "acme", "")
	written := func() int64 {
		t.Helper()
		n, _ := s.Redis().HGet(ctx, "gb:{acme}:tokenuse", known.ID).Int64()
		return n
	}
	before := time.Now().Add(-time.Second)
	s.NoteUse("acme", known.ID)
	for deadline := time.Now().Add(time.Minute); written() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not written")
		}
	}
	now, err := s.ReadTenant(ctx, "acme")
	if err != nil || now.Tokens[0].LastUsedAt == nil || now.Tokens[0].LastUsedAt.Before(before) {
		t.Errorf("got %+v, %v", now.Tokens, err)
	}
	if err := s.Redis().HSet(ctx, "gb:{acme}:tokenuse", known.ID, strconv.Itoa(7)).Err(); err != nil {
		t.Fatal(err)
	}
	other := process(t, server.URL())
	for range 1000 {
		s.NoteUse("acme", known.ID)
	}
	if err := s.Close(); err != nil { // which waits for what is being written
		t.Fatal(err)
	}
	if n, err := other.Redis().HGet(ctx, "gb:{acme}:tokenuse", known.ID).Int64(); err != nil || n != 7 {
		t.Errorf("got %d, %v: it was written twice within a minute", n, err)
	}
	if err := other.RevokeToken(ctx, "acme", known.ID); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Redis().Exists(ctx, "gb:{acme}:tokenuse").Result(); err != nil || n != 0 {
		t.Errorf("got %d, %v: the use of a revoked token is kept", n, err)
	}
	// What is kept beside tokens takes no token's place.
	if err := other.Redis().HSet(ctx, "gb:{acme}:tenant", "more", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for range job.MaxTokens {
		addToken(t, other, "acme", "")
	}
}
