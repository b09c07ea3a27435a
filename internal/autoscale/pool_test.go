package autoscale

import (
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func labels(t *testing.T, text string) job.Labels {
	t.Helper()
	l, err := job.ParseLabels(text, job.MaxLabels)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestPools: a job is counted with the pool of which it names the most labels, a worker with the one whose labels are enough to run there.
func TestPools(t *testing.T) {
	t.Parallel()
	inZone := func(p job.Labels) bool { return labels(t, "zone=a,gpu=no").Serves(p, nil) } // such workers are kept for no jobs
	for _, c := range []struct {
		pools, job, worker string // a worker's labels, and the keys that it is kept for behind a blank
		want               string
	}{
		{"", "", "", "common"},
		{"", "zone=a", "zone=a", "common"},
		{"", "zone=b", "zone=b zone", "none"},
		{"pool=exams", "", "", "none"},
		{"pool=exams", "pool=exams", "pool=exams pool", "pool=exams"},
		{"pool=exams", "pool=exams,zone=a", "pool=exams,zone=a pool", "pool=exams"},
		{"pool=exams", "pool=other", "pool=other pool", "none"},
		{"zone=a,pool=exams", "pool=exams,zone=a", "pool=exams,zone=a pool,zone", "pool=exams,zone=a"},
		{"pool=exams,zone=a", "pool=exams", "pool=exams pool", "none"},
		{"pool=exams pool=exams,zone=a common", "pool=exams,zone=a,gpu=no", "pool=exams,zone=a,gpu=no pool", "pool=exams,zone=a"},
		{"pool=exams,zone=a pool=exams common", "pool=exams,zone=b", "pool=exams,zone=b pool", "pool=exams"},
		{"zone=a common", "zone=a,gpu=no", "zone=a,gpu=no", "zone=a"},
		{"zone=a common", "gpu=no", "gpu=no", "common"},
		{"zone=a pool=exams", "pool=exams,zone=a", "pool=exams,zone=a", "zone=a"},
		{"pool=exams zone=a", "pool=exams,zone=a", "pool=exams,zone=a", "pool=exams"},
		{"common", "pool=exams", "pool=exams pool", "none"},
	} {
		p, err := ParsePools(strings.Fields(c.pools))
		if err != nil {
			t.Fatal(err)
		}
		name := func(i int) string {
			if i < 0 {
				return "none"
			}
			return p.Name(i)
		}
		if got := name(p.OfJob(labels(t, c.job), inZone)); got != c.want {
			t.Errorf("of %q, a job for %q is counted with %s, want %s", c.pools, c.job, got, c.want)
		}
		has, only, _ := strings.Cut(c.worker, " ")
		keys, err := job.ParseLabelKeys(only)
		if err != nil {
			t.Fatal(err)
		}
		if got := name(p.OfWorker(labels(t, has), keys)); got != c.want {
			t.Errorf("of %q, a worker %q is counted with %s, want %s", c.pools, c.worker, got, c.want)
		}
	}
	if p, err := ParsePools([]string{"pool=exams"}); err != nil || p.HasCommon() {
		t.Errorf("%v, %v has the common pool", p, err)
	}
}

// TestPoolsAreChecked: what names no pool is refused, with what is wrong and what is allowed.
func TestPoolsAreChecked(t *testing.T) {
	t.Parallel()
	many := make([]string, MostPools+1)
	for i := range many {
		many[i] = "pool=" + strings.Repeat("x", i%60+1)
	}
	for _, c := range []struct {
		words []string
		says  []string
	}{
		{[]string{""}, []string{"is empty", "pool=exams,zone=a", "common"}},
		{[]string{"exams"}, []string{`"exams" is no label`, "key=value"}},
		{[]string{"Common"}, []string{`"Common" is no label`}},
		{[]string{"pool=exams,"}, []string{`"" is no label`}},
		{[]string{"=exams"}, []string{"key", "lower-case letters"}},
		{[]string{"Pool=exams"}, []string{"Pool", "lower-case letters"}},
		{[]string{"pool="}, []string{"pool", "1 to 63"}},
		{[]string{"pool=a b"}, []string{"labels.pool", "got a b", "letters, digits"}},
		{[]string{"pool=exams\n"}, []string{"labels.pool", "letters, digits"}},
		{[]string{"pool=exams!"}, []string{"exams!", "letters, digits"}},
		{[]string{"pool=\xff"}, []string{"letters, digits"}},
		{[]string{"pool=" + strings.Repeat("x", 64)}, []string{"1 to 63"}},
		{[]string{"pool=a,pool=b"}, []string{`"pool" appears more than once`}},
		{[]string{"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"}, []string{"too many labels", "0 to 8"}},
		{[]string{"pool=a,zone=b", "zone=b,pool=a"}, []string{"pool=a,zone=b is given more than once"}},
		{[]string{"common", "common"}, []string{"common is given more than once"}},
		{many, []string{"65 pools are too many: want 1 to 64"}},
		{[]string{strings.Repeat("x", 1<<20)}, []string{"is no label"}},
	} {
		_, err := ParsePools(c.words)
		if err == nil {
			t.Errorf("%.100q is taken", c.words)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%.100q: got %.300q, want %q in it", c.words, err, word)
			}
		}
		if len(err.Error()) > 500 {
			t.Errorf("%.100q: the error has %d bytes", c.words, len(err.Error()))
		}
	}
}
