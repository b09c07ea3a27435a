package worker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestServedPools(t *testing.T) {
	t.Parallel()
	labels := job.Labels{"pool": "exams", "zone": "a"}
	used := []string{"pool=exams", "pool=exams,zone=a", "pool=exams,zone=b", "pool=other", "zone=a", "", "what is no placement"}
	for _, c := range []struct {
		only, want []string
	}{
		{nil, []string{"pool=exams", "zone=a", "pool=exams,zone=a"}},
		{[]string{"pool"}, []string{"pool=exams", "pool=exams,zone=a"}},
		{[]string{"pool", "zone"}, []string{"pool=exams,zone=a"}},
	} {
		if got, left := servedPools(labels, c.only, used); left != 0 || !slices.Equal(got, c.want) {
			t.Errorf("kept for %v: got %q, want %q", c.only, got, c.want)
		}
	}
	if got, _ := servedPools(labels, []string{"pool"}, nil); !slices.Equal(got, []string{"pool=exams"}) {
		t.Errorf("where none is in use: got %q, want the least", got)
	}
	// Of too many it serves those with the fewest labels, and says how many it leaves.
	all := job.Labels{"pool": "exams"}
	var keys []string
	for i := range job.MaxLabels - 1 {
		keys = append(keys, fmt.Sprintf("k%02d", i))
		all[keys[i]] = "v"
	}
	var many []string
	for i, a := range keys {
		for _, b := range keys[i+1:] {
			many = append(many, a+"=v,"+b+"=v", "pool=exams,"+a+"=v,"+b+"=v")
		}
	}
	many = append(many, "pool=exams", "k14=v", "another=v")
	for i, placement := range many {
		wants, err := job.ParseLabels(placement, job.MaxPlacement)
		if err != nil {
			t.Fatal(err)
		}
		many[i] = wants.String()
	}
	got, left := servedPools(all, nil, many)
	if len(got) != mostPools || left != 2*105+2-mostPools || !slices.Equal(got[:3], []string{"k14=v", "pool=exams", "k00=v,k01=v"}) {
		t.Errorf("of too many: got %d, %d are left, the first are %q", len(got), left, got[:min(3, len(got))])
	}
	got, left = servedPools(all, []string{"pool"}, many)
	if len(got) != 106 || left != 0 || got[0] != "pool=exams" {
		t.Errorf("kept for pool: got %d, %d are left", len(got), left)
	}
}
