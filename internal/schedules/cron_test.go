package schedules

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// year are a cron's fires in 2027.
func year(t *testing.T, expression, zone string) []string {
	t.Helper()
	c, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2028, 1, 1, 0, 0, 0, 0, location)
	var fires []string
	for at := c.Next(time.Date(2027, 1, 1, 0, 0, 0, 0, location).Add(-time.Second)); at.Before(end); at = c.Next(at) {
		fires = append(fires, at.Format("2006-01-02T15:04Z"))
	}
	return fires
}

// TestSunday: it is 0 and 7, alone, in lists and at the end of ranges.
func TestSunday(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{"7": "0", "5-7": "5,6,0", "1,7": "1,0", "0-7": "0-6", "1-7/2": "1,3,5,0", "7-7": "0", "sun": "0", "*/2": "0,2,4,6"} {
		got, same := year(t, "0 12 * * "+field, ""), year(t, "0 12 * * "+want, "")
		if len(same) == 0 || !slices.Equal(got, same) {
			t.Errorf("%s: got %d fires, want the %d of %s", field, len(got), len(same), want)
		}
	}
}

// TestClockChanges has cron(8)'s rules: what fires once in an hour that is skipped or comes twice, and
// what follows time as it passes.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cron, zone string
		fires      int
		on         string // a prefix of UTC time
		want       string // the fires with it
	}{
		{"30 2 * * *", "America/New_York", 365, "2027-03-14", "2027-03-14T07:00Z"},
		{"15,45 2 * * *", "America/New_York", 729, "2027-03-14", "2027-03-14T07:00Z"},
		{"30 2 * * *", "Europe/Berlin", 365, "2027-03-28", "2027-03-28T01:00Z"},
		{"30 1 * * *", "America/New_York", 365, "2027-11-07", "2027-11-07T05:30Z"},
		{"0,30 1 * * *", "America/New_York", 730, "2027-11-07", "2027-11-07T05:00Z 2027-11-07T05:30Z"},
		{"15 2 * * *", "Australia/Lord_Howe", 365, "2027-10-02", "2027-10-02T15:30Z"},
		{"45 1 * * *", "Australia/Lord_Howe", 365, "2027-04-03", "2027-04-03T14:45Z"},
		{"0 0 * * *", "Africa/Cairo", 365, "2027-04-29", "2027-04-29T22:00Z"},
		{"30 23 * * *", "Africa/Cairo", 365, "2027-10-28", "2027-10-28T20:30Z"},
		{"0 0 * * *", "America/Santiago", 365, "2027-09-05", "2027-09-05T04:00Z"},
		{"*/15 * * * *", "America/New_York", 35040, "2027-03-14T07:0", "2027-03-14T07:00Z"},
		{"*/30 * * * *", "America/New_York", 17520, "2027-11-07T06", "2027-11-07T06:00Z 2027-11-07T06:30Z"},
		{"0 * * * *", "America/New_York", 8760, "2027-11-07T05", "2027-11-07T05:00Z"},
		{"@hourly", "Africa/Cairo", 8760, "2027-10-28T2", "2027-10-28T20:00Z 2027-10-28T21:00Z 2027-10-28T22:00Z 2027-10-28T23:00Z"},
		{"0 * * * *", "Australia/Lord_Howe", 8759, "2027-10-02T15", ""},
		{"* 2 * * *", "America/New_York", 364 * 60, "2027-03-14T07", ""},
		{"* 1 * * *", "America/New_York", 366 * 60, "2027-11-07T05:59", "2027-11-07T05:59Z"},
		{"0 0 29 2 *", "UTC", 0, "2027", ""},
		{"@yearly", "UTC", 1, "2027", "2027-01-01T00:00Z"},
		{"0 9 1 * 1", "UTC", 61, "2027-02-01", "2027-02-01T09:00Z"}, // either day; 1 Feb, Mar and Nov are Mondays
	} {
		all := year(t, c.cron, c.zone)
		var on []string
		for _, at := range all {
			if strings.HasPrefix(at, c.on) {
				on = append(on, at)
			}
		}
		if got := strings.Join(on, " "); got != c.want || len(all) != c.fires {
			t.Errorf("%s in %s: got %d fires, of %s %q; want %d, %q", c.cron, c.zone, len(all), c.on, got, c.fires, c.want)
		}
	}
}

