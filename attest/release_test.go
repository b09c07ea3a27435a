package attest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// releaseSeed is RFC 8032's first test key; what it signs proves nothing.
const releaseSeed = "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="

func digestOf(digit string) string { return strings.Repeat(digit, 64) }

func testRelease() Release {
	return Release{
		Subject: []Subject{{"a.deb", Digest{digestOf("a")}}, {"b.tar.gz", Digest{digestOf("b")}}},
		Predicate: Provenance{BuildDefinition: BuildDefinition{
			ExternalParameters: ReleaseParameters{Repository: "https://github.com/glovebox-run/glovebox", Version: "v0.1.0"},
			Dependencies:       []ResourceMaterial{{URI: "git+https://github.com/glovebox-run/glovebox", Digest: map[string]string{"gitCommit": "545772d"}}},
		}},
	}
}

func releaseSigner(t *testing.T, seed string) *Signer {
	t.Helper()
	s, err := NewSigner(seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRelease(t *testing.T) {
	t.Parallel()
	s := releaseSigner(t, releaseSeed)
	signed, err := s.SignRelease(testRelease())
	if err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(signed)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.SignRelease(testRelease())
	if err != nil || again.Signatures[0] != signed.Signatures[0] {
		t.Errorf("signed once more it is %v, %v, want the same", again, err)
	}
	a, err := ParseProvenance(file)
	if err != nil {
		t.Fatal(err)
	}
	r, key, err := VerifyRelease(a, []Key{s.Key()})
	if err != nil || key.ID != s.Key().ID || r.Predicate.BuildDefinition.ExternalParameters.Version != "v0.1.0" {
		t.Fatalf("got %+v, %v, %v", r, key, err)
	}
	for _, c := range []struct{ name, sha, why string }{
		{"a.deb", digestOf("a"), ""},
		{"b.tar.gz", digestOf("b"), ""},
		{"a.deb", digestOf("c"), "a.deb has SHA-256 cccc"},
		{"a.deb", digestOf("b"), "a.deb has SHA-256 bbbb"},
		{"c.deb", digestOf("b"), "c.deb is the release's b.tar.gz, under another name"},
		{"c.deb", digestOf("c"), "the release has no c.deb"},
		{"a.deb", "", "a.deb has SHA-256 "},
	} {
		err := r.Check(c.name, c.sha)
		if c.why == "" && err != nil || c.why != "" && (!errors.Is(err, ErrNotReleased) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s %s: got %v, want %q", c.name, c.sha, err, c.why)
		}
	}
}

// TestReleaseTampered: no byte of the statement can be changed, and no other key counts.
func TestReleaseTampered(t *testing.T) {
	t.Parallel()
	s := releaseSigner(t, releaseSeed)
	signed, err := s.SignRelease(testRelease())
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(signed.Payload)
	if err != nil {
		t.Fatal(err)
	}
	keys := []Key{s.Key()}
	for i := range payload {
		changed := bytes.Clone(payload)
		changed[i] ^= 1
		a := *signed
		a.Payload = base64.StdEncoding.EncodeToString(changed)
		if _, _, err := VerifyRelease(a, keys); !errors.Is(err, ErrSignature) {
			t.Fatalf("byte %d changed: got %v, want %v", i, err, ErrSignature)
		}
	}
	other := releaseSigner(t, NewSeed())
	if _, _, err := VerifyRelease(*signed, []Key{other.Key()}); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("another's key: got %v", err)
	}
	if _, _, err := VerifyRelease(*signed, nil); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("no key: got %v", err)
	}
}

// TestReleaseOfAnotherKind: what the same key signed of something else is no release.
func TestReleaseOfAnotherKind(t *testing.T) {
	t.Parallel()
	s := releaseSigner(t, releaseSeed)
	for name, change := range map[string]func(*Release){
		"a result":         func(r *Release) { r.PredicateType = PredicateType },
		"another build":    func(r *Release) { r.Predicate.BuildDefinition.BuildType = "https://example.com" },
		"no file":          func(r *Release) { r.Subject = nil },
		"no version":       func(r *Release) { r.Predicate.BuildDefinition.ExternalParameters.Version = "" },
		"a directory":      func(r *Release) { r.Subject[0].Name = "../a.deb" },
		"no name":          func(r *Release) { r.Subject[0].Name = "" },
		"no hash":          func(r *Release) { r.Subject[0].Digest.SHA256 = "" },
		"hash in capitals": func(r *Release) { r.Subject[0].Digest.SHA256 = digestOf("A") },
		"a file twice":     func(r *Release) { r.Subject[1].Name = "a.deb" },
	} {
		r := testRelease()
		r.Type, r.PredicateType, r.Predicate.BuildDefinition.BuildType = StatementType, ProvenanceType, ReleaseBuildType
		change(&r)
		payload, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := VerifyRelease(seal(s, PayloadType, payload), []Key{s.Key()}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want %v", name, err, ErrMalformed)
		}
	}
	if _, err := s.SignRelease(Release{}); err == nil {
		t.Error("an empty release is signed")
	}
}

func FuzzParseProvenance(f *testing.F) {
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30=","signatures":[{"keyid":"","sig":"AAAA"}]}`))
	f.Add([]byte(`{}`))
	s, err := NewSigner(releaseSeed)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ParseProvenance(b)
		if err != nil {
			return
		}
		if _, _, err := VerifyRelease(a, []Key{s.Key()}); err == nil {
			t.Errorf("%q verifies", b)
		}
	})
}
