// Package artifactstest puts a bad network between a test and an S3 server: slow,
// refusing, answering for a server that is overloaded, or breaking off in the middle of
// a body.
package artifactstest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/time/rate"
)

// chunk is how much passes at a time; small, so that a slow line is slow and not bursty.
const chunk = 8 << 10

// Proxy is a TCP proxy whose faults are switched while it runs.
type Proxy struct {
	// URL is that of the target, through the proxy.
	URL string

	target   string
	listener net.Listener
	limiter  *rate.Limiter
	refuse   atomic.Bool
	overload atomic.Bool
	// A connection that sent resetAfter bytes is reset, while resets is above 0.
	resetAfter, resets atomic.Int64
	passed             atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

// Throttle starts a proxy to target (a URL or host:port) that passes bytesPerSecond in
// all, both directions together; 0 means no limit. It ends with the test.
func Throttle(tb testing.TB, target string, bytesPerSecond int) *Proxy {
	tb.Helper()
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		target = u.Host
	}
	ctx, cancel := context.WithCancel(context.Background())
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		tb.Fatalf("start proxy: %v", err)
	}
	p := &Proxy{
		URL: "http://" + l.Addr().String(), target: target, listener: l,
		limiter: rate.NewLimiter(rate.Inf, chunk), conns: map[net.Conn]struct{}{},
	}
	p.SetRate(bytesPerSecond)
	p.wg.Add(1)
	go p.accept(ctx)
	tb.Cleanup(func() {
		cancel()
		l.Close()
		p.Refuse(true)
		p.wg.Wait()
	})
	return p
}

// SetRate changes the speed; 0 means no limit.
func (p *Proxy) SetRate(bytesPerSecond int) {
	limit := rate.Inf
	if bytesPerSecond > 0 {
		limit = rate.Limit(bytesPerSecond)
	}
	p.limiter.SetLimit(limit)
}

// Refuse makes new connections fail at once, and ends those there are.
func (p *Proxy) Refuse(refuse bool) {
	p.refuse.Store(refuse)
	if refuse {
		p.Cut()
	}
}

// Overload makes every request be answered with 503 SlowDown, as S3 does to a client that asks
// too much. Connections there are end.
func (p *Proxy) Overload(overload bool) {
	p.overload.Store(overload)
	p.Cut()
}

// Reset makes the next times connections be reset (RST) when each has sent more than
// after bytes towards the target.
func (p *Proxy) Reset(after int64, times int) {
	p.resetAfter.Store(after)
	p.resets.Store(int64(times))
}

// Cut ends every connection there is.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

// Passed is how many bytes went through so far, both directions together.
func (p *Proxy) Passed() int64 { return p.passed.Load() }

func (p *Proxy) accept(ctx context.Context) {
	defer p.wg.Done()
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go p.serve(ctx, c)
	}
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer p.wg.Done()
	if p.refuse.Load() {
		reset(client)
		return
	}
	if p.overload.Load() {
		p.track(client)
		slowDown(client)
		p.untrack(client)
		return
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	// A large receive buffer would take megabytes at full speed before it throttles.
	_ = client.(*net.TCPConn).SetReadBuffer(4 * chunk)
	p.track(client, server)
	var both sync.WaitGroup
	both.Go(func() { p.copy(ctx, server, client, true) })
	both.Go(func() { p.copy(ctx, client, server, false) })
	both.Wait()
	p.untrack(client, server)
}

// slowDown answers every request of a connection.
func slowDown(c net.Conn) {
	const body = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
	for r := bufio.NewReader(c); ; {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		answer := fmt.Sprintf("HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n", len(body))
		if request.Method != http.MethodHead {
			answer += body
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// copy passes bytes until one side ends; up is the direction to the target.
func (p *Proxy) copy(ctx context.Context, dst, src net.Conn, up bool) {
	buf := make([]byte, chunk)
	var sent int64
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if p.limiter.WaitN(ctx, n) != nil {
				break
			}
			if _, werr := dst.Write(buf[:n]); werr != nil {
				break
			}
			p.passed.Add(int64(n))
			sent += int64(n)
			if up && sent > p.resetAfter.Load() && p.resets.Add(-1) >= 0 {
				reset(src)
				reset(dst)
				return
			}
		}
		if errors.Is(err, io.EOF) {
			_ = dst.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil {
			break
		}
	}
	src.Close()
	dst.Close()
}

func (p *Proxy) track(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	if p.refuse.Load() { // Cut came first
		for _, c := range conns {
			reset(c)
		}
	}
}

func (p *Proxy) untrack(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
		c.Close()
	}
}

// reset closes with RST rather than FIN.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}
