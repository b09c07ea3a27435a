package attest

import "testing"

func BenchmarkAttest(b *testing.B) {
	s := newSigner(b)
	r, run := sample()
	for b.Loop() {
		if _, err := s.Attest(r, run); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s := newSigner(b)
	r := attested(b, s)
	for b.Loop() {
		if _, err := Verify(r, []Key{s.Key()}); err != nil {
			b.Fatal(err)
		}
	}
}
