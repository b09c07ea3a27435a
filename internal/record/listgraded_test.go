package record

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// TestListGraded: what a problem graded is listed once, page by page, even where thousands have one time, and no other job is looked at.
func TestListGraded(t *testing.T) {
	t.Parallel()
	s, at := listing(t)
	now := time.UnixMilli(1_700_000_000_000)
	at(now)
	digest := strings.Repeat("a", 64)
	var want []string
	for i := range 250 {
		id := s.created(t, "default", "python")
		if i%2 == 0 {
			s.created(t, "default", "python") // of no problem
		}
		score := float64(1_700_000_000_000 + int64(i/200)) // 200 have one time
		if err := s.rdb.ZAdd(t.Context(), gradedKey("default", digest), redis.Z{Score: score, Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	s.rdb.ZAdd(t.Context(), gradedKey("default", digest), redis.Z{Score: 1_600_000_000_000, Member: job.NewID("default")}) // its record is gone
	for _, limit := range []int{1, 7, 100} {
		got, pages := s.pages(t, "default", Filter{Problem: digest, Limit: limit})
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("limit %d: got %d jobs in %d pages, want each of the %d once", limit, len(got), pages, len(want))
		}
	}
	if got, _ := s.pages(t, "default", Filter{Problem: digest, Since: now.Add(time.Millisecond), Limit: 100}); len(got) != 0 {
		t.Errorf("since a later time: got %d", len(got))
	}
	if got, _ := s.pages(t, "default", Filter{Problem: digest, Runtime: "node", Limit: 100}); len(got) != 0 {
		t.Errorf("of another runtime: got %d", len(got))
	}
	if got, _ := s.pages(t, "other", Filter{Problem: digest, Limit: 100}); len(got) != 0 {
		t.Errorf("another tenant got %d", len(got))
	}
}
