package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// listing is a Store over a real Redis whose clock stands at a time of the test's.
func listing(t *testing.T) (*Store, func(time.Time)) {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: gbtest.Redis(t).URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, func(at time.Time) { s.now = func() time.Time { return at } }
}

func (s *Store) created(t *testing.T, tenant, runtime string) string {
	t.Helper()
	id := job.NewID(tenant)
	if err := s.Create(t.Context(), id, job.Spec{Runtime: runtime, Metadata: map[string]string{"k": "v"}}, ""); err != nil {
		t.Fatal(err)
	}
	return id
}

// pages lists everything that f fits, page by page, and says how many pages there were.
func (s *Store) pages(t *testing.T, tenant string, f Filter) (ids []string, pages int) {
	t.Helper()
	for {
		jobs, next, err := s.List(t.Context(), tenant, f)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		if next == "" {
			return ids, pages
		}
		if p, ok := ParsePosition(tenant, string(next)); !ok || p != next {
			t.Fatalf("%q is no position", next)
		}
		f.After = next
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	s, at := listing(t)
	began := time.UnixMilli(time.Now().UnixMilli())
	var all []string // newest first
	for i := range 30 {
		at(began.Add(time.Duration(i/3) * time.Millisecond)) // three in each millisecond
		all = slices.Insert(all, 0, s.created(t, "default", []string{"python", "bash"}[i%2]))
		s.created(t, "other", "python")
	}
	for i := 0; i < len(all); i += 3 { // within one, the order is that of their ids
		slices.SortFunc(all[i:i+3], func(a, b string) int { return strings.Compare(b, a) })
	}
	for _, limit := range []int{1, 7, 30, 31} {
		got, pages := s.pages(t, "default", Filter{Limit: limit})
		if !slices.Equal(got, all) || pages > 31 {
			t.Errorf("limit %d: got %d jobs on %d pages, want the %d in order", limit, len(got), pages, len(all))
		}
	}
	own := job.NewID("own")
	if err := s.Create(t.Context(), own, job.Spec{Image: "example.com/a@sha256:00", Command: []string{"x"}}, ""); err != nil {
		t.Fatal(err)
	}
	if jobs, _, err := s.List(t.Context(), "own", Filter{Limit: 1}); err != nil || len(jobs) != 1 || jobs[0].Image != "example.com/a@sha256:00" {
		t.Errorf("got %+v, %v, want the job with an image of its own", jobs, err)
	}
	if got, _ := s.pages(t, "nobody", Filter{Limit: 5}); len(got) != 0 {
		t.Errorf("a tenant without jobs has %v", got)
	}

	t.Log("a cursor stands still while jobs come")
	first, next, err := s.List(t.Context(), "default", Filter{Limit: 4})
	if err != nil {
		t.Fatal(err)
	}
	at(began.Add(time.Second))
	s.created(t, "default", "python")
	rest, _ := s.pages(t, "default", Filter{Limit: 4, After: next})
	if len(first) != 4 || !slices.Equal(rest, all[4:]) {
		t.Errorf("got %d jobs after the first 4, want those that were there", len(rest))
	}

	t.Log("what is asked for, and nothing else")
	since, _ := s.pages(t, "default", Filter{Limit: 50, Since: began.Add(5 * time.Millisecond)})
	if want := all[:15]; !slices.Equal(since[1:], want) { // and the one that came
		t.Errorf("since: got %d jobs, want %d", len(since)-1, len(want))
	}
	if later, _ := s.pages(t, "default", Filter{Limit: 50, Since: began.Add(5*time.Millisecond + 999*time.Microsecond)}); len(later) != 16 {
		t.Errorf("since a part of a millisecond later: got %d jobs, want the same 16", len(later))
	}
	if never, _ := s.pages(t, "default", Filter{Limit: 50, Since: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}); len(never) != 0 {
		t.Errorf("since the year 9999: got %d", len(never))
	}
	bash, _ := s.pages(t, "default", Filter{Limit: 4, Runtime: "bash"})
	running, err := s.Start(t.Context(), bash[3], 1, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.End(t.Context(), running, Ending{Status: job.Failed, Result: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), all[9], 1, "w1"); err != nil {
		t.Fatal(err)
	}
	got, _ := s.pages(t, "default", Filter{Limit: 1, States: []job.Status{job.Failed, job.Running}})
	want := []string{bash[3], all[9]}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) || len(bash) != 15 {
		t.Errorf("got %v, want %v", got, want)
	}
	jobs, _, err := s.List(t.Context(), "default", Filter{Limit: 5, States: []job.Status{job.Failed}})
	if err != nil || len(jobs) != 1 || jobs[0].Metadata["k"] != "v" || jobs[0].Finished.IsZero() || jobs[0].Attempts != 1 || jobs[0].Result != nil {
		t.Errorf("got %+v, %v", jobs, err)
	}
}

// TestListIsBounded: a filter that fits nothing looks at so many jobs a page, and large
// metadata ends a page early.
func TestListIsBounded(t *testing.T) {
	t.Parallel()
	s, at := listing(t)
	pipe := s.rdb.Pipeline()
	for range listMost + 100 { // their records have expired
		pipe.ZAdd(t.Context(), jobsKey("default"), redis.Z{Member: string(position(time.Now(), job.NewID("default")))})
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	at(time.Now().Add(-time.Hour))
	oldest := s.created(t, "default", "bash")
	if got, pages := s.pages(t, "default", Filter{Limit: 10}); pages != 2 || !slices.Equal(got, []string{oldest}) {
		t.Errorf("got %v on %d pages, want the oldest on the second", got, pages)
	}
	large := map[string]string{"k": strings.Repeat("x", 60<<10)}
	for range 40 {
		if err := s.Create(t.Context(), job.NewID("other"), job.Spec{Runtime: "bash", Metadata: large}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got, pages := s.pages(t, "other", Filter{Limit: 200}); pages != 3 || len(got) != 40 {
		t.Errorf("got %d jobs on %d pages, want 40 on 3: 18 fill a MiB", len(got), pages)
	}
}

func TestSweepTakesExpiredJobsOutOfTheList(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s := w.Records
	var kept, gone []string
	for i := range 2*page + 10 {
		id := s.created(t, "default", "bash")
		if i%2 == 0 || i > page+page/2 {
			if err := s.rdb.Del(t.Context(), jobKey("default", id)).Err(); err != nil { // it expires
				t.Fatal(err)
			}
			gone = append(gone, id)
		} else {
			kept = append(kept, id)
		}
	}
	sweep := func(want int) {
		t.Helper()
		if err := w.sweepListed(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		if n := s.rdb.ZCard(t.Context(), jobsKey("default")).Val(); n != int64(want) {
			t.Errorf("%d entries, want %d", n, want)
		}
	}
	sweep(len(kept) + len(gone)) // too young to look at
	w.forward(s.retention + time.Second)
	sweep(len(kept))
	s.now = time.Now
	if got, _ := s.pages(t, "default", Filter{Limit: 100}); len(got) != len(kept) {
		t.Errorf("%d jobs are listed, want %d", len(got), len(kept))
	}
}

func TestParsePosition(t *testing.T) {
	t.Parallel()
	id := job.NewID("default")
	for s, want := range map[string]bool{
		"1700000000000:" + id: true, "0000000000000:" + id: true,
		"": false, ":": false, id: false, "1700000000000:": false, "170000000000:" + id: false, "-700000000000:" + id: false,
		"17000000000000:" + id: false, "1700000000000:" + job.NewID("other"): false, "1700000000000:" + id + ":x": false,
		"1700000000000:(" + id: false, "[:" + id: false, "+": false,
	} {
		if p, ok := ParsePosition("default", s); ok != want || ok && p.id() != id {
			t.Errorf("%q: got %v, want %v", s, ok, want)
		}
	}
}

// BenchmarkList lists 50 jobs of 10,000.
func BenchmarkList(b *testing.B) {
	s, err := Open(b.Context(), Config{URL: gbtest.Redis(b).URL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	for i := range 10_000 {
		id := job.NewID("default")
		runtime := "python"
		if i%1000 == 0 {
			runtime = "bash"
		}
		if err := s.Create(b.Context(), id, job.Spec{Runtime: runtime}, ""); err != nil {
			b.Fatal(err)
		}
	}
	for _, f := range []Filter{{Limit: 50}, {Limit: 50, Runtime: "bash"}} {
		b.Run(fmt.Sprintf("runtime=%s", f.Runtime), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := s.List(b.Context(), "default", f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	memory, err := s.rdb.MemoryUsage(b.Context(), jobsKey("default"), 0).Result()
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d bytes of Redis a job", memory/10_000)
}

func FuzzParsePosition(f *testing.F) {
	f.Add("1700000000000:" + job.NewID("default"))
	f.Add("1700000000000:" + job.NewID("other"))
	f.Add(":-")
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := ParsePosition("default", s)
		if !ok {
			return
		}
		if tenant, valid := job.TenantOf(p.id()); !valid || tenant != "default" || len(s) != millisDigits+1+len(p.id()) || string(p) != s {
			t.Errorf("%q is a position of job %q", s, p.id())
		}
	})
}

// However many jobs there are that a filter doesn't fit, a page costs Redis little: requests
// are what a tenant's quota counts.
func TestListOfNothingIsCheap(t *testing.T) {
	t.Parallel()
	s, ctx := openStore(t, Config{}), t.Context()
	const total = 2300
	for n := 0; n < total; {
		var jobs []NewJob
		for ; len(jobs) < 100; n++ {
			jobs = append(jobs, NewJob{ID: job.NewID("default"), Spec: job.Spec{Runtime: "python"}})
		}
		if _, err := s.CreateMany(ctx, "default", jobs); err != nil {
			t.Fatal(err)
		}
	}
	commands := func() (n int) {
		_, of, _ := strings.Cut(s.rdb.Info(ctx, "stats").Val(), "total_commands_processed:")
		if _, err := fmt.Sscan(of, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, c := range map[string]struct {
		f           Filter
		jobs, pages int // of the whole list
		most        int // commands a page
	}{
		"that nothing fits": {Filter{States: []job.Status{job.Failed}, Limit: 50}, 0, total/500 + 1, 520},
		"of another kind":   {Filter{Runtime: "cobol", Limit: 200}, 0, total/500 + 1, 520},
		"of one job a page": {Filter{Limit: 1, Since: time.Now().Add(time.Hour)}, 0, 1, 10},
		"of all":            {Filter{Limit: 50}, total, total/50 + 1, 110},
	} {
		before := commands()
		ids, pages := s.pages(t, "default", c.f)
		if each := (commands() - before) / pages; each > c.most {
			t.Errorf("%s: a page takes %d commands, want %d at most", name, each, c.most)
		}
		if len(ids) != c.jobs || pages > c.pages {
			t.Errorf("%s: got %d jobs on %d pages, want %d on %d", name, len(ids), pages, c.jobs, c.pages)
		}
	}
}
