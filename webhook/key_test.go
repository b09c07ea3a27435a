package webhook_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/webhook"
)

func TestVerifyWithPublicKey(t *testing.T) {
	t.Parallel()
	good, other := publicKey(t, vectorPublicKey), privateKey(t, vectorSeed).Public()
	const at = webhook.DefaultTolerance
	for name, test := range map[string]struct {
		signature string
		body      string
		key       webhook.Verifier
		want      error
	}{
		"vector":               {vectorAsymmetric, vectorBody, good, nil},
		"beside v1":            {vectorSignature + " " + vectorAsymmetric, vectorBody, good, nil},
		"among others":         {"v1a,x v2," + vectorAsymmetric[4:] + " " + vectorSeedsAsymmetric + " " + vectorAsymmetric, vectorBody, good, nil},
		"other key":            {vectorAsymmetric, vectorBody, other, webhook.ErrSignature},
		"changed byte":         {vectorAsymmetric, "x" + vectorBody[1:], good, webhook.ErrSignature},
		"v1 alone":             {vectorSignature, vectorBody, good, webhook.ErrSignature},
		"as v1":                {"v1," + vectorAsymmetric[4:], vectorBody, good, webhook.ErrSignature},
		"without its padding":  {strings.TrimRight(vectorAsymmetric, "="), vectorBody, good, webhook.ErrSignature},
		"without its last":     {vectorAsymmetric[:len(vectorAsymmetric)-4], vectorBody, good, webhook.ErrSignature},
		"zero key":             {vectorAsymmetric, vectorBody, webhook.PublicKey{}, webhook.ErrSignature},
		"a secret, of v1a":     {vectorAsymmetric, vectorBody, secret(t, vectorSecret), webhook.ErrSignature},
		"a secret, of v1 in a": {"v1a," + vectorSignature[3:], vectorBody, secret(t, vectorSecret), webhook.ErrSignature},
	} {
		h := sign(t, secret(t, vectorSecret))
		h.Set(webhook.HeaderSignature, test.signature)
		if err := webhook.Verify(h, []byte(test.body), []webhook.Verifier{test.key}, at, vectorTime); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
	h := sign(t, privateKey(t, vectorPrivateKey))
	if err := webhook.Verify(h, []byte(vectorBody), []webhook.Verifier{good}, at, vectorTime.Add(at+time.Second)); !errors.Is(err, webhook.ErrTooOld) {
		t.Errorf("too old: got %v, want ErrTooOld", err)
	}
	if _, err := webhook.Sign([]webhook.Signer{webhook.PrivateKey{}}, "a", vectorTime, nil); !errors.Is(err, webhook.ErrPrivateKey) {
		t.Errorf("zero key: got %v, want ErrPrivateKey", err)
	}
	if got := (webhook.PrivateKey{}).Public(); got.String() != "whpk_" {
		t.Errorf("public key of the zero key: got %s", got)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	encode := func(prefix string, n int) string {
		return prefix + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n))
	}
	seed := privateKey(t, vectorSeed)
	if whole := privateKey(t, seed.Reveal()); len(seed.Reveal()) != len(vectorPrivateKey) || whole.Reveal() != seed.Reveal() || whole.Public().String() != seed.Public().String() {
		t.Error("a key that is revealed and parsed is another one")
	}
	for _, bad := range []string{
		"", "whsk_", encode("whsk_", 31), encode("whsk_", 33), encode("whsk_", 64), encode("whpk_", 32), vectorPrivateKey[5:], vectorPrivateKey + "\n", "whsec_" + vectorSeed[5:],
	} {
		_, err := webhook.ParsePrivateKey(bad)
		if !errors.Is(err, webhook.ErrPrivateKey) || len(bad) > 10 && strings.Contains(err.Error(), bad[5:]) {
			t.Errorf("private key %q: got %v, want ErrPrivateKey without it", bad, err)
		}
	}
	for _, bad := range []string{"", "whpk_", encode("whpk_", 31), encode("whpk_", 64), vectorSecret, vectorPublicKey[5:], " " + vectorPublicKey} {
		if _, err := webhook.ParsePublicKey(bad); !errors.Is(err, webhook.ErrPublicKey) {
			t.Errorf("public key %q: got %v, want ErrPublicKey", bad, err)
		}
	}
	if list, err := webhook.ParseVerifiers(vectorSecret + "  " + vectorPublicKey + "\n"); err != nil || len(list) != 2 {
		t.Errorf("got %v, %v, want both", list, err)
	}
	for _, bad := range []string{"", " ", vectorSecret + " x", vectorPublicKey + "," + vectorSecret, vectorPrivateKey} {
		if list, err := webhook.ParseVerifiers(bad); err == nil {
			t.Errorf("%q: got %v, want an error", bad, list)
		}
	}

	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", seed, "list", []webhook.PrivateKey{seed})
	fmt.Fprintf(&log, "%v %+v %#v %s %q %x %d", seed, seed, seed, seed, seed, seed, []webhook.PrivateKey{seed})
	for _, leak := range []string{"TESTSIGNING", vectorSeed[5:30], "84 69 83 84", "54455354"} {
		if strings.Contains(log.String(), leak) {
			t.Errorf("the log holds the key: %s", log.String())
		}
	}
}

func FuzzParseVerifiers(f *testing.F) {
	f.Add(vectorSecret + " " + vectorPublicKey)
	f.Add("whpk_====")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := webhook.ParseVerifiers(text)
		if err != nil {
			return
		}
		for i, word := range strings.Fields(text) {
			switch v := list[i].(type) {
			case webhook.Secret:
				if v.Reveal() != word {
					t.Errorf("%q parsed is another secret", word)
				}
			case webhook.PublicKey:
				if v.String() != word {
					t.Errorf("%q parsed is %s", word, v)
				}
			}
		}
	})
}
