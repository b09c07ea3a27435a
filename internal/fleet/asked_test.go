package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestAsked: who asked first is first; asking again replaces; what is over, taken back or unreadable is not listed,
// and forgotten as another asks.
func TestAsked(t *testing.T) {
	t.Parallel()
	f := open(t, time.Hour)
	rdb := f.rdb
	lists := func(after time.Duration, want ...string) []Asked {
		t.Helper()
		f.now = func() time.Time { return time.Now().Add(after) }
		list, err := f.Asked(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range list {
			got = append(got, a.Runtime)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		return list
	}
	ask := func(runtime string, count int, long time.Duration) {
		t.Helper()
		if err := Ask(t.Context(), rdb, runtime, count, long); err != nil {
			t.Fatal(err)
		}
		asked := time.Now().UnixMilli()
		gbtest.Eventually(t, "the next is asked for later", func() bool { return time.Now().UnixMilli() > asked })
	}
	lists(0)
	ask("python", 3, time.Hour)
	ask("bash", 4, time.Minute)
	lists(0, "python", "bash")
	ask("python", 5, time.Hour)
	if list := lists(0, "bash", "python"); list[1].Count != 5 || list[1].Until-list[1].Since != time.Hour.Milliseconds() {
		t.Errorf("got %+v", list)
	}
	lists(2*time.Minute, "python")
	rdb.HSet(t.Context(), warmKey, "c", "no JSON", "d", `{"count":0,"since":1,"until":2}`, "e", `{"count":100000,"since":1,"until":2}`,
		"f", `{"count":1,"since":1,"until":99999999999999}`, "g", `{"count":1,"since":1,"until":2}`,
		"h", `{"count":1,"since":-9223372036854775808,"until":9223372036854775807}`, "i", `{"count":1,"since":99999999999999,"until":100000000000000}`)
	lists(0, "bash", "python")
	if _, unreadable, err := ListAsked(t.Context(), rdb); err != nil || len(unreadable) != 6 { // g's time is only over
		t.Errorf("got %v, %v", unreadable, err)
	}
	ask("bash", 0, 0)
	lists(0, "python")
	if names, err := rdb.HKeys(t.Context(), warmKey).Result(); err != nil || len(names) != 1 {
		t.Errorf("there are %v, %v", names, err)
	}
	for name, err := range map[string]error{
		"too many": Ask(t.Context(), rdb, "bash", MostAsked+1, time.Hour), "fewer than none": Ask(t.Context(), rdb, "bash", -1, time.Hour),
		"for too long": Ask(t.Context(), rdb, "bash", 1, LongestAsked+time.Second), "for no time": Ask(t.Context(), rdb, "bash", 1, 0),
	} {
		if err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	lists(0, "python")
	rdb.Del(t.Context(), warmKey)
	rdb.Set(t.Context(), warmKey, "x", 0)
	if _, err := f.Asked(t.Context()); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("of another type: got %v", err)
	}
}

// TestShare: all have their parts, and together no fewer than were asked for.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		count      int
		slots, all int64
		want       int
	}{
		{6, 2, 3, 4}, {6, 1, 3, 2}, {10, 4, 12, 4}, {1, 4, 400, 1}, {10, 4, 4, 10}, {10, 4, 0, 10}, {10, 0, 4, 0}, {10, 0, 0, 0}, {MostAsked, mostSlots, mostSlots, MostAsked},
	} {
		if got := (Asked{Count: tt.count}).Share(tt.slots, tt.all); got != tt.want {
			t.Errorf("%d, %d of %d slots: got %d, want %d", tt.count, tt.slots, tt.all, got, tt.want)
		}
	}
}
