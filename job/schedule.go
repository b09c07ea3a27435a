package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds of a tenant's schedules.
const (
	MaxSchedules = 100
	// MaxScheduleBytes is how large the settings of one may be, as JSON.
	MaxScheduleBytes = 32 << 10
	// MaxJitterSeconds bounds how much later than its time a fire may be on purpose.
	MaxJitterSeconds = 3600
	// Grace is how late a fire may be until it counts as missed.
	Grace = time.Minute
	// DefaultCatchUpSeconds is how late a missed fire may be made up, unless a schedule says otherwise,
	// and MaxCatchUpSeconds what it may say at most.
	DefaultCatchUpSeconds = 24 * 3600
	MaxCatchUpSeconds     = 7 * 24 * 3600
)

// What a schedule does while the job of its last fire has not ended.
const (
	OverlapSkip   = "skip"   // no job for this fire: the default
	OverlapAllow  = "allow"  // start another beside it
	OverlapCancel = "cancel" // cancel it, and start once it has ended
	OverlapQueue  = "queue"  // start once it has ended; one fire waits, further ones are skipped
)

// What a schedule does about fires that it missed.
const (
	MissedSkip = "skip" // nothing: the default
	MissedOnce = "once" // fire once for the latest of them
)

// What the metadata of a job that a schedule started say besides [TemplateKey].
const (
	ScheduleKey = "glovebox.schedule" // the schedule's name
	FireKey     = "glovebox.fire"     // the time for which it fired, RFC 3339
)

// Schedule starts a template by the clock.
type Schedule struct {
	Name string `json:"name" example:"nightly"`
	ScheduleSettings
	NextAt    *time.Time `json:"next_at,omitempty" doc:"The next time for which it fires; absent while it is paused, and once it is over."`
	LastJob   string     `json:"last_job_id,omitempty" doc:"The job that it started last."`
	LastRun   string     `json:"last_run_id,omitempty" doc:"Of a template that is a pipeline: the run instead."`
	WaitingAt *time.Time `json:"waiting_at,omitempty" doc:"The time of a fire that waits for the last job to end."`
	LastError string     `json:"last_error,omitempty" doc:"Why its fire could not be decided or started when that was tried last. Absent once one was."`
	RetryAt   *time.Time `json:"retry_at,omitempty" doc:"When that is tried again; absent if it was given up, which the list of fires says."`
	CreatedAt time.Time  `json:"created_at"`
}

// ScheduleSettings are what a schedule does, and when.
type ScheduleSettings struct {
	Template string          `json:"template" doc:"The template that it starts: its newest revision, or with name@3 the third." example:"report"`
	Params   json.RawMessage `json:"params,omitempty" doc:"The parameters, an object. One that is left out has the schema's default."`
	// From gives parameters what only a fire knows, by pointers into {fire, schedule}.
	From           map[string]string `json:"from,omitempty" doc:"Parameters that each fire gives: /fire/time is the time for which it fires (RFC 3339), /fire/previous that of the one before or \"\", /schedule the schedule's name." example:"{\"until\": \"/fire/time\"}"`
	Callback       *Callback         `json:"callback,omitempty" doc:"In place of the template's."`
	Metadata       map[string]string `json:"metadata,omitempty" doc:"Beside the template's, and over those of the same name."`
	Cron           string            `json:"cron" doc:"Minute, hour, day of month, month and day of week, as cron has them; or @hourly, @daily, @weekly, @monthly, @yearly." example:"30 2 * * 1-5"`
	Zone           string            `json:"zone,omitempty" doc:"An IANA zone. Absent: UTC. Where its clock changes, a fixed time that is skipped fires as the clock jumps, one that comes twice the first time; with * as minute or hour a schedule follows time as it passes." example:"Europe/Berlin"`
	Overlap        string            `json:"overlap,omitempty" enum:"skip,allow,cancel,queue" doc:"While the job of its last fire has not ended: skip this fire (the default); allow another job beside it; cancel it, and start once it has ended; or queue: start once it has ended. One fire waits at most: with cancel the latest, with queue the first."`
	Missed         string            `json:"missed,omitempty" enum:"skip,once" doc:"Fires more than a minute late, as no api ran or Redis was away: skip them (the default), or fire once for the latest."`
	CatchUpSeconds int64             `json:"catch_up_seconds,omitempty" minimum:"0" doc:"With missed once: how late that may be, 60 to 604800, 86400 by default."`
	JitterSeconds  int64             `json:"jitter_seconds,omitempty" minimum:"0" doc:"Each fire is up to so many seconds later, always as many for the same time: 0 to 3600."`
	StartsAt       time.Time         `json:"starts_at,omitzero" doc:"It does not fire before."`
	EndsAt         time.Time         `json:"ends_at,omitzero" doc:"It does not fire then or later."`
	Paused         bool              `json:"paused,omitempty" doc:"It does not fire, and does not make up for that later."`
}

