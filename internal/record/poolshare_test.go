package record

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

// workersOf is workers with so many slots: "4 zone=a,pool=x pool", where the last word has the keys that jobs have to name.
func workersOf(t *testing.T, text string) fleet.Slots {
	t.Helper()
	var k fleet.Slots
	words := append(strings.Fields(text), "", "")
	if _, err := fmt.Sscan(words[0], &k.Slots); err != nil {
		t.Fatal(err)
	}
	var err error
	if k.Labels, err = job.ParseLabels(words[1], job.MaxLabels); err != nil {
		t.Fatal(err)
	}
	if k.Only, err = job.ParseLabelKeys(words[2]); err != nil {
		t.Fatal(err)
	}
	return k
}

// wanting is a tenant with these pools, of which those with a ! have a backlog. "!" alone is one of jobs without a placement.
func wanting(t *testing.T, pools ...string) (w poolWants) {
	t.Helper()
	for _, text := range pools {
		placement, backlogged := strings.CutSuffix(text, "!")
		if placement == "" {
			w.common = backlogged
			continue
		}
		labels, err := job.ParseLabels(placement, job.MaxPlacement)
		if err != nil {
			t.Fatal(err)
		}
		w.pools = append(w.pools, wantedPool{placement: placement, labels: labels, backlogged: backlogged})
	}
	return w
}

func TestSharePools(t *testing.T) {
	t.Parallel()
	type windows = map[string]int64 // "" without a placement
	for name, c := range map[string]struct {
		workers []string
		tenants [][]string
		others  int64
		want    []windows
	}{
		"alone in a pool":                     {[]string{"4 a=1", "10"}, [][]string{{"a=1!"}}, 0, []windows{{"a=1": 8, "": 24}}}, // without a backlog of the others it has half of what it shares
		"alone in a pool that is kept":        {[]string{"4 a=1 a", "10"}, [][]string{{"a=1!"}}, 0, []windows{{"a=1": 8, "": 20}}},
		"in two that have nothing in common":  {[]string{"4 a=1 a", "2 b=1 b"}, [][]string{{"a=1!", "b=1!"}}, 0, []windows{{"a=1": 8, "b=1": 4, "": 1}}},
		"two tenants":                         {[]string{"4 a=1 a"}, [][]string{{"a=1!"}, {"a=1!"}}, 0, []windows{{"a=1": 4, "": 1}, {"a=1": 4, "": 1}}},
		"one of two waits":                    {[]string{"4 a=1 a"}, [][]string{{"a=1!"}, {"a=1"}}, 0, []windows{{"a=1": 8, "": 1}, {"a=1": 4, "": 1}}},
		"many placements for the same worker": {[]string{"4 a=1,b=1,c=1 a"}, [][]string{{"a=1!", "a=1,b=1!", "a=1,c=1!", "a=1,b=1,c=1!"}, {"a=1!"}}, 0, []windows{{"a=1": 1, "a=1,b=1": 1, "a=1,c=1": 1, "a=1,b=1,c=1": 1, "": 1}, {"a=1": 4, "": 1}}},
		"with those who go anywhere":          {[]string{"10 a=1"}, [][]string{{"a=1!"}}, 9, []windows{{"a=1": 2, "": 1}}},
		"kept from those who go anywhere":     {[]string{"10 a=1 a"}, [][]string{{"a=1!"}}, 9, []windows{{"a=1": 20, "": 1}}},
		"its own others share with it":        {[]string{"10 a=1"}, [][]string{{"a=1!", "!"}}, 0, []windows{{"a=1": 10, "": 10}}},
		"others and half of the workers":      {[]string{"10 a=1", "10"}, [][]string{{"a=1!", "!"}}, 0, []windows{{"a=1": 10, "": 30}}},
		"no worker":                           {nil, [][]string{{"a=1!"}}, 3, []windows{{"a=1": 0, "": 1}}},
		"other workers":                       {[]string{"4 a=2", "4"}, [][]string{{"a=1!"}}, 0, []windows{{"a=1": 0, "": 16}}},
		"a paused worker":                     {[]string{"0 a=1", "4"}, [][]string{{"a=1!"}}, 0, []windows{{"a=1": 0, "": 8}}},
		"more tenants than there is room for": {[]string{"1 a=1 a"}, [][]string{{"a=1!"}, {"a=1!"}, {"a=1!"}}, 0, []windows{{"a=1": 1, "": 1}, {"a=1": 1, "": 1}, {"a=1": 1, "": 1}}},
	} {
		var workers []fleet.Slots
		for _, text := range c.workers {
			workers = append(workers, workersOf(t, text))
		}
		var wants []poolWants
		for _, pools := range c.tenants {
			wants = append(wants, wanting(t, pools...))
		}
		for i, got := range sharePools(workers, wants, c.others) {
			all := maps.Clone(got.pools)
			all[""] = got.common
			if !maps.Equal(all, c.want[i]) {
				t.Errorf("%s: tenant %d has windows %v, want %v", name, i, all, c.want[i])
			}
		}
	}
}

