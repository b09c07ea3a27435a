package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/attest"
)

// TestKeys follows two keys through a rotation, up to when no result is left that the
// retired one signed.
func TestKeys(t *testing.T) {
	t.Parallel()
	const retention = 24 * time.Hour
	f := open(t, retention)
	began := time.Now().UTC().Truncate(time.Second)
	at := func(d time.Duration) { f.now = func() time.Time { return began.Add(d) } }
	publish := func(k attest.Key) {
		t.Helper()
		if err := f.PublishKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	lists := func(want ...attest.Key) {
		t.Helper()
		got, err := f.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(append([]attest.Key{}, want...), got); d != "" {
			t.Errorf("keys (-want +got):\n%s", d)
		}
	}
	older, newer := publicKey(t), publicKey(t)
	between := func(k attest.Key, first, last time.Duration) attest.Key {
		k.NotBefore, k.SeenAt = began.Add(first), began.Add(last)
		return k
	}

	at(0)
	lists()
	publish(older)
	at(time.Minute)
	publish(older) // and another worker's beat of the same key
	lists(between(older, 0, time.Minute))

	at(time.Hour)
	publish(newer)
	lists(between(newer, time.Hour, time.Hour), between(older, 0, time.Minute))

	f.retention = time.Minute // what was signed before is kept for as long as it was
	at(time.Minute + retention + keyMargin)
	lists(between(newer, time.Hour, time.Hour), between(older, 0, time.Minute))
	at(time.Minute + retention + keyMargin + time.Second)
	lists(between(newer, time.Hour, time.Hour))
	publish(newer)
	if n, err := f.rdb.HLen(t.Context(), keysKey).Result(); err != nil || n != 1 {
		t.Errorf("%d keys are kept, %v, want the one in use", n, err)
	}
}

func publicKey(t *testing.T) attest.Key {
	t.Helper()
	s, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	return s.Key()
}