func TestNextSkippedDay(t *testing.T) {
	t.Parallel()
	// Samoa had no 30 December 2011: its clocks jumped a day.
	c, err := Parse("0 12 * * *", "Pacific/Apia")
	if err != nil {
		t.Fatal(err)
	}
	at := c.Next(time.Date(2011, 12, 29, 22, 0, 0, 0, time.UTC)) // noon of the 29th
	if got := at.Format(time.RFC3339); got != "2011-12-30T10:00:00Z" {
		t.Errorf("got %s, want the jump", got)
	}
	if got := c.Next(at).Format(time.RFC3339); got != "2011-12-30T22:00:00Z" {
		t.Errorf("got %s, want noon of the 31st", got)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ cron, zone, field, message string }{
		{"", "", "cron", "five fields"},
		{"* * * *", "", "cron", "five fields"},
		{"0 * * * * *", "", "cron", "five fields"},
		{"60 * * * *", "", "cron", "no cron expression"},
		{"* 24 * * *", "", "cron", "no cron expression"},
		{"0 0 0 * *", "", "cron", "no cron expression"},
		{"5-1 * * * *", "", "cron", "no cron expression"},
		{"*/0 * * * *", "", "cron", "no cron expression"},
		{"0 0 30 2 *", "", "cron", "never comes"},
		{"0 0 ? * 1", "", "cron", "has ?"},
		{", * * * *", "", "cron", "between its commas"},
		{"1,,2 * * * *", "", "cron", "between its commas"},
		{"0 0 * * 1,", "", "cron", "between its commas"},
		{"0 0 * * 8", "", "cron", "no cron expression"},
		{"0 0 * * 5-8", "", "cron", "no cron expression"},
		{"0 0 * * 7/2", "", "cron", "no cron expression"},
		{"0 0 * * 5-7/0", "", "cron", "no cron expression"},
		{"0 0 */2 * 1", "", "cron", "both days"},
		{"0 0 1 * */2", "", "cron", "both days"},
		{"0 0 1,* * 1", "", "cron", "list of days"},
		{"0 0 */2,1 * *", "", "cron", "list of days"},
		{"0 0 1 * 1,*", "", "cron", "list of days"},
		{"*-5 * * * *", "", "cron", "where * begins a range"},
		{"0 * * * *-6", "", "cron", "where * begins a range"},
		{"0 0,*-6 * * *", "", "cron", "where * begins a range"},
		{"0 *-3/2 * * *", "", "cron", "where * begins a range"},
		{"*/+5 * * * *", "", "cron", "where * begins a range"},
		{"@every 5m", "", "cron", "@every"},
		{"@reboot", "", "cron", "five fields"},
		{"TZ=UTC * * * * *", "", "cron", "names a zone"},
		{"CRON_TZ=UTC * * * * *", "", "cron", "names a zone"},
		{strings.Repeat("1,", 200) + "1 * * * *", "", "cron", "too long"},
		{"* * * * *", "Local", "zone", "not known"},
		{"* * * * *", "localtime", "zone", "not known"},
		{"* * * * *", "posixrules", "zone", "not known"},
		{"* * * * *", "Factory", "zone", "not known"},
		{"* * * * *", "right/UTC", "zone", "not known"},
		{"* * * * *", "posix/UTC", "zone", "not known"},
		{"* * * * *", "Mars/Phobos", "zone", "not known"},
		{"* * * * *", "../../etc/passwd", "zone", "not known"},
		{"* * * * *", "/etc/localtime", "zone", "not known"},
	} {
		_, err := Parse(c.cron, c.zone)
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != c.field || !strings.Contains(invalid[0].Message, c.message) {
			t.Errorf("%q in %q: got %v, want %s: %s", c.cron, c.zone, err, c.field, c.message)
		}
	}
	for _, good := range []string{"0 0 29 2 *", "0 0 */2 * *", "0 0 * * MON-FRI", "0 0 1 JAN *", "@Hourly", " 5  4 * * * ", "*/15,7 */2 * * *"} {
		if _, err := Parse(good, "Europe/Berlin"); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// FuzzNext: a fire is later than what it is asked after, none is skipped, and except for a jump the zone's
// clock shows a minute that the expression means.
func FuzzNext(f *testing.F) {
	f.Add("30 2 * * *", "America/New_York", int64(1804900000))
	f.Add("*/7 1-3 * * *", "Australia/Lord_Howe", int64(1807000000))
	f.Add("0 0 * * *", "Africa/Cairo", int64(1808900000))
	f.Add("@weekly", "Pacific/Apia", int64(1325100000))
	f.Add("59 23 31 12 5", "America/Santiago", int64(1800000000))
	f.Fuzz(func(t *testing.T, expression, zone string, unix int64) {
		c, err := Parse(expression, zone)
		if err != nil {
			return
		}
		from := time.Unix(unix%(1<<32), 0) // until 2106
		at := c.Next(from)
		if at.IsZero() {
			return
		}
		if !at.After(from) || at.Second() != 0 && offset(at.In(c.zone))%time.Minute == 0 {
			t.Fatalf("%q in %s after %s: got %s", expression, zone, from, at)
		}
		if between := c.Next(from.Add(at.Sub(from) / 2)); !between.Equal(at) {
			t.Fatalf("%q in %s: %s after %s, and %s after a time between", expression, zone, at, from, between)
		}
		wall := wallOf(at.In(c.zone))
		meant := c.minutes.Next(wall.Add(-time.Second)).Equal(wall)
		start, _ := at.In(c.zone).ZoneBounds()
		if !meant && (c.elapsed || !start.Equal(at)) {
			t.Fatalf("%q in %s after %s: got %s, when the clock shows %s", expression, zone, from, at, wall.Format("Jan 2 15:04 Mon"))
		}
	})
}
