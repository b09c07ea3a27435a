package api_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// made is a token that has the form of one, of a tenant that there is not.
func made(i int) string { return fmt.Sprintf("gb_nobody%d_%s", i, strings.Repeat("a", 32)) }

// An address whose tokens are wrong has to wait, and Redis is not asked for it; those who
// have a token that was good, and other addresses, don't.
func TestWrongTokensAreThrottled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.SetFailureShare(time.Hour) // so that only the burst is looked up, however slow the machine is
	good, _ := w.tenant(t, "acme", job.Terms{})
	get := func(token string, headers ...string) answer {
		return w.do(t, "GET", "/v1/runtimes", http.NoBody, append([]string{as(token)}, headers...)...)
	}
	if a := get(good); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	reads := func() int {
		t.Helper()
		info, err := w.Records.Redis().Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`cmdstat_hgetall:calls=(\d+)`).FindStringSubmatch(info)
		n := 0
		if m != nil {
			if _, err := fmt.Sscan(m[1], &n); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	before, refused := reads(), 0
	const tries = 200
	for i := range tries {
		a := get(made(i), fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i)) // which nobody trusts
		switch a.status {
		case http.StatusUnauthorized:
			refused++
		case http.StatusTooManyRequests:
			if a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), "from this address") {
				t.Fatalf("got %v %s", a.header, a.body)
			}
		default:
			t.Fatalf("got %d %s", a.status, a.body)
		}
	}
	if refused != 20 {
		t.Errorf("%d of %d made-up tokens were looked up, want 20", refused, tries)
	}
	if n := reads() - before; n > 3*(refused+5) {
		t.Errorf("Redis was asked %d times for %d tokens that were looked up", n, refused)
	}
	for _, token := range []string{good, token} {
		if a := get(token); a.status != http.StatusOK {
			t.Errorf("a token that is good: got %d %s", a.status, a.body)
		}
	}
	a := w.do(t, "GET", "/v1/admin/tenants", http.NoBody, as(made(0)))
	if a.status != http.StatusTooManyRequests {
		t.Errorf("the admin API: got %d, want 429", a.status)
	}
}

// Behind a proxy that nobody named, or from one customer's network, others' wrong tokens keep
// out no token that is good, be it one that this process has never seen.
func TestWrongTokensOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.SetFailureShare(time.Hour)
	var good []string
	for i := range 30 {
		token, _ := w.tenant(t, fmt.Sprintf("t%d", i), job.Terms{})
		good = append(good, token)
	}
	get := func(token string) int {
		return w.do(t, "GET", "/v1/runtimes", http.NoBody, as(token)).status
	}
	for i := range 100 {
		get(made(i))
	}
	if got := get(made(100)); got != http.StatusTooManyRequests {
		t.Fatalf("a token that nobody has: got %d, want 429", got)
	}
	// Each api's sweeper lists the tenants.
	ctx, stop := context.WithCancel(t.Context())
	var sweeping sync.WaitGroup
	sweeping.Go(func() { (&record.Sweeper{Records: w.Records, Log: slog.New(slog.DiscardHandler)}).Run(ctx) })
	for deadline := time.Now().Add(time.Minute); !w.Records.KnowsTenant("t0"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the sweeper lists no tenants")
		}
	}
	stop()
	sweeping.Wait()
	for i, token := range good {
		get(made(200 + i))
		if got := get(token); got != http.StatusOK {
			t.Errorf("a good one, not seen before: got %d, want 200", got)
		}
		if got := get(token + "x"); got != http.StatusTooManyRequests {
			t.Errorf("one that isn't, of a tenant that exists: got %d, want 429", got)
		}
	}
}

// Behind a proxy that the operator trusts, who asks is whom it names, and not whom that one
// says to be.
func TestTrustedProxy(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(c *apiConfig) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}
	})
	w.api.SetFailureShare(time.Hour)
	get := func(i int, forwarded string) int {
		return w.do(t, "GET", "/v1/runtimes", http.NoBody, as(made(i)), "X-Forwarded-For: "+forwarded).status
	}
	last := 0
	for i := range 100 { // another invented hop each time
		last = get(i, fmt.Sprintf("203.0.113.%d, 198.51.100.1, 10.1.1.1", i))
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("an address that names another one each time: got %d, want 429", last)
	}
	if got := get(1, "198.51.100.2"); got != http.StatusUnauthorized {
		t.Errorf("another client of the same proxy: got %d, want 401", got)
	}
	for i, named := range []string{"198.51.100.1:40000", "203.0.113.9, 198.51.100.1:40001"} { // as some proxies name it
		if got := get(200+i, named); got != http.StatusTooManyRequests {
			t.Errorf("the first one as %s: got %d, want 429", named, got)
		}
	}
	if got := get(300, "[2001:db8:1::1]:40000"); got != http.StatusUnauthorized {
		t.Errorf("another one, with a port: got %d, want 401", got)
	}
	for i := range 100 { // all addresses of one IPv6 customer are one
		last = get(i, fmt.Sprintf("2001:db8::%x", i))
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("addresses of one network: got %d, want 429", last)
	}
}

// Wrong tokens that come all at once are no more than one after the other.
func TestWrongTokensAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.api.SetFailureShare(time.Hour)
	fresh, _ := w.tenant(t, "acme", job.Terms{})
	const clients = 400
	conns := make([]net.Conn, clients)
	for i := range conns { // all but the end
		conns[i] = w.raw(t, net.Dialer{}, "GET", "/v1/runtimes", made(i), "")
	}
	for _, c := range conns {
		if _, err := io.WriteString(c, "\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]int{}
	for _, c := range conns {
		got[status(t, c)]++
	}
	if n := got["HTTP/1.1 401 Unauthorized"]; n != 20 || got["HTTP/1.1 429 Too Many Requests"] != clients-n {
		t.Errorf("got %v, want 20 that are looked up", got)
	}
	a := w.do(t, "GET", "/v1/runtimes", http.NoBody, as(fresh))
	if wait, _ := strconv.Atoi(a.header.Get("Retry-After")); a.status != http.StatusOK && (wait < 1 || wait > 3600) {
		t.Errorf("a good token that was not seen before: got %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
}

// Who is named by a peer of a private network that nobody trusts is not believed, and the log
// says so, once.
func TestUnnamedProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		w.do(t, "GET", "/v1/runtimes", http.NoBody, as(made(i)), "X-Forwarded-For: 192.0.2.1")
	}
	if n := strings.Count(w.log.String(), "GLOVEBOX_TRUSTED_PROXIES"); n != 1 {
		t.Errorf("got %d warnings, want 1", n)
	}
}
