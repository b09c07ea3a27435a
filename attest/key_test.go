package attest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseKeys(t *testing.T) {
	t.Parallel()
	a, b := newSigner(t).Key(), newSigner(t).Key()
	list, err := json.Marshal(KeyList{Keys: []Key{a, {ID: "x", Algorithm: "ml-dsa-65", PublicKey: []byte("?")}, b}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseKeys(list)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Key{a, b}, got); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
	for name, text := range map[string]string{
		"nothing":        ``,
		"no list":        `{}`,
		"no JSON":        `{"keys":`,
		"a foreign form": `[{"kty":"OKP"}]`,
		"a wrong id":     fmt.Sprintf(`{"keys":[{"id":%q,"algorithm":"ed25519","public_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`, a.ID),
		"a short key":    `{"keys":[{"id":"x","algorithm":"ed25519","public_key":"AAAA"}]}`,
		"no base64":      `{"keys":[{"id":"x","algorithm":"ed25519","public_key":"*"}]}`,
		"too many":       `{"keys":[` + strings.Repeat("{},", maxKeys) + `{}]}`,
	} {
		if keys, err := ParseKeys([]byte(text)); err == nil || len(keys) > 0 {
			t.Errorf("%s: got %v, %v, want an error", name, keys, err)
		}
	}
}

func TestNewSigner(t *testing.T) {
	t.Parallel()
	for _, seed := range []string{"", "AAAA", "not base64 at all", NewSeed() + "A", NewSeed()[1:]} {
		if _, err := NewSigner(seed); err == nil {
			t.Errorf("%q was taken for a key", seed)
		} else if seed != "" && strings.Contains(err.Error(), seed) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
	seed := NewSeed()
	s, err := NewSigner(seed)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%s", "%#v"} {
		if got := fmt.Sprintf(format, s); got != "signing key "+s.Key().ID {
			t.Errorf("%s prints %q", format, got)
		}
	}
	if NewSeed() == seed {
		t.Error("two seeds are the same")
	}
}
