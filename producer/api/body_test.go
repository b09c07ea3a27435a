package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// raw sends the beginning of a request over a connection of its own.
func (w *world) raw(t *testing.T, d net.Dialer, method, path, token, rest string) net.Conn {
	t.Helper()
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(w.srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: glovebox\r\nAuthorization: Bearer %s\r\n%s", method, path, token, rest); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Two tenants announce as many small bodies as they may, and send none. Others, the operator
// who disables them among them, are served, and who pauses is sent away.
func TestPausedBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	victim, _ := w.tenant(t, "victim", job.Terms{})
	const each = 128
	var first net.Conn
	w.api.SetSmallTime(gbtest.AtOnce) // all of them have come by then
	for _, name := range []string{"one", "two"} {
		attacker, _ := w.tenant(t, name, job.Terms{})
		for range each {
			conn := w.raw(t, net.Dialer{}, "POST", "/v1/jobs", attacker, "Content-Type: application/json\r\nContent-Length: 65536\r\n\r\n{")
			if first == nil {
				first = conn
			}
		}
		gbtest.Eventually(t, name+" has its share", func() bool {
			return w.submit(t, `{"runtime":"python","source":"`+strings.Repeat("#", 60_000)+`"}`, as(attacker)).status == http.StatusTooManyRequests
		})
	}
	if a := w.submit(t, `{"runtime":"python","source":"1"}`, as(victim)); a.status != http.StatusAccepted {
		t.Errorf("another tenant's job: got %d %s", a.status, a.body)
	}
	if a := w.admin(t, "PUT", "/tenants/one", `{"revision":1,"terms":{"disabled":true}}`); a.status != http.StatusOK {
		t.Errorf("disable a tenant: got %d %s", a.status, a.body)
	}
	if err := first.SetReadDeadline(time.Now().Add(gbtest.Patience)); err != nil {
		t.Fatal(err)
	}
	if status, err := bufio.NewReader(first).ReadString('\n'); !strings.Contains(status, "408") {
		t.Errorf("who pauses: got %q, %v", status, err)
	}
}

// The operator's bodies have memory for the largest that grows.
func TestAdminBodyOfNoLength(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"name":"acme","terms":{}}` + strings.Repeat(" ", 1_000_000)
	conn := w.raw(t, net.Dialer{}, "POST", "/v1/admin/tenants", adminToken,
		fmt.Sprintf("Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body))
	if status, err := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(status, "201") {
		t.Errorf("got %q, %v", status, err)
	}
}
