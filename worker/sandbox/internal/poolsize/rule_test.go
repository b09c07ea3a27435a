package poolsize

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestPlan: what there is too little memory for, and who comes first.
func TestPlan(t *testing.T) {
	t.Parallel()
	const ms220 = 220 * time.Millisecond
	rate := func(load float64) float64 { return load / ms220.Seconds() }
	tests := []struct {
		name  string
		mb    int64
		kinds []Kind
		want  []int
	}{
		{"nothing", 1000, nil, nil},
		{"nobody comes", 1000, []Kind{{MB: 40, One: true}, {MB: 40}}, []int{1, 0}},
		{"promised", 1000, []Kind{{MB: 40, One: true, Promised: 3}, {MB: 40, One: true}}, []int{3, 1}},
		{"promised to two, in turn", 200, []Kind{{MB: 40, Promised: 4}, {MB: 40, Promised: 4}}, []int{3, 2}},
		{"a program now and then", 1000, []Kind{{MB: 40, Rate: 0.02}}, []int{1}},
		{"half of what the refiller can", 1000, []Kind{{MB: 40, Rate: rate(0.5)}}, []int{4}},
		{"80 %", 1000, []Kind{{MB: 40, Rate: rate(0.8)}}, []int{7}},
		{"80 %, in bursts", 10_000, []Kind{{MB: 40, Rate: rate(0.8), Dispersion: 10}}, []int{46}},
		{"more than it can", 10_000, []Kind{{MB: 40, Rate: rate(3)}}, []int{13}},
		{"80 % of three, too little memory", 320, []Kind{{MB: 40, Rate: rate(0.6)}, {MB: 40, Rate: rate(0.15)}, {MB: 40, Rate: rate(0.05)}}, []int{5, 2, 1}},
		{"one of them is large", 320, []Kind{{MB: 200, Rate: rate(0.4)}, {MB: 40, Rate: rate(0.4)}}, []int{1, 3}},
		{"asked for, though others come", 160, []Kind{{MB: 40, Rate: rate(0.8)}, {MB: 40, Asked: 4}}, []int{0, 4}},
		{"asked for, after one of each", 160, []Kind{{MB: 40, One: true}, {MB: 40, Asked: 9}}, []int{1, 3}},
		{"who asked first", 200, []Kind{{MB: 40, Asked: 4, Since: began.Add(1)}, {MB: 40, Asked: 3, Since: began}}, []int{2, 3}},
		{"it had more, but programs come less often by far", 1000, []Kind{{MB: 40, Rate: rate(0.6), Had: 20}}, []int{5}},
		{"it had more, and programs come a little less often", 1000, []Kind{{MB: 40, Rate: rate(0.6), Had: 5}}, []int{5}},
		{"it had less", 1000, []Kind{{MB: 40, Rate: rate(0.5), Had: 2}}, []int{4}},
		{"no room for one", 39, []Kind{{MB: 40, Rate: 1, One: true, Asked: 3, Promised: 4}}, []int{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := Rule{MB: tt.mb, Refill: ms220}.Plan(tt.kinds)
			if !slices.Equal(p.Sizes, tt.want) {
				t.Errorf("got %v, want %v", p.Sizes, tt.want)
			}
		})
	}
}

// anyKinds draws some.
func anyKinds(r *rand.Rand) []Kind {
	kinds := make([]Kind, 1+r.IntN(6))
	for i := range kinds {
		kinds[i] = Kind{
			MB: []int64{40, 140, 200}[r.IntN(3)], Rate: r.ExpFloat64() * []float64{0, 0.1, 1, 10}[r.IntN(4)], Dispersion: []float64{0, 1, 1.7, 60}[r.IntN(4)],
			One: r.IntN(2) == 0, Asked: []int{0, 0, 3, 1 << 40}[r.IntN(4)], Since: began.Add(time.Duration(r.IntN(3))), Promised: r.IntN(5), Had: r.IntN(10),
		}
	}
	return kinds
}

// TestPlanHolds: whatever is known, no plan needs more memory than there is; made again and again it settles; what
// is promised is held where there is memory for all; more memory takes nothing from what others asked for.
func TestPlanHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4_000) {
		r := rand.New(rand.NewPCG(seed, 58))
		kinds := anyKinds(r)
		rule := Rule{MB: r.Int64N(3000), Refill: time.Duration(r.Int64N(int64(2 * time.Second))), Variation: r.Float64() * mostVariation}
		p := rule.Plan(kinds)
		takes, atLeast := int64(0), int64(0)
		for i, k := range kinds {
			takes += k.MB * int64(p.Sizes[i])
			atLeast += k.MB * int64(max(min(k.Asked, 1000), k.Promised, 1, k.Had)+int(mostOfKind))
		}
		if takes > rule.MB || slices.Min(p.Sizes) < 0 {
			t.Fatalf("seed %d: %v take %d of %d MiB", seed, p.Sizes, takes, rule.MB)
		}
		again := p
		for range 10 {
			p = again
			for i := range kinds {
				kinds[i].Had = p.Sizes[i]
			}
			again = rule.Plan(kinds)
		}
		if !slices.Equal(again.Sizes, p.Sizes) {
			t.Fatalf("seed %d: %v, and planned again %v", seed, p.Sizes, again.Sizes)
		}
		rule.MB = atLeast
		for i := range kinds {
			kinds[i].Asked = min(kinds[i].Asked, 1000)
		}
		for i, n := range rule.Plan(kinds).Sizes {
			if k := kinds[i]; n < k.Asked || n < k.Promised || k.One && n < 1 || k.Rate > 0.1 && n < 1 {
				t.Fatalf("seed %d: %d of %+v, with memory for all", seed, n, k)
			}
		}
	}
}

// TestGain: each sandbox more gains less than the one before it, so that it is best to take the one that gains most.
func TestGain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, 59))
		kinds := anyKinds(r)
		p := Rule{MB: 1000, Refill: time.Duration(r.Int64N(int64(time.Second))), Variation: r.Float64()}.Plan(kinds)
		for i, k := range kinds {
			last := k.Rate
			for n := range 30 {
				gain := p.Gain(i, n)
				if gain < 0 || gain > last*(1+1e-9)+1e-12 {
					t.Fatalf("seed %d: number %d of %+v gains %v, the one before %v", seed, n+1, k, gain, last)
				}
				last = gain
			}
		}
	}
}
