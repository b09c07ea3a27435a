package direct_test

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// oracle walks through the minutes of a year as cron(8) does, and lists when a job runs. matches says which
// wall-clock minutes it is for, elapsed that it has * as its minute or hour.
func oracle(from, to time.Time, zone *time.Location, matches func(wall time.Time) bool, elapsed bool) (fires []string) {
	wallOf := func(at time.Time) time.Time {
		_, offset := at.In(zone).Zone()
		return at.UTC().Add(time.Duration(offset) * time.Second)
	}
	latest := wallOf(from.Add(-time.Minute)) // that the clock has shown
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		wall, fire := wallOf(at), false
		if elapsed {
			fire = matches(wall)
		} else {
			for ; latest.Before(wall); latest = latest.Add(time.Minute) {
				fire = fire || matches(latest.Add(time.Minute)) // one that was jumped over, too
			}
		}
		if fire {
			fires = append(fires, at.UTC().Format(time.RFC3339))
		}
	}
	return fires
}

// TestYear: two processes fire a year of schedules where clocks change by an hour, by half an hour, and at
// midnight. At each time one of them is killed, at some command; half of the time it is the only one. Each
// fire that cron(8) would have starts one job.
func TestYear(t *testing.T) {
	t.Parallel()
	at := func(hour, minute int) func(time.Time) bool {
		return func(wall time.Time) bool { return wall.Hour() == hour && wall.Minute() == minute }
	}
	crons := map[string]struct {
		cron    string
		matches func(time.Time) bool
		elapsed bool
	}{
		"gap":      {"15 2 * * *", at(2, 15), false},
		"twice":    {"45 1 * * *", at(1, 45), false},
		"midnight": {"0 0 * * *", at(0, 0), false},
		"eve":      {"30 23 * * 4-6", func(w time.Time) bool { return at(23, 30)(w) && w.Weekday() >= time.Thursday }, false},
		"elapsed": {"*/30 1-2 * * 0,5", func(w time.Time) bool {
			return w.Minute()%30 == 0 && (w.Hour() == 1 || w.Hour() == 2) && (w.Weekday() == time.Sunday || w.Weekday() == time.Friday)
		}, true},
	}
	zones := []string{"Australia/Lord_Howe", "America/New_York", "Africa/Cairo"}
	if testing.Short() {
		zones = zones[:1] // whose clocks change by half an hour
	}
	for _, name := range zones {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			t.Parallel()
			w := producertest.New(t, "")
			w.Runtimes(t)
			template(t, w.Client)
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			start, end := time.Date(2027, 1, 1, 0, 0, 0, 0, zone), time.Date(2028, 1, 1, 0, 0, 0, 0, zone)
			want := map[string]int{}
			for id, c := range crons {
				s := job.ScheduleSettings{Template: "work", Cron: c.cron, Zone: name, Overlap: job.OverlapAllow}
				if _, err := w.Client.SetScheduleAt(t.Context(), id, s, start.Add(-time.Second)); err != nil {
					t.Fatal(err)
				}
				for _, fire := range oracle(start, end, zone, c.matches, c.elapsed) {
					want[id+" "+fire]++
				}
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d, %d fires", seed, len(want))
			random := rand.New(rand.NewPCG(seed, 0))
			firers := []*firer{newFirer(t, w), newFirer(t, w)}
			killed := 0
			for {
				now, names := nextDue(t, w)
				if !now.Before(end) {
					break
				}
				for _, id := range names {
					victim, alone := random.IntN(2), random.IntN(2) == 0
					firers[victim].arm(1+random.IntN(10), random.IntN(2) == 0)
					firers[1-victim].arm(0, false)
					var both sync.WaitGroup
					for i, f := range firers {
						if alone && i != victim {
							continue
						}
						both.Go(func() {
							if err := f.Fire(t.Context(), id, now); err != nil && !f.dead {
								t.Errorf("%s at %s: %v", id, now, err)
							}
						})
					}
					both.Wait()
					if firers[victim].dead {
						killed++
					}
				}
				if t.Failed() {
					return
				}
			}
			got := map[string]int{}
			iter := w.Raw.Scan(t.Context(), 0, "gb:{default}:job:*", 1000).Iterator()
			for iter.Next(t.Context()) {
				j, err := w.Records.Get(t.Context(), strings.TrimPrefix(iter.Val(), "gb:{default}:job:"))
				if err != nil {
					t.Fatal(err)
				}
				got[j.Metadata[job.ScheduleKey]+" "+j.Metadata[job.FireKey]]++
			}
			if diff := cmp.Diff(want, got); diff != "" || iter.Err() != nil {
				t.Errorf("jobs (-want +got), %v:\n%s", iter.Err(), diff)
			}
			t.Logf("%d kills", killed)
			if killed < len(want)/4 {
				t.Errorf("got %d kills for %d fires: too few to show anything", killed, len(want))
			}
		})
	}
}
