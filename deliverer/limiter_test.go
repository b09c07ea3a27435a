package deliverer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
)

func delivery(tenant string, due time.Time) record.Delivery {
	return record.Delivery{Tenant: tenant, Due: due, Undone: 1}
}

// wait is how long a delivery is put off, 0 if it may begin.
func (t *tenantLimiter) wait(d record.Delivery, now time.Time) time.Duration {
	if _, ok := t.begin(d.Tenant, now); ok {
		return 0
	}
	var busy busyError
	errors.As(t.putOff(d, now), &busy)
	return busy.wait
}

func TestShares(t *testing.T) {
	t.Parallel()
	p := newTenantLimiter(12)
	now := time.Now()
	// into counts how many attempts a tenant gets.
	into := func(tenant string) (n int) {
		for ; p.wait(delivery(tenant, now), now) == 0; n++ {
		}
		return n
	}
	if a, b, c := into("a"), into("b"), into("c"); a != 6 || b != 4 || c != 3 {
		t.Errorf("got %d, %d and %d attempts, want 6, 4 and 3 of 12", a, b, c)
	}
}

// A tenant whose attempts hang is believed to be slow before the first has ended.
func TestAttemptsThatHang(t *testing.T) {
	t.Parallel()
	p := newTenantLimiter(2)
	start := time.Now()
	if _, ok := p.begin("a", start); !ok {
		t.Fatal("the first attempt finds no place")
	}
	for after, want := range map[time.Duration]time.Duration{0: time.Second, 10 * time.Second: 10 * time.Second, time.Hour: maxPace} {
		p.tenants["a"].free = time.Time{}
		if got := p.wait(delivery("a", start), start.Add(after)); got != want {
			t.Errorf("after %s: put off by %s, want %s", after, got, want)
		}
	}
}

// What waits for a place comes again ever more seldom: each delivery some 40 times in
// its first day, where once a minute would be 1,440 times.
func TestPutOffsGrow(t *testing.T) {
	t.Parallel()
	p := newTenantLimiter(8)
	start := time.Now()
	var end []func(bool)
	for range 4 {
		e, ok := p.begin("a", start.Add(-20*time.Second)) // which took 20 s
		if !ok {
			t.Fatal("got no place, want four")
		}
		end = append(end, e)
	}
	end[0](true)
	if _, ok := p.begin("a", start); !ok {
		t.Fatal("the place of one that has ended is taken")
	}
	// The first ones come as fast as attempts end.
	for i := range 4 {
		if got, want := p.wait(delivery("a", start), start), time.Duration(i+1)*5*time.Second; (got - want).Abs() > time.Second {
			t.Errorf("delivery %d: got %s, want %s", i, got, want)
		}
	}
	const others = 1000
	for range others {
		p.wait(delivery("a", start), start)
	}
	now, times := start, 0
	for ; now.Sub(start) < 24*time.Hour; times++ {
		wait := p.wait(delivery("a", start), now)
		if overdue := now.Sub(start); wait < min(max(overdue, minDelay), maxDelay)/2 || wait > max(overdue, minDelay) || wait > maxDelay {
			t.Errorf("due for %s: put off by %s", overdue, wait)
		}
		now = now.Add(wait)
		for range others {
			p.wait(delivery("a", start), now)
		}
	}
	if times > 60 {
		t.Errorf("a delivery came %d times in a day, want at most 60", times)
	}
	// The more there are of the tenant, the longer each waits from the start.
	for undone, want := range map[int64]time.Duration{1: time.Minute, 1000: time.Minute, 10_000: 500 * time.Second, 100_000: time.Hour, 1 << 60: time.Hour} {
		d := delivery("a", now)
		d.Undone = undone
		if got := p.wait(d, now); got < want/2 || got > want {
			t.Errorf("one of %d: put off by %s, want %s to %s", undone, got, want/2, want)
		}
	}
}

func TestIdleLimitsAreForgotten(t *testing.T) {
	t.Parallel()
	p := newTenantLimiter(256)
	now := time.Now()
	for i := range 10 * forgetAfter {
		end, ok := p.begin(fmt.Sprint(i), now)
		if !ok {
			t.Fatalf("tenant %d gets no place", i)
		}
		end(i%2 == 0)
	}
	if n := len(p.tenants); n > forgetAfter {
		t.Errorf("%d tenants are remembered, want at most %d", n, forgetAfter)
	}
}

// A tenant whose last attempts took long, and that has none left, is not busy for days: each
// that is takes a share of the others' attempts.
func TestSlowLimitIsForgotten(t *testing.T) {
	t.Parallel()
	p, now := newTenantLimiter(256), time.Now()
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
