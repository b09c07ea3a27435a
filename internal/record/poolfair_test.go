package record

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// modelWorker runs jobs as a worker does: it takes from its queues in asynq's way, a random one that has something, and ends the job that has
// run longest. Without a clock, a busy machine counts as an idle one does.
type modelWorker struct {
	Starter
	slots  int
	queues []string
	runs   []Record
	// ended is how many jobs of each tenant.
	ended map[string]int
}

func (s *Store) modelWorker(t *testing.T, id, text string, placements ...string) *modelWorker {
	t.Helper()
	s.labelled(t, id, text)
	k := workersOf(t, text)
	w := &modelWorker{Starter: Starter{ID: id, Labels: k.Labels, Only: k.Only}, slots: int(k.Slots), ended: map[string]int{}}
	if len(k.Only) == 0 {
		w.queues = append(w.queues, string(job.Normal))
	}
	for _, p := range placements {
		if labels, err := job.ParseLabels(p, job.MaxPlacement); err != nil || !k.Serves(labels) {
			continue
		}
		w.queues = append(w.queues, string(job.Normal)+":"+queue.Pool(p))
	}
	return w
}

// turn fills its slots, and ends one job.
func (w *modelWorker) turn(t *testing.T, s *Store, random *rand.Rand) {
	t.Helper()
	for len(w.runs) < w.slots {
		random.Shuffle(len(w.queues), func(i, k int) { w.queues[i], w.queues[k] = w.queues[k], w.queues[i] })
		task := ""
		for _, q := range w.queues {
			if task = s.rdb.RPop(t.Context(), queueKey(q, "pending")).Val(); task != "" {
				break
			}
		}
		if task == "" {
			break
		}
		id, epoch, _ := strings.Cut(task, ".")
		n := 0
		if _, err := fmt.Sscan(epoch, &n); err != nil {
			t.Fatal(err)
		}
		j, err := s.StartOn(t.Context(), id, n, w.Starter)
		if err != nil {
			t.Fatal(err)
		}
		w.runs = append(w.runs, j)
	}
	if len(w.runs) == 0 {
		return
	}
	s.mustEnd(t, w.runs[0])
	w.ended[w.runs[0].Tenant]++
	w.runs = w.runs[1:]
}

// waysToSay are so many placements that all mean a worker with the labels a=1, b=1, c=1 and d=1, and first: each names that, if it isn't empty.
func waysToSay(first string, n int) (placements []string) {
	for bits := 1; len(placements) < n; bits++ {
		var labels []string
		if first != "" {
			labels = append(labels, first)
		}
		for i, label := range []string{"a=1", "b=1", "c=1", "d=1"} {
			if bits&(1<<i) != 0 {
				labels = append(labels, label)
			}
		}
		parsed, _ := job.ParseLabels(strings.Join(labels, ","), job.MaxPlacement)
		placements = append(placements, parsed.String())
	}
	return placements
}

// TestManyPlacementsGainNothing: whoever names the same workers in many ways has no more than its part of them, beside tenants whose jobs go anywhere, and
// beside tenants that name the workers, too.
func TestManyPlacementsGainNothing(t *testing.T) {
	t.Parallel()
	const others, runs = 10, 300
	for name, c := range map[string]struct {
		workers []string
		theirs  string   // placement of the others' jobs
		many    []string // placements of the one tenant's
	}{
		"none":                          {[]string{"4 a=1,b=1,c=1,d=1"}, "", []string{""}},
		"one":                           {[]string{"4 a=1,b=1,c=1,d=1"}, "", waysToSay("", 1)},
		"three":                         {[]string{"4 a=1,b=1,c=1,d=1"}, "", waysToSay("", 3)},
		"fifteen":                       {[]string{"4 a=1,b=1,c=1,d=1"}, "", waysToSay("", 15)},
		"fifteen, and jobs without one": {[]string{"4 a=1,b=1,c=1,d=1"}, "", append(waysToSay("", 15), "")},
		"fifteen in a pool":             {[]string{"4 p=1,a=1,b=1,c=1,d=1 p"}, "p=1", waysToSay("p=1", 15)},
		"each worker of a pool":         {[]string{"1 p=1,h=1 p", "1 p=1,h=2 p", "1 p=1,h=3 p", "1 p=1,h=4 p"}, "p=1", []string{"h=1,p=1", "h=2,p=1", "h=3,p=1", "h=4,p=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storeOf(t, 0)
			var workers []*modelWorker
			for i, text := range c.workers {
				workers = append(workers, s.modelWorker(t, fmt.Sprint("model", i), text, append(slices.Clone(c.many), c.theirs)...))
			}
			tenants := []string{"many"}
			for i := range others {
				tenants = append(tenants, fmt.Sprint("other", i))
			}
			for _, tenant := range tenants[1:] {
				s.placedJobs(t, tenant, c.theirs, runs/4)
			}
			for _, p := range c.many {
				s.placedJobs(t, "many", p, runs/len(c.many))
			}
			random := rand.New(rand.NewPCG(1, 2))
			for n := range runs / len(workers) {
				if n%(60/len(workers)) == 0 { // as it is each second, where a run takes 60 ms and 4 are made at once
					s.passes(t, slices.Sorted(slices.Values(tenants))...)
				}
				for _, w := range workers {
					w.turn(t, s, random)
				}
			}
			got, all := 0, 0
			for _, w := range workers {
				for tenant, n := range w.ended {
					if all += n; tenant == "many" {
						got += n
					}
				}
			}
			const fair = runs / (others + 1)
			t.Logf("of %d runs it got %d, its fair part is %d", all, got, fair)
			if all != runs || got > 3*fair || got < fair/3 {
				t.Errorf("of %d runs it got %d, want between a third and three times of %d of %d", all, got, fair, runs)
			}
		})
	}
}
