package api_test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// deaf is a client whose kernel takes as little of an answer as it can.
var deaf = net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2048)
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1000)
	})
}}

// binary is output that JSON makes six times as long.
var binary = strings.Repeat("\x01", 64<<10)

// large submits a job whose result has 768 KiB as JSON.
func (w *world) large(t *testing.T, token string) (id string) {
	t.Helper()
	var j job.Summary
	a := w.submit(t, `{"runtime":"python","source":"1"}`, as(token))
	if err := json.Unmarshal(a.body, &j); err != nil || a.status != http.StatusAccepted {
		t.Fatalf("submit: got %d %s, %v", a.status, a.body, err)
	}
	w.End(t, w.Start(t, j.ID), nil, func(r *job.Result) { r.Stdout, r.Stderr = binary, binary })
	return j.ID
}

// status is the first line of an answer.
func status(t *testing.T, conn net.Conn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(gbtest.AtOnce)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

// A tenant that asks for large results and reads none gets so many, and others are served. It
// is not parallel, as it measures the process's memory.
func TestUnreadAnswers(t *testing.T) {
	w := newWorld(t)
	w.Runtimes(t)
	w.api.SetAnswerTime(20 * time.Second)
	victim, _ := w.tenant(t, "victim", job.Terms{})
	attacker, _ := w.tenant(t, "attacker", job.Terms{})
	theirs, own := w.large(t, attacker), w.large(t, victim)
	_, b, _ := w.batch(t, producer.LinesMediaType, line, as(attacker))
	w.End(t, w.Start(t, job.ItemID(b.ID, 0)), nil, func(r *job.Result) { r.Stdout, r.Stderr = binary, binary })
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	const clients, most = 200, 40 << 20
	paths := []string{"/v1/jobs/" + theirs, "/v1/jobs/" + theirs, "/v1/jobs/" + theirs + "/stdout", "/v1/jobs/" + theirs + "/events", "/v1/batches/" + b.ID + "/results"}
	var conns []net.Conn
	for i := range clients {
		conns = append(conns, w.raw(t, deaf, "GET", paths[i%len(paths)], attacker, "\r\n"))
	}
	gbtest.Eventually(t, "the tenant has its share", func() bool {
		a := w.do(t, "GET", "/v1/jobs/"+theirs, http.NoBody, as(attacker))
		return a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != ""
	})
	if a := w.do(t, "GET", "/v1/jobs/"+own, http.NoBody, as(victim)); a.status != http.StatusOK || len(a.body) < 6*2*len(binary) {
		t.Errorf("another tenant's result: got %d, %d bytes", a.status, len(a.body))
	}
	if a := w.do(t, "GET", "/v1/runtimes", http.NoBody, as(attacker)); a.status != http.StatusOK {
		t.Errorf("something small of the tenant itself: got %d", a.status)
	}
	after := heap()
	if after > before+most {
		t.Errorf("%d answers that nobody reads take %d MiB, want %d at most", clients, (after-before)>>20, most>>20)
	}
	got := map[string]int{}
	for _, c := range conns {
		got[status(t, c)]++
	}
	t.Logf("%d MiB held; the clients were answered %v", (int64(after)-int64(before))>>20, got)
	// A client that reads nothing is disconnected, and what was held for it is free again.
	gbtest.Eventually(t, "the tenant is served again", func() bool {
		return w.do(t, "GET", "/v1/jobs/"+theirs, http.NoBody, as(attacker)).status == http.StatusOK
	})
}

// A client that takes an answer slowly gets all of it, for longer than one may pause.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Runtimes(t)
	const pause = 3 * time.Second
	w.api.SetAnswerTime(pause)
	id := w.large(t, token)
	got, took, longest, err := w.readSlowly(t, id, 2*pause)
	for try := 1; try < 5 && err != nil && longest > pause/3; try++ { // a busy machine kept the client from reading
		got, took, longest, err = w.readSlowly(t, id, 2*pause)
	}
	if err != nil || got < 6*2*len(binary) || took < pause {
		t.Errorf("got %d bytes after %s, %v, with a pause of %s", got, took, err, longest)
	}
}

// readSlowly reads a large result within about that time. It returns how much it got, how long that took, and the client's
// longest pause.
func (w *world) readSlowly(t *testing.T, id string, about time.Duration) (got int, took, longest time.Duration, err error) {
	t.Helper()
	began := time.Now()
	conn := w.raw(t, deaf, "GET", "/v1/jobs/"+id, token, "\r\n")
	chunk, end := make([]byte, 4<<10), ""
	for last := began; ; {
		if err := conn.SetReadDeadline(time.Now().Add(gbtest.AtOnce)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(chunk)
		now := time.Now()
		got, longest, last = got+n, max(longest, now.Sub(last)), now
		const lastChunk = "0\r\n\r\n"
		end += string(chunk[:n])
		if end = end[max(len(end)-len(lastChunk), 0):]; err != nil || end == lastChunk {
			return got, now.Sub(began), longest, err
		}
		time.Sleep(time.Until(began.Add(about * time.Duration(got) / time.Duration(6*2*len(binary)))))
	}
}
