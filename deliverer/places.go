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
	// The times between which a line's pace is believed.
	minPace = 50 * time.Millisecond
	maxPace = 30 * time.Second
	// A delivery whose turn can't be foreseen is put off for as long as it has been due
	// already, and for longer the more there are of its tenant, within these: a hundred
	// thousand that wait for a dead host come again once an hour, and not each minute.
	minPutOff = time.Minute
	maxPutOff = time.Hour
	// perUndone is by how much one more delivery of the tenant puts off the others.
	perUndone = 50 * time.Millisecond
	// tidyAfter is after how many entries lines that nobody stands in are forgotten.
	tidyAfter = 1024
)

// places are where attempts are made. They are shared out fairly: each tenant has its
// share of them, and at each host and port no more than a few of its places, so that
// neither a host that hangs nor ten thousand of them hold up another tenant.
type places struct {
	most, perEndpoint int

	mu        sync.Mutex
	entries   int // since lines were forgotten last
	tenants   map[string]*line
	endpoints map[string]*line // by tenant and host
}

// line is what one tenant, or one endpoint of it, has under way, and who waits.
type line struct {
	under int
	// pace is how long the last attempt took, and moved when one began or ended last.
	pace  time.Duration
	moved time.Time
	// free is when a place may be free for whoever comes next, those counted who were
	// put off before.
	free time.Time
}

func newPlaces(most, perEndpoint int) *places {
	return &places{most: most, perEndpoint: perEndpoint, tenants: map[string]*line{}, endpoints: map[string]*line{}}
}

// busyError puts a delivery off without an attempt.
type busyError struct {
	what string
	wait time.Duration
}

func (e busyError) Error() string { return fmt.Sprintf("%s is busy, next try in %s", e.what, e.wait) }

// enter takes a place for an attempt that is due, or fails with a busyError. Deliveries
// that are put off come back one after the other, as fast as the last ones went: a backlog
// of thousands costs little while it waits.
func (p *places) enter(d record.Delivery, now time.Time) (leave func(), err error) {
	host := endpointOf(d.URL)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tidy(now)
	of, at := lineOf(p.tenants, d.Tenant), lineOf(p.endpoints, d.Tenant+" "+host)
	if share := p.share(of, now); of.under >= share {
		return nil, busyError{"tenant " + d.Tenant, of.putOff(share, d, now)}
	}
	if at.under >= p.perEndpoint {
		return nil, busyError{"endpoint " + host, at.putOff(p.perEndpoint, d, now)}
	}
	of.enter(now)
	at.enter(now)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		left := time.Now()
		of.leave(left.Sub(now), left)
		at.leave(left.Sub(now), left)
	}, nil
}

// share is how many places a tenant may have: all are divided among the tenants that have
// something under way or waiting, and one more, who finds its own free when it comes.
func (p *places) share(of *line, now time.Time) int {
	active := 2 // the tenant itself, and the one to come
	for _, l := range p.tenants {
		if l != of && l.busy(now) {
			active++
		}
	}
	return max(p.most/active, 1)
}

// tidy forgets lines in which nobody stands, now and then.
func (p *places) tidy(now time.Time) {
	if p.entries++; p.entries < tidyAfter {
		return
	}
	p.entries = 0
	for _, lines := range []map[string]*line{p.tenants, p.endpoints} {
		for name, l := range lines {
			if !l.busy(now) {
				delete(lines, name)
			}
		}
	}
}

func lineOf(lines map[string]*line, name string) *line {
	l := lines[name]
	if l == nil {
		l = &line{pace: time.Second}
		lines[name] = l
	}
	return l
}

func (l *line) busy(now time.Time) bool { return l.under > 0 || l.free.After(now) }

func (l *line) enter(now time.Time) {
	l.under++
	l.moved = now
}

// leave notes how long an attempt took, by which the line becomes shorter or longer.
func (l *line) leave(took time.Duration, now time.Time) {
	l.under--
	l.moved = now
	before := l.pace
	l.pace = min(max(took, minPace), maxPace)
	if waits := l.free.Sub(now); waits > 0 {
		// Nobody was put off for longer, and a line in which nobody stands is forgotten.
		l.free = now.Add(time.Duration(min(float64(waits)*float64(l.pace)/float64(before), float64(maxPutOff))))
	}
}

// putOff says how long a delivery waits that found all places of a line taken.
func (l *line) putOff(places int, d record.Delivery, now time.Time) time.Duration {
	if l.free.Before(now) {
		l.free = now
	}
	most := min(max(now.Sub(d.Due), time.Duration(min(d.Undone, 1<<20))*perUndone, minPutOff), maxPutOff)
	// Where nothing has moved for longer than an attempt takes, attempts take longer.
	pace := min(max(l.pace, now.Sub(l.moved)), maxPace)
	next := l.free.Add(pace / time.Duration(places))
	if wait := next.Sub(now); wait <= most {
		l.free = next
		return wait
	}
	return most - rand.N(most/2) // so that those at the end of the line don't come together
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
