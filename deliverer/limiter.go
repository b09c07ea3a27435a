package deliverer

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
)

const (
	// The times between which the duration of an attempt is believed.
	minPace = 50 * time.Millisecond
	maxPace = 30 * time.Second
	// A delivery whose turn can't be foreseen is put off for as long as it has been due
	// already, and for longer the more there are of its tenant, within these: a hundred
	// thousand that wait for a dead host come again once an hour, and not each minute.
	minDelay = time.Minute
	maxDelay = time.Hour
	// perUndone is by how much one more delivery of the tenant puts off the others.
	perUndone = 50 * time.Millisecond
	// forgetAfter is after how many attempts idle limits are forgotten.
	forgetAfter = 1024
)

// tenantLimiter bounds the attempts that are made at once, and shares them out fairly: each
// tenant has its share, so that ten thousand hosts that hang don't hold up another tenant. How
// many may go to one endpoint at once is the records' to say.
type tenantLimiter struct {
	most int

	mu       sync.Mutex
	attempts int // since limits were forgotten last
	tenants  map[string]*limit
}

// limit is what one tenant has in flight, and when the next may begin.
type limit struct {
	active int
	// pace is how long the last attempt took, and moved when one began or ended last.
	pace  time.Duration
	moved time.Time
	// free is when the next delivery may begin, after all that were put off before.
	free time.Time
}

func newTenantLimiter(most int) *tenantLimiter {
	return &tenantLimiter{most: most, tenants: map[string]*limit{}}
}

// busyError puts a delivery off without an attempt.
type busyError struct {
	what string
	wait time.Duration
}

func (e busyError) Error() string { return fmt.Sprintf("%s is busy, next try in %s", e.what, e.wait) }

// begin begins an attempt of the tenant, where it has a place for one. end says whether
// something was sent.
func (t *tenantLimiter) begin(tenant string, now time.Time) (end func(sent bool), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetIdle(now)
	l := limitOf(t.tenants, tenant)
	if l.active >= t.share(l, now) {
		return nil, false
	}
	l.begin(now)
	return func(sent bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if !sent {
			l.active--
			return
		}
		ended := time.Now()
		l.end(ended.Sub(now), ended)
	}, true
}

// putOff says when a delivery comes again that found no place. Those that are put off come
// back one after the other, as fast as the last ones went: a backlog of thousands costs
// little while it waits.
func (t *tenantLimiter) putOff(d record.Delivery, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := limitOf(t.tenants, d.Tenant)
	return busyError{"tenant " + d.Tenant, l.delay(t.share(l, now), d, now)}
}

// share is how many attempts a tenant may have in flight: all are divided among the tenants that
// have some in flight or waiting, and one more, so that the next tenant to come finds its share free.
func (t *tenantLimiter) share(of *limit, now time.Time) int {
	busy := 2 // the tenant itself, and the one to come
	for _, l := range t.tenants {
		if l != of && l.busy(now) {
			busy++
		}
	}
	return max(t.most/busy, 1)
}

// forgetIdle forgets limits with nothing in flight or waiting, now and then.
func (t *tenantLimiter) forgetIdle(now time.Time) {
	if t.attempts++; t.attempts < forgetAfter {
		return
	}
	t.attempts = 0
	for name, l := range t.tenants {
		if !l.busy(now) {
			delete(t.tenants, name)
		}
	}
}

func limitOf(limits map[string]*limit, name string) *limit {
	l := limits[name]
	if l == nil {
		l = &limit{pace: time.Second}
		limits[name] = l
	}
	return l
}

func (l *limit) busy(now time.Time) bool { return l.active > 0 || l.free.After(now) }

func (l *limit) begin(now time.Time) {
	l.active++
	l.moved = now
}

// end notes how long an attempt took, by which deliveries that wait come earlier or later.
func (l *limit) end(took time.Duration, now time.Time) {
	l.active--
	l.moved = now
	before := l.pace
	l.pace = min(max(took, minPace), maxPace)
	if waits := l.free.Sub(now); waits > 0 {
		// No delivery was put off for longer than maxDelay, and then an idle limit is forgotten.
		l.free = now.Add(time.Duration(min(float64(waits)*float64(l.pace)/float64(before), float64(maxDelay))))
	}
}

// delay returns how long a delivery waits that found as many in flight as there may be.
func (l *limit) delay(most int, d record.Delivery, now time.Time) time.Duration {
	if l.free.Before(now) {
		l.free = now
	}
	longest := min(max(now.Sub(d.Due), time.Duration(min(d.Undone, 1<<20))*perUndone, minDelay), maxDelay)
	// Where no attempt has ended for longer than one takes, attempts take longer.
	pace := min(max(l.pace, now.Sub(l.moved)), maxPace)
	next := l.free.Add(pace / time.Duration(most))
	if wait := next.Sub(now); wait <= longest {
		l.free = next
		return wait
	}
	return longest - rand.N(longest/2) // so that those that wait longest don't come together
}

// endpointOf is the host and port of a URL, in one form.
func endpointOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "" // it fails when it is sent
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)
}
