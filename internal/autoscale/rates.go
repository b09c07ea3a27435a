package autoscale

import (
	"math"
	"time"
)

// How fast what was seen is forgotten. Of the rates at which jobs come, the larger counts: the quick one
// follows a rise, the slow one keeps a lull from looking like the end.
const (
	quickHalf = time.Minute
	slowHalf  = 5 * time.Minute
)

// mostSilence is for how long figures hold. After it nobody knows what came between.
const mostSilence = 2 * time.Minute

// rates are how many jobs come, of each tenant, and how long they run.
type rates struct {
	at      time.Time
	came    time.Time // when a job came last
	tenants map[string]*rate
	busy    float64 // slot seconds, forgotten by halves in slowHalf
	ended   float64 // jobs, likewise
}

// rate counts jobs that came, forgotten by halves.
type rate struct {
	quick, slow        float64
	outstanding, ended int64 // when it was looked at last
	seen               bool
}

// see adds what has happened since the last look. It reports false where that is too long ago, or there was none.
func (r *rates) see(l Load) bool {
	since := l.At.Sub(r.at)
	known := !r.at.IsZero() && since > 0 && since <= mostSilence
	r.at = l.At
	if r.tenants == nil || since > mostSilence {
		r.tenants = map[string]*rate{}
	}
	r.busy *= kept(since, slowHalf)
	r.ended *= kept(since, slowHalf)
	for _, x := range r.tenants {
		x.quick *= kept(since, quickHalf)
		x.slow *= kept(since, slowHalf)
		x.seen = false
	}
	for _, t := range l.Tenants {
		x, there := r.tenants[t.Name]
		if !there {
			x = &rate{ended: t.Ended}
			r.tenants[t.Name] = x
		}
		x.seen = true
		ended := t.Ended - x.ended
		if ended < 0 { // it began again
			ended = t.Ended
		}
		outstanding := t.Queued + t.Running
		if known {
			came := float64(max(outstanding-x.outstanding+ended, 0)) // less than none were cancelled
			if came > 0 {
				r.came = l.At
			}
			x.quick += came * kept(since/2, quickHalf) // on average they came in the middle
			x.slow += came * kept(since/2, slowHalf)
			r.busy += float64(t.Running) * since.Seconds()
			r.ended += float64(ended)
		}
		x.outstanding, x.ended = outstanding, t.Ended
	}
	for name, x := range r.tenants {
		if !x.seen && x.slow < 0.01 {
			delete(r.tenants, name)
		}
	}
	return known
}

// kept is what is left of 1 after that time, if a half is after half.
func kept(after, half time.Duration) float64 {
	return math.Exp2(-max(after, 0).Seconds() / half.Seconds())
}

// perSecond is how many jobs of it come.
func (x *rate) perSecond() float64 {
	return math.Ln2 * max(x.quick/quickHalf.Seconds(), x.slow/slowHalf.Seconds())
}

// service is how long a job runs: by Little's law, the slots in use for each that ends a second. What was
// assumed weighs as much as one job.
func (r *rates) service(assumed time.Duration) time.Duration {
	return time.Duration((r.busy + assumed.Seconds()) / (r.ended + 1) * float64(time.Second))
}
