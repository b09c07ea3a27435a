package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/producer"
)

// Each token that nobody has costs a look into Redis, so an address may be wrong only so
// often (ADR 26): failureBurst times at once, then once each failureShare.
const (
	failureBurst = 20
	failureShare = 3 * time.Second
	// maxAddresses bounds what is remembered of addresses.
	maxAddresses = 10_000
	// maxProven bounds what is remembered of tokens.
	maxProven = 10_000
)

// failures counts, by address, requests whose token nobody has.
type failures struct {
	mu    sync.Mutex
	whole map[netip.Prefix]time.Time // when an address has its burst again, as of a GCRA
	// proven are hashes of tokens that were good: they are let through although others who
	// come from there, by the same proxy, say, are wrong.
	proven map[TokenHash]struct{}
}

// wait is how long a request has to wait whose token may be wrong; 0 for one that is let through.
func (f *failures) wait(from netip.Prefix, token TokenHash, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.proven[token]; ok {
		return 0
	}
	whole, ok := f.whole[from]
	if !ok {
		return 0
	}
	return max(whole.Sub(now)-(failureBurst-1)*failureShare, 0)
}

// wrong notes that nobody has the token, and reports whether that is the last one that is
// let through for now.
func (f *failures) wrong(from netip.Prefix, token TokenHash, now time.Time) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.proven, token)
	if len(f.whole) >= maxAddresses {
		for address, whole := range f.whole {
			if !whole.After(now) {
				delete(f.whole, address)
			}
		}
	}
	if f.whole == nil || len(f.whole) >= maxAddresses { // from so many at once that none is known from another
		f.whole = map[netip.Prefix]time.Time{}
	}
	whole := f.whole[from]
	if whole.Before(now) {
		whole = now
	}
	f.whole[from] = whole.Add(failureShare)
	return f.whole[from].Sub(now) > (failureBurst-1)*failureShare
}

// right notes that somebody has the token.
func (f *failures) right(token TokenHash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.proven == nil || len(f.proven) >= maxProven {
		f.proven = map[TokenHash]struct{}{}
	}
	f.proven[token] = struct{}{}
}

// address is where the request comes from: its peer, or where the peer is a proxy that the
// operator trusts, whom that names.
func (a *API) address(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address := peer.Addr().Unmap()
	named := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(named) - 1; i >= 0 && a.trusts(address); i-- { // each proxy adds its peer behind what it was sent
		next, err := netip.ParseAddr(strings.TrimSpace(named[i]))
		if err != nil {
			break
		}
		address = next.Unmap()
	}
	return address
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
	p := newProblem(http.StatusTooManyRequests, producer.CodeRateLimited, "too many requests from this address had a token that nobody has")
	return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {fmt.Sprint(seconds(wait))}})
}
