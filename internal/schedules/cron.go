// Package schedules says when a schedule fires: which instants a cron expression means in a zone, with
// cron(8)'s rules where clocks change, and what is to be done about one at a given time. It has no clock,
// no Redis and no random, so that two processes that ask the same get the same answer. Start at [Parse]
// and [Next].
package schedules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a container may have no zones of its own

	"github.com/robfig/cron/v3"

	"github.com/glovebox-run/glovebox/job"
)

// maxCron is how long an expression may be, bytes.
const maxCron = 256

// maxPeriods bounds how many changes of the clock a search for the next fire passes: some 20 years of them.
const maxPeriods = 40

// Cron is a cron expression in a zone.
type Cron struct {
	// minutes finds wall-clock minutes. It is asked in UTC alone, where no clock changes.
	minutes cron.Schedule
	// elapsed says that minute or hour begin with *: such a job follows time as it passes.
	elapsed bool
	zone    *time.Location
}

// named are the expressions that have names. @every and @reboot are none: they depend on when a process
// began.
var named = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// everyOf is an item of a list that begins with *, as cron(8) has it.
var everyOf = regexp.MustCompile(`^\*(/[0-9]+)?$`)

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Parse reads a cron expression of five fields, or one of the names, in an IANA zone; "" is UTC. It fails
// with job.Invalid, also for an expression that never fires.
func Parse(expression, zone string) (Cron, error) {
	const allowed = "minute, hour, day of month, month, day of week, such as 30 2 * * 1-5; or @hourly, @daily, @weekly, @monthly, @yearly"
	refuse := func(message, allowed string) (Cron, error) {
		return Cron{}, job.Invalid{{Field: "cron", Value: job.Clip(expression, 64), Message: message, Allowed: allowed}}
	}
	if zone == "" {
		zone = "UTC"
	}
	location, err := time.LoadLocation(zone)
	if err != nil || unportable(zone) {
		return Cron{}, job.Invalid{{Field: "zone", Value: job.Clip(zone, 64), Message: "is not known", Allowed: "an IANA zone such as Europe/Berlin, or UTC"}}
	}
	text := expression
	if full, ok := named[strings.ToLower(expression)]; ok {
		text = full
	}
	fields := strings.Fields(text)
	switch {
	case len(text) > maxCron:
		return refuse("is too long", fmt.Sprintf("up to %d bytes", maxCron))
	case strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ="):
		return refuse("names a zone", "five fields; the zone is a field of its own")
	case strings.HasPrefix(text, "@every"):
		return refuse("has @every, which begins anew with each process", "five fields, such as */15 * * * *")
	case len(fields) != 5:
		return refuse("does not have five fields", allowed)
	case anyAmong(fields[2]) || anyAmong(fields[4]):
		return refuse("has * in a list of days: crons differ in whether that means any day, or lets the other field decide", "* alone, or a list of days")
	case strings.HasPrefix(fields[2], "*/") && !unrestricted(fields[4]), strings.HasPrefix(fields[4], "*/") && !unrestricted(fields[2]):
		return refuse("restricts both days, one of them by */: crons differ in whether that means both or either", "*/ in one of the two, and * in the other")
	}
	for _, field := range fields {
		items := strings.Split(field, ",")
		wrong := slices.IndexFunc(items, func(item string) bool { return strings.HasPrefix(item, "*") && !everyOf.MatchString(item) })
		switch {
		case wrong >= 0: // the parser takes *-5 for *
			return refuse("has "+job.Clip(items[wrong], 20)+", where * begins a range", "* alone, or with a step: */15")
		case strings.Contains(field, "?"):
			return refuse("has ?, which cron(8) doesn't know", "* for any day")
		case slices.Contains(items, ""):
			return refuse("has a list with nothing between its commas", "a list such as 1,15,30")
		}
	}
	fields[4] = sundays(fields[4])
	minutes, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return refuse("is no cron expression: "+job.Clip(err.Error(), 120), allowed)
	}
	c := Cron{minutes: minutes, elapsed: strings.HasPrefix(fields[0], "*") || strings.HasPrefix(fields[1], "*"), zone: location}
	if c.Next(time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)).IsZero() { // a leap year: 29 February is to come
		return refuse("never comes", "a day that a month has")
	}
	return c, nil
}

// unportable reports whether a zone is none of IANA's: what its name means may differ from one host to the next, as that of
// the host's own zone does, or follows another clock than UTC's.
func unportable(zone string) bool {
	return slices.Contains([]string{"Local", "localtime", "posixrules", "Factory"}, zone) || strings.HasPrefix(zone, "right/") || strings.HasPrefix(zone, "posix/")
}

