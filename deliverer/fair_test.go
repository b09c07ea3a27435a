package deliverer_test

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
)

var flood = flag.Int("flood", 1000, "how many deliveries one tenant has in TestManySlowHostsOfAnotherTenant")

// hanging answers nobody until the test ends, at every address of loopback: what *.a.example
// would be on the internet. It returns its port, how many attempts are under way, and how many have come.
func hanging(t *testing.T) (port string, under, come func() int) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var now, all atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else nobody is told that the sender has left
		all.Add(1)
		now.Add(1)
		defer now.Add(-1)
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(func() { close(ended); srv.Close() })
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, func() int { return int(now.Load()) }, func() int { return int(all.Load()) }
}

// takes has a job of the tenant default end and returns how long its delivery took.
func (b *bench) takes(t *testing.T, url string) time.Duration {
	t.Helper()
	start := time.Now()
	_, id := b.endOf(t, "default", url, nil)
	b.settledOf(t, "default", id, record.Delivered)
	return time.Since(start)
}

// Twelve ports that hang are a tenant's own affair, even where they could fill all places.
func TestHangingPortsOfAnotherTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.Concurrency = 16
	b.config.Sender, b.config.Grace = b.sender(t, gbtest.Patience), 50*time.Millisecond
	b.run(t)
	quick := b.receiver(t, nil)
	var ports []func() int
	for range 12 {
		port, under, _ := hanging(t)
		ports = append(ports, under)
		for range 2 {
			b.endOf(t, "acme", "http://127.0.0.1:"+port, nil)
		}
	}
	gbtest.Eventually(t, "8 attempts are under way, its share alone", func() bool {
		under := 0
		for _, n := range ports {
			under += n()
		}
		return under >= 8
	})
	for range 3 {
		if took := b.takes(t, quick.URL); took > gbtest.AtOnce { // behind one that hangs: gbtest.Patience
			t.Errorf("another tenant's delivery took %s", took)
		}
	}
}

// Thousands of deliveries of one tenant, each to a host of its own that hangs, don't hold up
// another tenant's. What it is with ten thousand, -flood 10000 says.
func TestManySlowHostsOfAnotherTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.config.Sender, b.config.Grace = b.sender(t, gbtest.Patience), 50*time.Millisecond
	b.config.Log = nil
	quick := b.receiver(t, nil)
	port, under, _ := hanging(t)
	stop := b.run(t)
	alone := []time.Duration{b.takes(t, quick.URL), b.takes(t, quick.URL), b.takes(t, quick.URL)}
	stop()
	n := *flood
	if testing.Short() {
		n = min(n, 500) // nearly four times its share
	}
	b.flood(t, "acme", port, n)
	began := time.Now()
	b.run(t)
	first := b.takes(t, quick.URL) // all of acme's came before it
	inspector := asynq.NewInspectorFromRedisClient(b.Records.Redis())
	gbtest.Eventually(t, "the tenant's share of attempts is under way", func() bool {
		queue, err := inspector.GetQueueInfo(queue.DeliveryBacklog)
		return err == nil && under() == 128 && queue.Pending < 100 // some are put off once more
	})
	passed := time.Since(began)
	var beside []time.Duration
	for range 5 {
		beside = append(beside, b.takes(t, quick.URL))
	}
	slices.Sort(alone)
	slices.Sort(beside)
	t.Logf("alone %v, behind %d %s, after %s beside them %v", alone, n, first, passed, beside)
	// Behind an attempt that hangs it would be gbtest.Patience.
	if most := max(first, beside[len(beside)-1]); most > gbtest.AtOnce {
		t.Errorf("of %d: one took %s", n, most)
	}
	if under() > 128 {
		t.Errorf("%d attempts of one tenant are under way, want at most half of 256", under())
	}
}

// flood writes deliveries of a tenant, each to an address of its own at the port, about
// one job that has ended: the first of them in line, the others of its backlog.
func (b *bench) flood(t *testing.T, tenant, port string, n int) {
	t.Helper()
	jobID, _ := b.endOf(t, tenant, "http://127.0.0.1:1/", nil)
	rdb, now := b.Records.Redis(), time.Now().UnixMilli()
	var writers errgroup.Group
	const each = 500
	for from := 0; from < n; from += each {
		writers.Go(func() error {
			pipe := rdb.Pipeline()
			ids, waiting, backlog := make([]string, each), make([]redis.Z, each), make([]bool, each)
			for i := range ids {
				k := from + i
				backlog[i] = k >= 16
				ids[i] = fmt.Sprintf("msg_%026d", k)
				waiting[i] = redis.Z{Score: float64(now), Member: ids[i]}
				pipe.HSet(t.Context(), "gb:{"+tenant+"}:delivery:"+ids[i], "job", jobID, "event", "job.completed", "state", "pending", "attempt", 1, "backlog", backlog[i],
					"url", fmt.Sprintf("http://127.1.%d.%d:%s/", k>>8, k&255, port), "created", now, "due", now)
			}
			pipe.ZAdd(t.Context(), "gb:{"+tenant+"}:outbox", waiting...)
			if _, err := pipe.Exec(t.Context()); err != nil {
				return err
			}
			for i, id := range ids {
				if err := b.Records.Queue.Enqueue(t.Context(), queue.DeliverTask(tenant, id, queue.Turn{Attempt: 1}, backlog[i], time.Time{})); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
}
