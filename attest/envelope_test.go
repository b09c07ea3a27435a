package attest

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestPAE has the example of DSSE's protocol.md, and its rules at their edges.
func TestPAE(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ payloadType, payload, want string }{
		{"http://example.com/HelloWorld", "hello world", "DSSEv1 29 http://example.com/HelloWorld 11 hello world"},
		{"", "", "DSSEv1 0  0 "},
		{"é", "\x00 \n", "DSSEv1 2 é 3 \x00 \n"}, // bytes are counted, not characters
	} {
		if got := string(pae(c.payloadType, []byte(c.payload))); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// rfc8032 is the key of TEST 1 of RFC 8032, section 7.1.
func rfc8032(tb testing.TB) *Signer {
	tb.Helper()
	seed, err := hex.DecodeString("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
	if err != nil {
		tb.Fatal(err)
	}
	s, err := NewSigner(base64.StdEncoding.EncodeToString(seed))
	if err != nil {
		tb.Fatal(err)
	}
	if got := hex.EncodeToString(s.key.PublicKey); got != "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a" {
		tb.Fatalf("the public key is %s, not RFC 8032's", got)
	}
	return s
}

// TestVectors has those of DSSE's testvectors/vectors.json that are about one signer,
// signed with RFC 8032's key.
func TestVectors(t *testing.T) {
	t.Parallel()
	s := rfc8032(t)
	const statement = "eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEifQ=="
	const signed = "2WAfaHm5jluo0w+0rk8uVkluELJYWjSmU9x7EUzx+AyteDGJ4/nqyJXfmAUVFIAoQafWm7AxBZNw5M9ixNHiCA=="
	for _, c := range []struct {
		name, payloadType, payload, sig string
		accept                          bool
	}{
		{"single signature", PayloadType, statement, signed, true},
		{"URL-safe base64", PayloadType, "-_-_Pj8=", "P-_KHICeR7tI6S_YyejJTRtrXhcQyQ2LYPaL8h90KjC9qN8HU_svOQ6TuDOT1HIrsGW886DbWNWcCmX5twLrAw==", true},
		{"payload type swapped", "application/vnd.example.other+json", statement, signed, false},
		{"empty payload", PayloadType, "", "gSggCAaTLTYyRH6FIDBem6meyIynsYy8RTHVzwx9tnTb7Bg/1jMWnuVgI/gffqmbsC2VX5/jHfkkDqsj7CDbDg==", true},
		{"empty payload type", "", statement, "iC3q/+3Rm0+lpAJRueDmDh15PnwCfxKmS0NAfKsbv+zgulXQC/WM9trc+j1XEqlwDIg/vf/uNfebeD6sxInrDg==", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := job.Attestation{PayloadType: c.payloadType, Payload: c.payload, Signatures: []job.Signature{{Sig: c.sig}}}
			payload, key, err := open(a, []Key{s.Key()})
			if (err == nil) != c.accept {
				t.Fatalf("got %v, want accepted %v", err, c.accept)
			}
			if c.accept && key.ID != s.Key().ID {
				t.Errorf("got key %q, want %q", key.ID, s.Key().ID)
			}
			want, decodeErr := decode(c.payload)
			if decodeErr != nil {
				t.Fatal(decodeErr)
			}
			if c.accept && string(payload) != string(want) {
				t.Errorf("got payload %q, want %q", payload, want)
			}
			if again := seal(s, c.payloadType, want); c.accept && c.name != "URL-safe base64" && again.Signatures[0].Sig != c.sig {
				t.Errorf("our own signature is %s, want %s", again.Signatures[0].Sig, c.sig)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	s, other := rfc8032(t), newSigner(t)
	good := seal(s, PayloadType, []byte("{}"))
	with := func(change func(*job.Attestation)) job.Attestation {
		a := good
		a.Signatures = append([]job.Signature{}, good.Signatures...)
		change(&a)
		return a
	}
	both := []Key{other.Key(), s.Key()}
	for _, c := range []struct {
		name string
		a    job.Attestation
		keys []Key
		want error
	}{
		{"the good one", good, both, nil},
		{"without a hint", with(func(a *job.Attestation) { a.Signatures[0].KeyID = "" }), both, nil},
		{"a second signer's signature", with(func(a *job.Attestation) {
			a.Signatures = append(seal(other, PayloadType, []byte("{}")).Signatures, a.Signatures...)
		}), []Key{s.Key()}, nil},
		{"no keys", good, nil, ErrUnknownKey},
		{"another key", good, []Key{other.Key()}, ErrUnknownKey},
		{"another key, no hint", with(func(a *job.Attestation) { a.Signatures[0].KeyID = "" }), []Key{other.Key()}, ErrUnknownKey},
		{"a hint that lies", with(func(a *job.Attestation) { a.Signatures[0].KeyID = other.Key().ID }), both, ErrSignature},
		{"a key that lies", good, []Key{{ID: s.Key().ID, PublicKey: other.Key().PublicKey}}, ErrSignature},
		{"half a key", good, []Key{{ID: s.Key().ID, PublicKey: s.Key().PublicKey[:31]}}, ErrSignature},
		{"another payload", with(func(a *job.Attestation) { a.Payload = "e30g" }), both, ErrSignature},
		{"another type", with(func(a *job.Attestation) { a.PayloadType = "application/json" }), both, ErrMalformed},
		{"no base64", with(func(a *job.Attestation) { a.Payload = "*" }), both, ErrMalformed},
		{"no signature", with(func(a *job.Attestation) { a.Signatures = nil }), both, ErrMalformed},
		{"nine signatures", with(func(a *job.Attestation) { a.Signatures = make([]job.Signature, 9) }), both, ErrMalformed},
		{"a signature that is none", with(func(a *job.Attestation) { a.Signatures[0].Sig = "?" }), both, ErrMalformed},
		{"a short signature", with(func(a *job.Attestation) { a.Signatures[0].Sig = "AAAA" }), both, ErrSignature},
		{"a large payload", with(func(a *job.Attestation) {
			a.Payload = base64.StdEncoding.EncodeToString(make([]byte, maxPayload+3))
		}), both, ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := open(c.a, c.keys); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	t.Run("every bit of the signature", func(t *testing.T) {
		t.Parallel()
		sig, err := decode(good.Signatures[0].Sig)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 * ed25519.SignatureSize {
			changed := append([]byte{}, sig...)
			changed[i/8] ^= 1 << (i % 8)
			a := with(func(a *job.Attestation) { a.Signatures[0].Sig = base64.StdEncoding.EncodeToString(changed) })
			if _, _, err := open(a, both); !errors.Is(err, ErrSignature) {
				t.Errorf("bit %d: got %v, want %v", i, err, ErrSignature)
			}
		}
	})
}

func newSigner(tb testing.TB) *Signer {
	tb.Helper()
	s, err := NewSigner(NewSeed())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
