package hookkeys_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/record"
)

const (
	wantSecret = "whsec_uR3DRSNZyCDApsatnE6OK7J3iqsbCN8NiMLsaP5lKBQ="
	wantSeed   = "whsk_N7J1vjzQpl9rXueXPuGYp6hGfhbKvxWS57qcFAcG"
)

const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// What is derived must never change: receivers hold it. Its golden values were calculated
// with another implementation of HKDF (Python's hmac).
func TestDerivedSecretsStay(t *testing.T) {
	t.Parallel()
	keys, err := hookkeys.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := keys.Pairs("acme", record.Signing{Generation: 1}, time.Now())
	if err != nil || len(pairs) != 1 {
		t.Fatalf("got %d pairs, %v, want 1", len(pairs), err)
	}
	if got := pairs[0].Secret.Reveal(); got != wantSecret {
		t.Errorf("secret: got %s, want %s", got, wantSecret)
	}
	if got := pairs[0].Key.Reveal(); !strings.HasPrefix(got, wantSeed) {
		t.Errorf("key: got %s, want it to begin with %s", got, wantSeed)
	}
}

func TestEveryOneIsAnother(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, key := range []string{key, hookkeys.New()} {
		for _, tenant := range []string{"acme", "acme1", "other"} {
			for _, generation := range []int64{1, 2, 11} {
				keys, err := hookkeys.Parse(key)
				if err != nil {
					t.Fatal(err)
				}
				pairs, err := keys.Pairs(tenant, record.Signing{Generation: generation}, time.Now())
				if err != nil {
					t.Fatal(err)
				}
				where := fmt.Sprintf("%.4s %s %d", key, tenant, generation)
				for _, text := range []string{pairs[0].Secret.Reveal()[6:], pairs[0].Key.Reveal()[5:47], pairs[0].Key.Public().String()} {
					if seen[text] != "" {
						t.Errorf("%s has what %s has", where, seen[text])
					}
					seen[text] = where
				}
			}
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	short := base64.StdEncoding.EncodeToString(make([]byte, 31))
	for _, bad := range []string{"", " ", "x", short, key + " " + short, key + " " + key + " " + key, "whsec_" + key} {
		if _, err := hookkeys.Parse(bad); !errors.Is(err, hookkeys.ErrKeys) || strings.Contains(err.Error(), key) {
			t.Errorf("%q: got %v, want ErrKeys", bad, err)
		}
	}
	keys, err := hookkeys.Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v %+v %#v %d %x %s", keys, *keys, keys, keys, *keys, keys); strings.Contains(got, "AAEC") || strings.Contains(got, "0 1 2") || strings.Contains(got, "000102") {
		t.Errorf("printed, the key shows: %s", got)
	}
}
