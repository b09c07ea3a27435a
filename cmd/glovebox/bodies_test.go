package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// sender is a client that sends a large body and pauses before its end.
type sender struct {
	conn net.Conn
	rest []byte // of the body
}

// send sends a request with a body of so many bytes, up to its last KiB, or until the api
// takes no more of it.
func (p *apiProcess) send(tb testing.TB, token, path, mediaType string, body []byte) *sender {
	tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		tb.Error(err)
		return &sender{}
	}
	tb.Cleanup(func() { conn.Close() })
	cut := len(body) - 1<<10
	s := &sender{conn: conn, rest: body[cut:]}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: glovebox\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, token, mediaType, len(body))
	if err := conn.SetDeadline(time.Now().Add(gbtest.Patience)); err != nil {
		tb.Error(err)
	}
	// The bodies are not copied: 40 copies took so long that the api gave up waiting for the head.
	_, _ = io.WriteString(conn, head)
	_, _ = conn.Write(body[:cut]) // who is refused can't send all of it
	return s
}

// finish sends the rest and returns what was answered.
func (s *sender) finish(tb testing.TB) *http.Response {
	tb.Helper()
	_, _ = s.conn.Write(s.rest) // who was refused has no reader any more
	res, err := http.ReadResponse(bufio.NewReader(s.conn), nil)
	if err != nil {
		return nil // the refusal was lost with what the api didn't read
	}
	res.Body.Close()
	return res
}

// 40 clients of one tenant, or half of them, send 33 MiB each, and pause before the end: jobs, then
// batches of one job. The api keeps what it may of them, and serves others.
func TestMemoryOfBodies(t *testing.T) {
	t.Parallel()
	const most = 512 << 20
	clients := 40
	if testing.Short() {
		clients = 20 // 680 MB
	}
	p := startAPIProcess(t)
	attacker, other := p.tenant(t, "attacker"), p.tenant(t, "other")
	client, err := producer.New(p.url, other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if _, err := client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"}); err != nil {
		t.Fatal(err) // so that what is made once is made
	}
	before, _ := p.memory(t)
	// Valid, and as long when it is stored as when it is sent.
	body := []byte(`{"runtime":"python","limits":{"source_kb":16384},"source":"` + strings.Repeat(`\u003c`, 5_700_000) + `"}`)
	for _, c := range []struct{ path, mediaType string }{{"/v1/jobs", "application/json"}, {"/v1/batches", producer.LinesMediaType}} {
		began := time.Now()
		senders := make([]*sender, clients)
		var sending sync.WaitGroup
		for i := range senders {
			sending.Go(func() { senders[i] = p.send(t, attacker, c.path, c.mediaType, body) })
		}
		sending.Wait()
		for range 20 {
			if _, err := client.Submit(t.Context(), job.Spec{Runtime: "python", Source: strings.Repeat("#", 50_000)}); err != nil {
				t.Errorf("%s: a job of another tenant: %v", c.path, err)
			}
		}
		// One as large as the attacker's is served, too.
		large := job.Spec{Runtime: "python", Source: strings.Repeat("#", 15<<20), Limits: job.Limits{SourceKB: 16384}}
		if _, err := client.Submit(t.Context(), large); err != nil {
			t.Errorf("%s: a large job of another tenant: %v", c.path, err)
		}
		_, paused := p.memory(t)
		answers := map[int]int{}
		var mu sync.Mutex
		for _, s := range senders {
			sending.Go(func() {
				res := s.finish(t) //nolint:bodyclose // it closes it
				mu.Lock()
				defer mu.Unlock()
				if res == nil {
					answers[0]++
					return
				}
				answers[res.StatusCode]++
				if res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "" {
					t.Errorf("%s: a refusal has no Retry-After", c.path)
				}
			})
		}
		sending.Wait()
		_, peak := p.memory(t)
		t.Logf("%s: %d bodies of %.1f MB in %.1f s, answered %v: the api had %.1f MB before, %.1f MB while they paused, %.1f MB at most",
			c.path, clients, float64(len(body))/1e6, time.Since(began).Seconds(), answers, float64(before)/1e6, float64(paused)/1e6, float64(peak)/1e6)
		if peak > most {
			t.Errorf("%s: the api had %d bytes of memory, want at most %d", c.path, peak, most)
		}
		// A minute is how long a body may take, and those that were accepted paused while others were served.
		if answers[http.StatusAccepted] == 0 && time.Since(began) < time.Minute {
			t.Errorf("%s: got %v, want some accepted", c.path, answers)
		}
	}
}

// tenant makes a tenant and returns a token of it.
func (p *apiProcess) tenant(tb testing.TB, name string) string {
	tb.Helper()
	admin, err := producer.New(p.url, adminToken)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { admin.Close() })
	if _, err := admin.CreateTenant(tb.Context(), name, job.Terms{}); err != nil {
		tb.Fatal(err)
	}
	token, err := admin.AddToken(tb.Context(), name, producer.TokenRequest{})
	if err != nil {
		tb.Fatal(err)
	}
	return token.Secret
}
