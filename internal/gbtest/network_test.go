package gbtest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// asks has a host ask the URL every 100 ms, and print the status of each answer, or that none came.
const asks = `
import sys, time, urllib.request
while True:
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=1).status, flush=True)
    except OSError:
        print("none", flush=True)
    time.sleep(0.1)`

func TestNetwork(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer server.Close()
	n := StartNetwork(t)
	addr := n.Open(server.Listener.Addr().String())
	if _, err := dial("tcp", addr); err == nil {
		t.Errorf("%s is reached from outside of the network", addr)
	}
	var hosts []*NetworkHost
	for range 2 {
		hosts = append(hosts, n.Start([]string{"python3", "-c", asks, "http://" + addr}, nil))
	}
	outside := n.Start([]string{"python3", "-c", asks, server.URL}, nil)
	says := func(h *NetworkHost, word string) {
		t.Helper()
		from := strings.Count(h.Output(), "\n") + 1 // one may be on its way
		Eventually(t, "it says "+word, func() bool {
			lines := strings.Split(strings.TrimSpace(h.Output()), "\n")
			return len(lines) > from && lines[len(lines)-1] == word
		})
	}
	says(hosts[0], "200")
	says(hosts[1], "200")
	hosts[0].Cut()
	says(hosts[0], "none")
	says(hosts[1], "200")
	hosts[0].Mend()
	says(hosts[0], "200")
	if says(outside, "none"); outside.Printed("200") {
		t.Error("a host reached what nobody opened")
	}
}

// TestNetworkDrops: a connection that is open when the cable is pulled stays so, and goes on.
func TestNetworkDrops(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := StartNetwork(t)
	host, port, _ := net.SplitHostPort(n.Open(l.Addr().String()))
	h := n.Start([]string{"python3", "-c", `
import socket, sys, time
while True:
    try:
        s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
        break
    except OSError:
        time.sleep(0.05)
for line in s.makefile("r"):
    print("got", line, end="", flush=True)
    s.sendall(line.encode())
print("closed", flush=True)`, host, port}, nil)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send := func(line string) {
		t.Helper()
		if _, err := io.WriteString(c, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	send("one")
	Eventually(t, "the first line is there", func() bool { return h.Printed("got one") })
	h.Cut()
	send("two")
	if h.Printed("got two") || h.Printed("closed") {
		t.Errorf("it was cut off, and printed %q", h.Output())
	}
	h.Mend()
	Eventually(t, "the second line is there", func() bool { return h.Printed("got two") })
	if h.Printed("closed") {
		t.Errorf("the connection was closed: %q", h.Output())
	}
}
