package deliverer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
)

func delivery(tenant, host string, due time.Time) record.Delivery {
	return record.Delivery{Tenant: tenant, URL: "http://" + host + "/", Due: due, Undone: 1}
}

// wait is how long a delivery is put off, 0 if it may begin.
func (t *tenantLimiter) wait(tenant, host string, due, now time.Time) time.Duration {
	_, err := t.acquire(delivery(tenant, host, due), now)
	var busy busyError
	errors.As(err, &busy)
	return busy.wait
}

func TestShares(t *testing.T) {
	t.Parallel()
	p := newTenantLimiter(12, 2)
	now := time.Now()
	// into counts how many attempts a tenant gets, each at a host of its own.
	into := func(tenant string) (n int) {
		for ; p.wait(tenant, fmt.Sprint(tenant, n), now, now) == 0; n++ {
		}
		return n
	}
	if a, b, c := into("a"), into("b"), into("c"); a != 6 || b != 4 || c != 3 {
		t.Errorf("got %d, %d and %d attempts, want 6, 4 and 3 of 12", a, b, c)
	}
	// One host holds up neither the tenant's others nor another tenant's at the same host.
	p = newTenantLimiter(12, 2)
	for i, want := range []bool{true, true, false, false} {
		if got := p.wait("a", "h", now, now) == 0; got != want {
			t.Errorf("delivery %d to one host: began %v, want %v", i, got, want)
		}
	}
	if p.wait("a", "i", now, now) != 0 || p.wait("b", "h", now, now) != 0 {
		t.Error("another host, or another tenant's delivery to the same, has to wait")
	}
}

// An endpoint that hangs is believed to be slow before its first attempt has ended.
func TestEndpointThatHangs(t *testing.T) {
	t.Parallel()
	p := newTenantLimiter(256, 1)
	start := time.Now()
	if _, err := p.acquire(delivery("a", "hangs", start), start); err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]time.Duration{0: time.Second, 10 * time.Second: 10 * time.Second, time.Hour: maxPace} {
		p.endpoints["a hangs:80"].free = time.Time{}
		if got := p.wait("a", "hangs", start, start.Add(after)); got != want {
			t.Errorf("after %s: put off by %s, want %s", after, got, want)
		}
	}
}

// What waits for a dead host comes again ever more seldom: each delivery some 40 times in
// its first day, where once a minute would be 1,440 times.
func TestPutOffsGrow(t *testing.T) {
	t.Parallel()
	p := newTenantLimiter(256, 4)
	start := time.Now()
	var release []func()
	for range 4 {
		l, err := p.acquire(delivery("a", "dead", start), start.Add(-20*time.Second)) // which took 20 s
		if err != nil {
			t.Fatal(err)
		}
		release = append(release, l)
	}
	release[0]()
	if _, err := p.acquire(delivery("a", "dead", start), start); err != nil {
		t.Fatal(err)
	}
	// The first ones come as fast as attempts end.
	for i := range 4 {
		if got, want := p.wait("a", "dead", start, start), time.Duration(i+1)*5*time.Second; (got - want).Abs() > time.Second {
			t.Errorf("delivery %d: got %s, want %s", i, got, want)
		}
	}
	const others = 1000
	for range others {
		p.wait("a", "dead", start, start)
	}
	now, times := start, 0
	for ; now.Sub(start) < 24*time.Hour; times++ {
		wait := p.wait("a", "dead", start, now)
		if overdue := now.Sub(start); wait < min(max(overdue, minDelay), maxDelay)/2 || wait > max(overdue, minDelay) || wait > maxDelay {
			t.Errorf("due for %s: put off by %s", overdue, wait)
		}
		now = now.Add(wait)
		for range others {
			p.wait("a", "dead", start, now)
		}
	}
	if times > 60 {
		t.Errorf("a delivery came %d times in a day, want at most 60", times)
	}
	// The more there are of the tenant, the longer each waits from the start.
	for undone, want := range map[int64]time.Duration{1: time.Minute, 1000: time.Minute, 10_000: 500 * time.Second, 100_000: time.Hour, 1 << 60: time.Hour} {
		d := delivery("a", "dead", now)
		d.Undone = undone
		_, err := p.acquire(d, now)
		var busy busyError
		if !errors.As(err, &busy) || busy.wait < want/2 || busy.wait > want {
			t.Errorf("one of %d: put off by %s, want %s to %s", undone, busy.wait, want/2, want)
		}
	}
}

func TestIdleLimitsAreForgotten(t *testing.T) {
	t.Parallel()
	p := newTenantLimiter(256, 4)
	now := time.Now()
	for i := range 10 * forgetAfter {
		release, err := p.acquire(delivery("a", fmt.Sprint(i), now), now)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
	if n := len(p.endpoints); n > forgetAfter {
		t.Errorf("%d endpoints are remembered, want at most %d", n, forgetAfter)
	}
}

// A tenant whose last attempts took long, and that has none left, is not busy for days: each
// that is takes a share of the others' attempts.
func TestSlowLimitIsForgotten(t *testing.T) {
	t.Parallel()
	p, now := newTenantLimiter(256, 4), time.Now()
	l := limitOf(p.tenants, "acme")
	l.pace = minPace
	for range 130 {
		l.begin(now)
	}
	for range 10_000 {
		l.delay(1, record.Delivery{Undone: 10_000, Due: now}, now)
	}
	for range 130 {
		l.end(maxPace, now)
	}
	if free := l.free.Sub(now); free > maxDelay {
		t.Errorf("the next may begin in %s, want in %s at most", free, maxDelay)
	}
}