// anyAmong reports whether a field is a list with * in it.
func anyAmong(field string) bool { return strings.Contains(field, ",") && strings.Contains(field, "*") }

// unrestricted reports whether a field of days leaves the other to decide.
func unrestricted(field string) bool { return field == "*" }

// sundays returns a field of week days in which Sunday is 0 where it was 7: crontab(5) takes both, the parser one.
// What is no such field stays as it is, for the parser to refuse.
func sundays(field string) string {
	var list []string
	for item := range strings.SplitSeq(field, ",") {
		days, step, stepped := strings.Cut(item, "/")
		from, to, ranged := strings.Cut(days, "-")
		first, err := strconv.Atoi(from)
		by := 1
		if err == nil && stepped {
			by, err = strconv.Atoi(step)
		}
		switch {
		case item == "7":
			item = "0"
		case ranged && to == "7" && err == nil && first >= 0 && first <= 7 && by > 0:
			var each []string
			for day := first; day <= 7; day += by {
				each = append(each, strconv.Itoa(day%7))
			}
			item = strings.Join(each, ",")
		}
		list = append(list, item)
	}
	return strings.Join(list, ",")
}

// Next is the first fire after t, or zero where none is to come within some years.
//
// A job at fixed times whose minute the clock skips fires once, as the clock jumps; one whose minute comes
// twice fires the first time. One with * as its minute or hour follows time as it passes: it has no fire in
// an hour that is skipped, and fires in both of one that comes twice. (cron(8) has it so.)
func (c Cron) Next(t time.Time) time.Time {
	if c.elapsed {
		return c.nextElapsed(t)
	}
	for wall := wallOf(t.In(c.zone)); ; {
		if wall = c.minutes.Next(wall); wall.IsZero() {
			return time.Time{}
		}
		// No earlier minute can be meant: until t the clock has shown each, or jumped over it.
		if at := firstInstant(wall, c.zone); at.After(t) {
			return at
		}
	}
}

// nextElapsed looks in one period between two changes of the clock after the other: within each, wall
// clock and time go alike.
func (c Cron) nextElapsed(t time.Time) time.Time {
	from := t.In(c.zone)
	for range maxPeriods {
		wall := c.minutes.Next(wallOf(from))
		if wall.IsZero() {
			return time.Time{}
		}
		at := wall.Add(-offset(from))
		_, end := from.ZoneBounds()
		if end.IsZero() || at.Before(end) {
			return at
		}
		if wall := wallOf(end.In(c.zone)); c.minutes.Next(wall.Add(-time.Second)).Equal(wall) {
			return end.UTC() // the clock jumped to just this minute
		}
		from = end.In(c.zone)
	}
	return time.Time{}
}

// firstInstant is when a clock of the zone first shows that minute, or the instant of the jump if it never
// does. wall is in UTC.
func firstInstant(wall time.Time, zone *time.Location) time.Time {
	near := wall.In(zone) // within a day of it, as offsets are
	start, end := near.ZoneBounds()
	jumps := []time.Time{start, end}
	offsets := []time.Duration{offset(near)}
	if !start.IsZero() {
		earlier, _ := start.Add(-time.Nanosecond).In(zone).ZoneBounds()
		jumps = append(jumps, earlier)
		offsets = append(offsets, offset(start.Add(-time.Nanosecond).In(zone)))
	}
	if !end.IsZero() {
		_, later := end.In(zone).ZoneBounds()
		jumps = append(jumps, later)
		offsets = append(offsets, offset(end.In(zone)))
	}
	var first time.Time
	for _, o := range offsets {
		if at, ok := shows(wall, o, zone); ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if !first.IsZero() {
		return first
	}
	for _, jump := range jumps {
		if jump.IsZero() {
			continue
		}
		before, after := wallOf(jump.Add(-time.Nanosecond).In(zone)), wallOf(jump.In(zone))
		if before.Before(wall) && wall.Before(after) {
			return jump.UTC()
		}
	}
	return wall.Add(-offsets[0]) // unreachable with zones as they are: a minute is shown, or jumped over
}

// shows returns the instant at which a clock with that offset shows wall, and whether the zone's does.
func shows(wall time.Time, o time.Duration, zone *time.Location) (time.Time, bool) {
	at := wall.Add(-o)
	return at, offset(at.In(zone)) == o
}

// wallOf is what a clock shows, as a time in UTC.
func wallOf(t time.Time) time.Time { return t.UTC().Add(offset(t)) }

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