// Fire is what became of a time for which a schedule was to fire.
type Fire struct {
	// Time for which it is; of several that were missed, the first.
	Time time.Time `json:"time"`
	At   time.Time `json:"at" doc:"When it was decided."`
	// Outcome is one of the constants below.
	Outcome string `json:"outcome" enum:"started,skipped,queued,missed,refused,failed" doc:"started a job; was skipped, as the last job had not ended; waits for that; was missed; was refused, for the reason that is given; or failed: it was tried for a quarter of an hour, and given up for that reason."`
	Job     string `json:"job_id,omitempty"`
	Run     string `json:"run_id,omitempty" doc:"Of a template that is a pipeline: the run instead."`
	Late    bool   `json:"late,omitempty" doc:"It was missed, and made up for."`
	Manual  bool   `json:"manual,omitempty" doc:"Somebody asked for it."`
	Count   int    `json:"count,omitempty" doc:"How many were missed, from time on; 1000 stands for more, too."`
	Reason  string `json:"reason,omitempty"`
}

// The outcomes of a [Fire].
const (
	FireStarted = "started"
	FireSkipped = "skipped"
	FireQueued  = "queued"
	FireMissed  = "missed"
	FireRefused = "refused"
	FireFailed  = "failed"
)

// Skipped reports whether nothing was started for it, and nothing waits to be.
func (f Fire) Skipped() bool {
	return slices.Contains([]string{FireSkipped, FireMissed, FireRefused, FireFailed}, f.Outcome)
}

// CatchUp is how late a missed fire may be made up; 0 for not at all.
func (s ScheduleSettings) CatchUp() time.Duration {
	switch {
	case s.Missed != MissedOnce:
		return 0
	case s.CatchUpSeconds == 0:
		return DefaultCatchUpSeconds * time.Second
	}
	return time.Duration(s.CatchUpSeconds) * time.Second
}

// fireRoots are what pointers of a schedule may be.
var fireRoots = []string{"/fire/time", "/fire/previous", "/schedule"}

// Check returns what is wrong with a schedule's settings as [Invalid], or nil. It does not look at cron
// and zone, which internal/schedules reads.
func (s ScheduleSettings) Check() error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	if _, _, err := ParseTemplateRef(s.Template); err != nil {
		add("template", clip(s.Template), "is no template's name", "a template's name, or name@revision")
	}
	if overlaps := []string{"", OverlapSkip, OverlapAllow, OverlapCancel, OverlapQueue}; !slices.Contains(overlaps, s.Overlap) {
		add("overlap", clip(s.Overlap), "is not known", strings.Join(overlaps[1:], ", "))
	}
	if s.Missed != "" && s.Missed != MissedSkip && s.Missed != MissedOnce {
		add("missed", clip(s.Missed), "is not known", MissedSkip+", "+MissedOnce)
	}
	if c := s.CatchUpSeconds; c != 0 && (s.Missed != MissedOnce || c < int64(Grace/time.Second) || c > MaxCatchUpSeconds) {
		add("catch_up_seconds", c, "is out of range", fmt.Sprintf("%.0f to %d, with missed once", Grace.Seconds(), MaxCatchUpSeconds))
	}
	if s.JitterSeconds < 0 || s.JitterSeconds > MaxJitterSeconds {
		add("jitter_seconds", s.JitterSeconds, "is out of range", fmt.Sprintf("0 to %d", MaxJitterSeconds))
	}
	for field, at := range map[string]time.Time{"starts_at": s.StartsAt, "ends_at": s.EndsAt} {
		if !inJSON(at) { // the next fire is later
			add(field, at.Format(time.RFC3339), "is out of range", timesAllowed)
		}
	}
	if !s.EndsAt.IsZero() && !s.EndsAt.After(s.StartsAt) {
		add("ends_at", s.EndsAt, "is not after starts_at", "a later time")
	}
	errs = append(errs, OwnMetadata(s.Metadata)...)
	for name, pointer := range s.From {
		if !slices.Contains(fireRoots, pointer) {
			add("from."+clip(name), clip(pointer), "points at nothing of a fire", strings.Join(fireRoots, ", "))
		}
	}
	if b, err := Marshal(s); err != nil {
		add("params", nil, "is not JSON", "a JSON object")
	} else if len(b) > MaxScheduleBytes {
		add("params", fmt.Sprintf("%d bytes with the other settings", len(b)), "is too large", fmt.Sprintf("up to %d bytes", MaxScheduleBytes))
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// CheckScheduleName fails with [Invalid] for what can't be a schedule's name.
func CheckScheduleName(name string) error {
	if ValidTemplateName(name) {
		return nil
	}
	return Invalid{{"name", clip(name), "is no schedule's name", "1 to 64 lower-case letters, digits, - and _, the first of them a letter or digit"}}
}
