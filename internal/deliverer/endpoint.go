package deliverer

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// The times between which an endpoint's pace is believed.
	minPace = 50 * time.Millisecond
	maxPace = 30 * time.Second
	// maxBusy bounds how long a delivery is put off because its endpoint is busy.
	maxBusy = time.Minute
)

// endpoints bounds how many attempts are under way at each host and port.
type endpoints struct {
	mu   sync.Mutex
	most int
	by   map[string]*endpoint
}

// endpoint is one host and port with attempts under way.
type endpoint struct {
	under int
	// pace is how long the last attempt took.
	pace time.Duration
	// free is when a slot may be free for whoever comes next, those counted who were
	// put off before.
	free time.Time
}

func newEndpoints(most int) endpoints {
	return endpoints{most: most, by: map[string]*endpoint{}}
}

// busyError puts a delivery off without an attempt.
type busyError struct {
	host string
	wait time.Duration
}

func (e busyError) Error() string {
	return fmt.Sprintf("endpoint %s is busy, next try in %s", e.host, e.wait)
}

// enter takes a slot at an endpoint, or fails with a busyError. Deliveries that are
// put off come back one after the other, as fast as the endpoint took the last ones:
// a backlog of thousands costs little while it waits.
func (e *endpoints) enter(host string, now time.Time) (leave func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.by[host]
	if p == nil {
		p = &endpoint{pace: time.Second}
		e.by[host] = p
	}
	if p.under >= e.most {
		if p.free.Before(now) {
			p.free = now
		}
		p.free = p.free.Add(p.pace / time.Duration(e.most))
		wait := min(p.free.Sub(now), maxBusy)
		if wait == maxBusy {
			p.free = now.Add(maxBusy)
		}
		return nil, busyError{host, wait}
	}
	p.under++
	return func() { e.leave(host, p, time.Since(now)) }, nil
}

func (e *endpoints) leave(host string, p *endpoint, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.under--
	p.pace = min(max(took, minPace), maxPace)
	if p.under == 0 && p.free.Before(time.Now()) {
		delete(e.by, host)
	}
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
