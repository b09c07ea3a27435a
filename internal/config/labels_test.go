package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestLabels: a worker that is kept for some jobs has the labels that these name.
func TestLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		labels, only string
		want         job.Labels
		keys         []string
		fault        string
	}{
		{"", "", nil, nil, ""},
		{"zone=a,gpu=no,pool=exams", "", job.Labels{"zone": "a", "gpu": "no", "pool": "exams"}, nil, ""},
		{"zone=a,pool=exams", "pool", job.Labels{"zone": "a", "pool": "exams"}, []string{"pool"}, ""},
		{"zone", "", nil, nil, "GLOVEBOX_LABELS can't be read"},
		{"zone=a", "pool", nil, nil, `GLOVEBOX_LABELS_ONLY has "pool"`},
		{"", "pool", nil, nil, `GLOVEBOX_LABELS_ONLY has "pool"`},
		{"pool=exams", "pool=exams", nil, nil, "GLOVEBOX_LABELS_ONLY can't be read"},
		{"pool=exams", "true", nil, nil, `GLOVEBOX_LABELS_ONLY has "true"`},
		{"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "a,b,c,d,e,f,g,h,i", nil, nil, "GLOVEBOX_LABELS_ONLY has 9 keys"},
	} {
		w, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_LABELS": c.labels, "GLOVEBOX_LABELS_ONLY": c.only}).Get)
		switch {
		case c.fault == "" && (err != nil || w.Labels.String() != c.want.String() || !slices.Equal(w.Only, c.keys)):
			t.Errorf("%q, %q: got %q, %v, %v", c.labels, c.only, w.Labels, w.Only, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%q, %q: got %v, want %q", c.labels, c.only, err, c.fault)
		}
	}
}
