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
		{nil, []string{"pool=exams", "pool=exams,zone=a", "zone=a"}},
		{[]string{"pool"}, []string{"pool=exams", "pool=exams,zone=a"}},
		{[]string{"pool", "zone"}, []string{"pool=exams,zone=a"}},
	} {
		if got := servedPools(labels, c.only, used); !slices.Equal(got, c.want) {
			t.Errorf("kept for %v: got %q, want %q", c.only, got, c.want)
		}
	}
	if got := servedPools(labels, []string{"pool"}, nil); !slices.Equal(got, []string{"pool=exams"}) {
		t.Errorf("where none is in use: got %q, want the least", got)
	}
	many := make([]string, 2*mostPools)
	for i := range many {
		many[i] = fmt.Sprintf("k%03d=v", i)
	}
	all, err := job.ParseLabels(many[0], job.MaxLabels)
	if err != nil {
		t.Fatal(err)
	}
	if got := servedPools(all, nil, many); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}
