package schedules

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// MostMissed is how many missed fires are counted: a schedule of each minute may have missed a year's.
const MostMissed = 1000

// Timetable is when a schedule fires.
type Timetable struct {
	cron     Cron
	settings job.ScheduleSettings
	seed     string
}

// New reads the timetable of a schedule. seed is what its jitter comes from. It fails with job.Invalid.
func New(s job.ScheduleSettings, seed string) (Timetable, error) {
	c, err := Parse(s.Cron, s.Zone)
	return Timetable{c, s, seed}, err
}

// After is the first time after t for which the schedule fires, zero for none.
func (t Timetable) After(at time.Time) time.Time {
	if starts := t.settings.StartsAt; at.Before(starts) {
		at = starts.Add(-time.Nanosecond)
	}
	next := t.cron.Next(at)
	if ends := t.settings.EndsAt; !ends.IsZero() && !next.Before(ends) {
		return time.Time{}
	}
	return next
}

// At is when the fire for that time is due: later by a jitter that is the same in every process, no later than
// the fire after it, so that each is due in its turn, and before the schedule's end.
func (t Timetable) At(fire time.Time) time.Time {
	if fire.IsZero() || t.settings.JitterSeconds == 0 {
		return fire
	}
	sum := sha256.Sum256([]byte("jitter\n" + t.seed + "\n" + strconv.FormatInt(fire.Unix(), 10)))
	most := uint64(t.settings.JitterSeconds) * 1000
	for _, later := range []time.Time{t.cron.Next(fire), t.settings.EndsAt} {
		if gap := later.Sub(fire).Milliseconds(); gap > 0 {
			most = min(most, uint64(gap)) //nolint:gosec // it is above 0
		}
	}
	return fire.Add(time.Duration(binary.BigEndian.Uint64(sum[:8])%most) * time.Millisecond)
}

// Due is what there is to do at some time.
type Due struct {
	// Fire is the time to fire for now, zero for none; Late says that it was missed, and is made up for.
	Fire time.Time
	Late bool
	// Missed is the first of Count fires that were missed for good. MostMissed stands for more, too.
	Missed time.Time
	Count  int
	// Next is the next time to fire for, zero for none. It may be due, too.
	Next time.Time
}

// Due says what there is to do now, if next is the next time to fire for. It fires for one time at most:
// for the first that is not late, or else, where the schedule catches up, for the latest.
func (t Timetable) Due(next, now time.Time) (d Due) {
	var late time.Time // the latest that is late
	miss := func() {
		if late.IsZero() {
			return
		}
		if d.Count == 0 {
			d.Missed = late
		}
		d.Count = min(d.Count+1, MostMissed)
	}
	jumped := false
	for at := next; ; at = t.After(at) {
		if d.Next = at; at.IsZero() || t.At(at).After(now) {
			break
		}
		if now.Sub(t.At(at)) <= job.Grace {
			d.Fire, d.Next = at, t.After(at)
			break
		}
		miss()
		late = at
		if recent := now.Add(-t.window()); d.Count == MostMissed && !jumped && recent.After(at) {
			at, jumped = recent, true // nobody counts those between
		}
	}
	if d.Fire.IsZero() && !late.IsZero() && now.Sub(t.At(late)) <= t.settings.CatchUp() {
		d.Fire, d.Late = late, true
		return d
	}
	miss()
	return d
}

// window is how long ago a fire may have been that is not missed for good.
func (t Timetable) window() time.Duration {
	return max(job.Grace, t.settings.CatchUp()) + time.Duration(t.settings.JitterSeconds)*time.Second + time.Minute
}
