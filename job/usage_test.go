package job_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

func TestNewCost(t *testing.T) {
	t.Parallel()
	for nano, want := range map[int64]string{0: "0.000000000", 595: "0.000000595", 1_000_000_000: "1.000000000", math.MaxInt64: "9223372036.854775807"} {
		if got := job.NewCost(nano); got.Amount != want || got.Nano != nano {
			t.Errorf("%d: got %+v, want %s", nano, got, want)
		}
	}
}

func TestUsageRange(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 1, 0, 0, 0, time.FixedZone("", 2*3600)) // the 22nd in UTC
	for _, c := range []struct{ from, to, first, last, fault string }{
		{"", "", "2026-11-01", "2026-11-22", ""},
		{"", "2026-02-28", "2026-02-01", "2026-02-28", ""},
		{"2026-02-28", "2026-02-28", "2026-02-28", "2026-02-28", ""},
		{"2025-11-24", "2026-11-24", "2025-11-24", "2026-11-24", ""},
		{"2025-11-22", "2026-11-23", "", "", "from"},
		{"2026-11-24", "2026-11-23", "", "", "from"},
		{"yesterday", "", "", "", "from"},
		{"", "2026-02-30", "", "", "to"},
	} {
		first, last, err := job.UsageRange(c.from, c.to, now)
		var invalid job.Invalid
		switch {
		case c.fault != "" && (!errors.As(err, &invalid) || invalid[0].Field != c.fault):
			t.Errorf("%q to %q: got %v, want a fault of %s", c.from, c.to, err, c.fault)
		case c.fault == "" && (err != nil || first.Format(time.DateOnly) != c.first || last.Format(time.DateOnly) != c.last):
			t.Errorf("%q to %q: got %s to %s, %v", c.from, c.to, first, last, err)
		}
	}
}