// TestSharePoolsFilled: who comes to a pool that others fill begins with one job.
func TestSharePoolsFilled(t *testing.T) {
	t.Parallel()
	wants := []poolWants{wanting(t, "a=1!"), wanting(t, "a=1")}
	wants[0].pools[0].held = 8
	got := sharePools([]fleet.Slots{workersOf(t, "4 a=1 a")}, wants, 0)
	if got[0].pools["a=1"] != 8 || got[1].pools["a=1"] != 1 {
		t.Errorf("got %v", got)
	}
}

// TestSharePoolsBounds: several pools that mean the same workers have a tenant's part of these together, and those that have nothing in common
// are had in full.
func TestSharePoolsBounds(t *testing.T) {
	t.Parallel()
	one, hosts := []string{"4 a=1,b=1"}, []string{"1 p=1,h=1 p", "1 p=1,h=2 p", "9 q=1 q"}
	for name, c := range map[string]struct {
		workers, tenant, another []string
		others                   int64
		want                     string
	}{
		"one of its own":               {one, []string{"a=1!"}, nil, 0, "[ a=1] 8"}, // jobs without a placement may have half, once they come
		"two beside many tenants":      {one, []string{"a=1!", "b=1!"}, nil, 9, "[ a=1 b=1] 1"},
		"two and jobs without":         {one, []string{"a=1!", "b=1!", "!"}, nil, 9, "[ a=1 b=1] 1"},
		"its window is large enough":   {one, []string{"a=1!", "!"}, nil, 0, ""},
		"fewer than all that wait":     {[]string{"4 a=1,b=1", "40"}, []string{"a=1!", "b=1!", "!"}, nil, 9, "[ a=1 b=1] 9 [a=1 b=1] 1"},
		"each of a pool":               {hosts, []string{"h=1,p=1!", "h=2,p=1!"}, []string{"p=1!"}, 0, ""},
		"each that others want":        {[]string{"1 p=1,h=1 p", "1 p=1,h=2 p"}, []string{"h=1,p=1!", "h=2,p=1!", "p=1"}, []string{"p=1!", "h=1,p=1!", "h=2,p=1!"}, 0, "[h=1,p=1 h=2,p=1 p=1] 2"},
		"pools with nothing in common": {hosts, []string{"h=1,p=1!", "q=1!"}, []string{"h=1,p=1!", "q=1!"}, 0, ""},
		"nobody serves them":           {nil, []string{"a=1!", "b=1!", "!"}, nil, 9, ""},
	} {
		var workers []fleet.Slots
		for _, text := range c.workers {
			workers = append(workers, workersOf(t, text))
		}
		wants := []poolWants{wanting(t, c.tenant...)}
		if c.another != nil {
			wants = append(wants, wanting(t, c.another...))
		}
		var got []string
		for _, b := range sharePools(workers, wants, c.others)[0].bounds {
			got = append(got, fmt.Sprint(b.placements, b.most))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: the bounds are %q, want %q", name, text, c.want)
		}
	}
}
