package webhook_test

import (
	"slices"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/webhook"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	want := []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
		5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
	delays := func(s webhook.Schedule) (all []time.Duration) {
		for n := 0; ; n++ {
			d, ok := s.Next(n)
			if !ok {
				return all
			}
			all = append(all, d)
		}
	}
	if got := delays(webhook.Schedule{}); !slices.Equal(got, want) {
		t.Errorf("the zero Schedule: got %v, want %v", got, want)
	}
	for i, d := range delays(webhook.DefaultSchedule()) {
		if d < want[i] || d > want[i]*6/5 {
			t.Errorf("delay %d: got %s, want %s to a fifth more", i, d, want[i])
		}
	}
	half := webhook.Schedule{Delays: []time.Duration{0, time.Minute}, Jitter: 0.5, Random: func() float64 { return 0.5 }}
	if got, want := delays(half), []time.Duration{0, 75 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("jitter: got %v, want %v", got, want)
	}
	if _, ok := half.Next(-1); ok {
		t.Error("Next(-1): got true, want false")
	}
	for _, test := range []struct {
		attempts         int
		retryAfter, want time.Duration
		ok               bool
	}{
		{1, 0, 75 * time.Second, true},
		{1, time.Minute, 75 * time.Second, true},
		{1, time.Hour, time.Hour, true},
		{1, 100 * time.Hour, 24 * time.Hour, true},
		{2, time.Hour, 0, false},
	} {
		if got, ok := half.NextAfter(test.attempts, test.retryAfter); got != test.want || ok != test.ok {
			t.Errorf("NextAfter(%d, %s): got %s, %v, want %s, %v", test.attempts, test.retryAfter, got, ok, test.want, test.ok)
		}
	}
}

func TestParseSchedule(t *testing.T) {
	t.Parallel()
	s, err := webhook.ParseSchedule("0s, 5s,5m", 0.1)
	if err != nil || !slices.Equal(s.Delays, []time.Duration{0, 5 * time.Second, 5 * time.Minute}) {
		t.Errorf("got %v, %v", s.Delays, err)
	}
	for _, bad := range []string{"", "5", "0s,,5s", "-1s", "0s;5s"} {
		if s, err := webhook.ParseSchedule(bad, 0); err == nil {
			t.Errorf("%q: got %v, want an error", bad, s.Delays)
		}
	}
	if _, err := webhook.ParseSchedule("0s", 1.1); err == nil {
		t.Error("jitter 1.1: got nil, want an error")
	}
}
