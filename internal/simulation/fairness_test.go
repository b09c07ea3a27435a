package simulation

import (
	"math"
	"slices"
	"testing"
	"time"
)

// run is a job that a sandbox ran, in times since the simulation began.
type run struct {
	tenant              int
	asked, began, ended time.Duration
}

// owed is since when a slot is owed to the job: since it began, or since it has waited for as long as grace.
func (r run) owed(grace time.Duration) time.Duration { return min(r.asked+grace, r.began) }

// demanded is for how long a slot could have run the job between from and to: since it was owed one, for as
// long as it ran or had to run.
func (r run) demanded(from, to, grace time.Duration) time.Duration {
	since, left := max(from, r.owed(grace)), r.ended-max(r.began, from)
	return max(min(left, to-since), 0)
}

// served is for how long a slot ran the job between from and to.
func (r run) served(from, to time.Duration) time.Duration {
	return max(min(r.ended, to)-max(r.began, from), 0)
}

// window is a part of the simulation: of each tenant, the slot seconds that it had use for, those that it was
// entitled to, and those that it got.
type window struct {
	from                 time.Duration
	asked, entitled, got []float64
	contended            bool // tenants asked for more than all got together
}

// windows cuts the runs into parts of that length. A job is owed a slot once it has waited for as long as
// grace: tenants may have that much ahead of others', in the queue (docs/adr/0007-backlog.md). What a tenant asks is bounded by its quota of jobs at
// once, 0 for none. Its entitlement is its max-min fair part of what all got together.
func windows(runs []run, quotas []int, length, grace time.Duration) []window {
	var last time.Duration
	for _, r := range runs {
		last = max(last, r.ended)
	}
	list := make([]window, int((last+length-1)/length))
	for i := range list {
		list[i] = window{from: time.Duration(i) * length, asked: make([]float64, len(quotas)), got: make([]float64, len(quotas))}
	}
	for _, r := range runs {
		for i := int(r.owed(grace) / length); i < len(list) && list[i].from < r.ended; i++ {
			from := list[i].from
			list[i].asked[r.tenant] += r.demanded(from, from+length, grace).Seconds()
			list[i].got[r.tenant] += r.served(from, from+length).Seconds()
		}
	}
	for i := range list {
		w := &list[i]
		asked, got := 0.0, 0.0
		for t, quota := range quotas {
			if quota > 0 {
				w.asked[t] = min(w.asked[t], float64(quota)*length.Seconds())
			}
			asked, got = asked+w.asked[t], got+w.got[t]
		}
		w.contended = asked > 1.05*got
		w.entitled = maxMin(got, w.asked)
	}
	return list
}

// maxMin shares out what there is: nobody gets more than it asked for, and nobody less than another
// unless it asked for less.
func maxMin(all float64, asked []float64) []float64 {
	order := make([]int, len(asked))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if asked[a] < asked[b] {
			return -1
		}
		return 1
	})
	shares := make([]float64, len(asked))
	for i, t := range order {
		shares[t] = min(asked[t], all/float64(len(order)-i))
		all -= shares[t]
	}
	return shares
}

// normalised is what each tenant got for what it was entitled to, over the windows in which there was too
// little for all. Tenants that asked for nothing in these have no part in it.
func normalised(list []window) (shares map[int]float64) {
	got, entitled := map[int]float64{}, map[int]float64{}
	for _, w := range list {
		if !w.contended {
			continue
		}
		for t := range w.got {
			got[t] += w.got[t]
			entitled[t] += w.entitled[t]
		}
	}
	shares = map[int]float64{}
	for t, e := range entitled {
		if e > 0 {
			shares[t] = got[t] / e
		}
	}
	return shares
}

// jain is Jain's index of fairness: 1 if all have the same, 1/n if one of n has everything.
func jain(shares map[int]float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum, squares = sum+x, squares+x*x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// percentile is by nearest rank. It sorts the list.
func percentile(list []time.Duration, p float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[max(int(math.Ceil(p/100*float64(len(list)))), 1)-1]
}

func TestMaxMin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		all   float64
		asked []float64
		want  []float64
	}{
		{"enough for all", 10, []float64{1, 2, 3}, []float64{1, 2, 3}},
		{"equal parts", 9, []float64{10, 20, 30}, []float64{3, 3, 3}},
		{"who asks for little leaves the rest to others", 9, []float64{1, 20, 30}, []float64{1, 4, 4}},
		{"in any order", 9, []float64{30, 1, 20}, []float64{4, 1, 4}},
		{"nothing", 0, []float64{1, 2}, []float64{0, 0}},
		{"nobody", 5, nil, []float64{}},
	} {
		if got := maxMin(c.all, c.asked); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

func TestJain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shares map[int]float64
		want   float64
	}{
		{map[int]float64{0: 1, 1: 1, 2: 1}, 1},
		{map[int]float64{0: 3, 1: 0, 2: 0}, 1.0 / 3},
		{map[int]float64{0: 1, 1: 0.5}, 0.9},
		{nil, 1},
	} {
		if got := jain(c.shares); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: got %v, want %v", c.shares, got, c.want)
		}
	}
}

// TestWindows: one slot, two tenants who both ask for two seconds of it at once; the first is served first.
func TestWindows(t *testing.T) {
	t.Parallel()
	const s = time.Second
	runs := []run{{0, 0, 0, s}, {0, 0, s, 2 * s}, {1, 0, 2 * s, 3 * s}, {1, 0, 3 * s, 4 * s}}
	list := windows(runs, []int{0, 0}, 4*s, 0)
	if len(list) != 1 || list[0].contended {
		t.Fatalf("all that was asked for was served within the window: got %+v", list)
	}
	list = windows(runs, []int{0, 0}, 2*s, 0)
	if len(list) != 2 || !list[0].contended || list[1].contended {
		t.Fatalf("there was too little in the first of two windows alone: got %+v", list)
	}
	if got := normalised(list); got[0] != 2 || got[1] != 0 {
		t.Errorf("got %v, want twice what it was entitled to for the first tenant, and nothing for the second", got)
	}
	if got := normalised(windows(runs, []int{0, 0}, 2*s, 2*s)); len(got) != 0 {
		t.Errorf("got %v, want nothing: neither was owed more than it got, as nobody waited for longer than the grace", got)
	}
	if got := windows(runs, []int{1, 0}, s, 0)[0]; got.asked[0] != 1 || got.asked[1] != 2 {
		t.Errorf("got %v, want the first tenant's quota of one slot, and both jobs of the other", got.asked)
	}
}
