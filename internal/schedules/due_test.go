package schedules

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

func TestDue(t *testing.T) {
	t.Parallel()
	day := time.Date(2027, 6, 1, 0, 0, 0, 0, time.UTC)
	at := func(clock string) time.Time {
		d, err := time.ParseDuration(clock)
		if err != nil {
			t.Fatal(err)
		}
		return day.Add(d)
	}
	hourly, minutely := job.ScheduleSettings{Cron: "@hourly"}, job.ScheduleSettings{Cron: "* * * * *"}
	with := func(s job.ScheduleSettings, change func(*job.ScheduleSettings)) job.ScheduleSettings {
		change(&s)
		return s
	}
	once := func(s *job.ScheduleSettings) { s.Missed = job.MissedOnce }
	for _, c := range []struct {
		what      string
		settings  job.ScheduleSettings
		next, now string
		want      string // fire, late, first missed, how many, next
	}{
		{"not yet", hourly, "1h", "59m59s", "- false - 0 1h0m0s"},
		{"on time", hourly, "1h", "1h", "1h0m0s false - 0 2h0m0s"},
		{"within the grace", hourly, "1h", "1h1m", "1h0m0s false - 0 2h0m0s"},
		{"late", hourly, "1h", "1h1m1s", "- false 1h0m0s 1 2h0m0s"},
		{"late, several", hourly, "1h", "5h30m", "- false 1h0m0s 5 6h0m0s"},
		{"late, and one on time", hourly, "1h", "5h", "5h0m0s false 1h0m0s 4 6h0m0s"},
		{"late, made up", with(hourly, once), "1h", "1h30m", "1h0m0s true - 0 2h0m0s"},
		{"late, the latest made up", with(hourly, once), "1h", "5h30m", "5h0m0s true 1h0m0s 4 6h0m0s"},
		{"on time takes its place", with(hourly, once), "1h", "5h", "5h0m0s false 1h0m0s 4 6h0m0s"},
		{"too late to be made up", with(hourly, func(s *job.ScheduleSettings) { once(s); s.CatchUpSeconds = 600 }), "1h", "1h30m", "- false 1h0m0s 1 2h0m0s"},
		{"two within the grace, one after the other", minutely, "1m", "2m", "1m0s false - 0 2m0s"},
		{"a year of minutes", minutely, "-8760h", "30s", "0s false -8760h0m0s 1000 1m0s"},
		{"it ends", with(hourly, func(s *job.ScheduleSettings) { s.EndsAt = at("2h") }), "1h", "1h", "1h0m0s false - 0 -"},
	} {
		table, err := New(c.settings, "seed")
		if err != nil {
			t.Fatal(err)
		}
		d := table.Due(at(c.next), at(c.now))
		clock := func(t time.Time) string {
			if t.IsZero() {
				return "-"
			}
			return t.Sub(day).String()
		}
		if got := fmt.Sprintf("%s %t %s %d %s", clock(d.Fire), d.Late, clock(d.Missed), d.Count, clock(d.Next)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	starts := time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)
	table, err := New(job.ScheduleSettings{Cron: "@hourly", StartsAt: starts, EndsAt: starts.Add(2 * time.Hour), JitterSeconds: 600}, "seed")
	if err != nil {
		t.Fatal(err)
	}
	first := table.After(starts.Add(-24 * time.Hour))
	if !first.Equal(starts) || !table.After(first).Equal(starts.Add(time.Hour)) || !table.After(starts.Add(time.Hour)).IsZero() {
		t.Errorf("got %s, %s, %s; want starts_at, an hour later, none at ends_at", first, table.After(first), table.After(starts.Add(time.Hour)))
	}
	late, seen := table.At(first).Sub(first), map[time.Duration]bool{}
	for n := range 100 {
		fire := first.Add(time.Duration(n-100) * time.Hour)
		j := table.At(fire).Sub(fire)
		if j < 0 || j >= 10*time.Minute {
			t.Errorf("got a jitter of %s", j)
		}
		seen[j] = true
	}
	if again := table.At(first).Sub(first); again != late || len(seen) < 90 {
		t.Errorf("got %s and %s, and %d jitters of 100 fires", late, again, len(seen))
	}
}

// A schedule does not fire once it has ended, be its jitter longer than what is left.
func TestJitterBeforeTheEnd(t *testing.T) {
	t.Parallel()
	ends := time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)
	for seed := range 50 {
		table, err := New(job.ScheduleSettings{Cron: "59 11 * * *", EndsAt: ends, JitterSeconds: 3600}, strconv.Itoa(seed))
		if err != nil {
			t.Fatal(err)
		}
		if at := table.At(ends.Add(-time.Minute)); !at.Before(ends) {
			t.Errorf("seed %d: due at %s", seed, at)
		}
	}
}

// A jitter that is longer than the time to the next fire puts none behind the one after it: none is lost while
// somebody looks each second.
func TestLongJitter(t *testing.T) {
	t.Parallel()
	table, err := New(job.ScheduleSettings{Cron: "* * * * *", JitterSeconds: 3600}, "seed")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2027, 6, 1, 12, 0, 0, 0, time.UTC)
	next, fires := table.After(start), 0
	for now := start; now.Before(start.Add(2 * time.Hour)); now = now.Add(time.Second) {
		d := table.Due(next, now)
		if d.Count > 0 || d.Late {
			t.Fatalf("%s: got %+v, want none missed", now, d)
		}
		if next = d.Next; !d.Fire.IsZero() {
			fires++
		}
	}
	if fires < 118 || fires > 120 {
		t.Errorf("got %d fires in two hours, want one a minute", fires)
	}
}
