package secrets_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/secrets"
)

func parse(t *testing.T, s string) *secrets.Keys {
	t.Helper()
	k, err := secrets.ParseKeys(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSeal(t *testing.T) {
	t.Parallel()
	one, two := secrets.NewKey(), secrets.NewKey()
	old := parse(t, one)
	public, err := secrets.ParsePublic(old.Public().Bytes())
	if err != nil || public.ID != old.Public().ID {
		t.Fatalf("got %q, %v, want %q", public.ID, err, old.Public().ID)
	}
	value := []byte("a value\nof two lines")
	sealed, err := public.Seal("acme", "TOKEN", value)
	if err != nil || bytes.Contains(sealed.Data, value[:8]) {
		t.Fatalf("got %q, %v", sealed.Data, err)
	}
	again, err := public.Seal("acme", "TOKEN", value)
	if err != nil || bytes.Equal(again.Data, sealed.Data) {
		t.Errorf("sealed twice, it looks the same: who has the same secret would show (%v)", err)
	}
	for name, k := range map[string]*secrets.Keys{"its key": old, "the second of two": parse(t, two+" "+one)} {
		if got, err := k.Open("acme", "TOKEN", sealed); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := parse(t, two).Open("acme", "TOKEN", sealed); !errors.Is(err, secrets.ErrNoKey) {
		t.Errorf("another key: got %v, want ErrNoKey", err)
	}
	for _, place := range [][2]string{{"other", "TOKEN"}, {"acme", "TOKEM"}, {"", "TOKEN"}} {
		if _, err := old.Open(place[0], place[1], sealed); err == nil || errors.Is(err, secrets.ErrNoKey) {
			t.Errorf("moved to %q: got %v, want it refused", place, err)
		}
	}
	for i := range sealed.Data {
		changed := secrets.Sealed{Key: sealed.Key, Data: bytes.Clone(sealed.Data)}
		changed.Data[i] ^= 1
		if _, err := old.Open("acme", "TOKEN", changed); err == nil {
			t.Errorf("byte %d changed: opened", i)
		}
		if _, err := old.Open("acme", "TOKEN", secrets.Sealed{Key: sealed.Key, Data: sealed.Data[:i]}); err == nil {
			t.Errorf("cut to %d bytes: opened", i)
		}
	}
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	key := secrets.NewKey()
	for _, bad := range []string{"", " ", "short", key[:40], key + " " + key[:10], "*"} {
		if _, err := secrets.ParseKeys(bad); err == nil || bad != "" && bad != " " && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: got %v, want an error without it", bad, err)
		}
	}
	if _, err := secrets.ParsePublic([]byte("x")); err == nil {
		t.Error("one byte is a key")
	}
}
