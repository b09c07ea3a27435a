package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
)

// Each token that nobody has costs a look into Redis, so an address may be wrong only so
// often (ADR 26): failureBurst times at once, then once each failureShare.
const (
	failureBurst = 20
	failureShare = 3 * time.Second
	// failurePatience is how long a token waits for others of its address to be looked up.
	failurePatience = 2 * time.Second
	// proxyWarning is how often the log says that there may be a proxy that nobody named.
	proxyWarning = time.Hour
	// maxAddresses bounds what is remembered of addresses.
	maxAddresses = 10_000
)

// failures counts, by address, requests whose token nobody has.
type failures struct {
	share time.Duration // failureShare, except in tests

	mu sync.Mutex
	of map[netip.Prefix]*tries
}

// tries are those of one address.
type tries struct {
	// whole is when the address has its burst again, as of a GCRA. A token that is being
	// looked up counts as wrong, until it is known: else as many could be at once as come.
	whole   time.Time
	open    int           // are being looked up
	decided chan struct{} // closed when one of them is known; nil where nobody waits
}

// lookup is a token that is being looked up.
type lookup struct {
	failures *failures
	from     netip.Prefix
	tries    *tries
}

// enter lets a token be looked up, or says how long it has to wait. Where that depends on
// others that are being looked up it waits for them: many that come at once may all be good.
func (f *failures) enter(ctx context.Context, from netip.Prefix) (l lookup, wait time.Duration) {
	l = lookup{failures: f, from: from}
	decided, wait := l.try(time.Now())
	if decided == nil {
		return l, wait
	}
	late := time.NewTimer(failurePatience)
	defer late.Stop()
	for decided != nil {
		select {
		case <-decided:
		case <-late.C:
			return l, wait
		case <-ctx.Done():
			return l, wait
		}
		decided, wait = l.try(time.Now())
	}
	return l, wait
}

// try lets the token through, or says how long it has to wait, and what may change that; nil
// for nothing.
func (l *lookup) try(now time.Time) (decided <-chan struct{}, wait time.Duration) {
	f := l.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.triesOf(l.from, now)
	if wait = max(t.whole.Sub(now)-(failureBurst-1)*f.share, 0); wait == 0 {
		t.whole = t.whole.Add(f.share)
		t.open++
		l.tries = t
		return nil, 0
	}
	if t.open == 0 {
		return nil, wait
	}
	if t.decided == nil {
		t.decided = make(chan struct{})
	}
	return t.decided, wait
}

// triesOf returns an address's, whose whole is not in the past.
func (f *failures) triesOf(from netip.Prefix, now time.Time) *tries {
	if t := f.of[from]; t != nil {
		if t.whole.Before(now) {
			t.whole = now
		}
		return t
	}
	if len(f.of) >= maxAddresses {
		for address, t := range f.of {
			if t.open == 0 && !t.whole.After(now) {
				delete(f.of, address)
			}
		}
	}
	if f.of == nil || len(f.of) >= maxAddresses { // from so many at once that none is known from another
		f.of = map[netip.Prefix]*tries{}
	}
	t := &tries{whole: now}
	f.of[from] = t
	return t
}

// wrong notes that nobody has the token, and reports whether that is the last one that is
// let through for now.
func (l lookup) wrong(now time.Time) (last bool) {
	f := l.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	t := l.tries
	t.decide()
	return t.whole.Sub(now)-time.Duration(t.open)*f.share > (failureBurst-1)*f.share
}

// notWrong notes that somebody has the token, or that it can't be said.
func (l lookup) notWrong() {
	l.failures.mu.Lock()
	defer l.failures.mu.Unlock()
	l.tries.whole = l.tries.whole.Add(-l.failures.share)
	l.tries.decide()
}

// decide notes that one is known, and wakes who waits for that.
func (t *tries) decide() {
	t.open--
	if t.decided != nil {
		close(t.decided)
		t.decided = nil
	}
}

// address is where the request comes from: its peer, or where the peer is a proxy that the
// operator trusts, whom that names.
func (a *API) address(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap()
	header := r.Header.Values("X-Forwarded-For")
	if len(header) > 0 && (address.IsPrivate() || address.IsLoopback()) && !a.trusts(address) {
		a.warnOfProxy(r.Context(), address)
	}
	named := strings.Split(strings.Join(header, ","), ",")
	for i := len(named) - 1; i >= 0 && a.trusts(address); i-- { // each proxy adds its peer behind what it was sent
		next, err := parseHop(strings.TrimSpace(named[i]))
		if err != nil {
			break
		}
		address = next.Unmap()
	}
	return address
}

// parseHop reads an address, with a port as some proxies add it.
func parseHop(text string) (netip.Addr, error) {
	if hop, err := netip.ParseAddrPort(text); err == nil {
		return hop.Addr(), nil
	}
	return netip.ParseAddr(text)
}

// warnOfProxy says, now and then, that all who come through a proxy count as one.
func (a *API) warnOfProxy(ctx context.Context, peer netip.Addr) {
	now, before := time.Now().UnixNano(), a.warned.Load()
	if now-before < int64(proxyWarning) || !a.warned.CompareAndSwap(before, now) {
		return
	}
	a.log.WarnContext(ctx, "requests name others in X-Forwarded-For, which is not believed: if their peer is a proxy of yours, name it in GLOVEBOX_TRUSTED_PROXIES, or all who come through it are slowed down together",
		"peer", peer.String())
}

func (a *API) trusts(proxy netip.Addr) bool {
	for _, p := range a.proxies {
		if p.Contains(proxy) {
			return true
		}
	}
	return false
}

// source is what an address counts as: itself, or in IPv6 the network that one customer has.
func source(address netip.Addr) netip.Prefix {
	bits := 32
	if address.Is6() {
		bits = 64
	}
	p, _ := address.Prefix(bits) // the zero value for no address
	return p
}

// tooManyFailures tells a client to come back later.
func tooManyFailures(wait time.Duration) error {
	p := newProblem(job.CodeRateLimited, "too many requests from this address had a token that nobody has")
	return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {fmt.Sprint(seconds(wait))}})
}
