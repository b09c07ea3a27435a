package poolsize

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestArrivals: what is known of programs that come at random is their rate, and that they come at random; of others
// that they come in bursts.
func TestArrivals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		rate       float64 // bursts a second
		burst      int
		dispersion [2]float64 // least and most
	}{
		{"one in ten seconds", 0.1, 1, [2]float64{1, 1}},
		{"a few a second", 4, 1, [2]float64{1, 2}},
		{"many", 50, 1, [2]float64{1, 2}},
		{"in bursts of ten", 0.5, 10, [2]float64{5, 20}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 2))
			var a Arrivals
			now := began
			sum, n := 0.0, 0
			for now.Sub(began) < time.Hour {
				now = now.Add(time.Duration(random.ExpFloat64() / tt.rate * float64(time.Second)))
				for range tt.burst {
					a.Note(now)
				}
				if now.Sub(began) > 10*time.Minute {
					sum, n = sum+a.Rate(now), n+1
				}
			}
			// The larger of two estimates, asked as a program has come, is above the mean.
			want := tt.rate * float64(tt.burst)
			if got := sum / float64(n); got < want || got > 1.6*want+0.1 {
				t.Errorf("the rate is %.2f, want %.2f or a little more", got, want)
			}
			if got := a.Dispersion(now); got < tt.dispersion[0] || got > tt.dispersion[1] {
				t.Errorf("the dispersion is %.2f, want %v", got, tt.dispersion)
			}
		})
	}
}

// TestArrivalsForget: a rate rises within seconds, is half after some minutes of silence, and nothing after a quarter
// of an hour. Asking changes nothing.
func TestArrivalsForget(t *testing.T) {
	t.Parallel()
	var a Arrivals
	if a.Rate(began) != 0 || a.Dispersion(began) != 1 {
		t.Errorf("before any: got %v and %v, want 0 and 1", a.Rate(began), a.Dispersion(began))
	}
	now := began
	for range 15 {
		now = now.Add(time.Second / 3)
		a.Note(now)
	}
	if got := a.Rate(now); got < 1 || got > 4 {
		t.Errorf("after five seconds of 3 a second: got %.2f", got)
	}
	for range 3 * 600 {
		now = now.Add(time.Second / 3)
		a.Note(now)
	}
	before := a
	steady := a.Rate(now)
	if math.Abs(steady-3) > 0.2 {
		t.Errorf("after ten minutes of 3 a second: got %.2f", steady)
	}
	if got := a.Rate(now.Add(slowHalf)); math.Abs(got-steady/2) > 0.2 {
		t.Errorf("after %s of silence: got %.2f, want half of %.2f", slowHalf, got, steady)
	}
	if got := a.Rate(now.Add(silence + 1)); got != 0 {
		t.Errorf("after %s of silence: got %.2f", silence, got)
	}
	a.Dispersion(now.Add(time.Hour))
	if a != before {
		t.Error("it is another for being asked")
	}
	now = now.Add(24 * time.Hour)
	a.Note(now)
	if got := a.Rate(now); got <= 0 || got > 0.3 {
		t.Errorf("one, the day after: got %.2f", got)
	}
}

func TestRefills(t *testing.T) {
	t.Parallel()
	var r Refills
	if r.Mean() != firstRefill || r.Variation() != 0 {
		t.Errorf("before any: got %v, %v", r.Mean(), r.Variation())
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		r.Note(time.Duration(random.ExpFloat64() * 200 * float64(time.Millisecond)))
	}
	if r.Mean() < 100*time.Millisecond || r.Mean() > 300*time.Millisecond || r.Variation() < 0.3 || r.Variation() > 3 {
		t.Errorf("random ones of 200 ms: got %v, %v, want about that and 1", r.Mean(), r.Variation())
	}
	for range 200 {
		r.Note(100 * time.Millisecond)
	}
	if mean := r.Mean().Round(time.Millisecond); mean != 100*time.Millisecond || r.Variation() > 0.1 {
		t.Errorf("all of 100 ms: got %v, %v", mean, r.Variation())
	}
	r.Note(time.Hour)
	if r.Variation() > mostVariation {
		t.Errorf("one that hung: the variation is %v", r.Variation())
	}
}
