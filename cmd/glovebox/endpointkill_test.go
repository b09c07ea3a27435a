package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// tally counts the messages of each id that an endpoint got, and answers 500 to the first of each.
type tally struct {
	*httptest.Server

	mu  sync.Mutex
	ids map[string]int
	n   int
}

func newTally(t *testing.T) *tally {
	t.Helper()
	c := &tally{ids: map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the sender may be killed
		c.mu.Lock()
		defer c.mu.Unlock()
		id := r.Header.Get("webhook-id")
		c.ids[id]++
		c.n++
		if c.ids[id] == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *tally) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// An api that is killed between attempts, and within them, loses no message, and sends none under
// another id.
func TestKilledBetweenAttempts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute: asynq's leases of tasks have to expire")
	}
	t.Parallel()
	const n = 40
	p := startAPIProcess(t, "GLOVEBOX_WEBHOOK_ALLOW=127.0.0.0/8:*", "GLOVEBOX_WEBHOOK_SCHEDULE=0s,1s,1s,1s,1s,1s,1s,1s", "GLOVEBOX_GRACE=1s")
	endpoints := map[string]*tally{}
	for range 2 {
		c := newTally(t)
		e, err := p.client.CreateEndpoint(t.Context(), job.EndpointSettings{URL: c.URL})
		if err != nil {
			t.Fatal(err)
		}
		endpoints[e.ID] = c
	}
	var ids []string
	for range n {
		r, err := p.client.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
		if err != nil {
			t.Fatal(err)
		}
		p.End(t, p.Start(t, r.ID), nil, nil)
		ids = append(ids, r.ID)
	}
	all := func() (messages int) {
		for _, c := range endpoints {
			messages += c.count()
		}
		return messages
	}
	for _, at := range []int{5, 40, 80} {
		gbtest.Eventually(t, "more messages came", func() bool { return all() >= at })
		p.Kill()
		p.Restart()
	}
	for e, c := range endpoints {
		for _, id := range ids {
			did, message := record.DeliveryID(id, job.EventCompleted, e), record.MessageID(id, job.EventCompleted)
			gbtest.Eventually(t, "the message of "+id+" is delivered", func() bool {
				d, err := p.client.GetDelivery(t.Context(), did)
				return err == nil && d.State == "delivered" && d.MessageID == message
			})
			c.mu.Lock()
			if c.ids[message] < 2 {
				t.Errorf("%s got %s %d times, want one that failed and one that did not", e, message, c.ids[message])
			}
			c.mu.Unlock()
		}
		if len(c.ids) != n {
			t.Errorf("%s got %d messages, want %d", e, len(c.ids), n)
		}
	}
	began := time.Now()
	gbtest.Eventually(t, "nothing is due", func() bool { return p.Raw.ZCard(t.Context(), "gb:{default}:outbox").Val() == 0 })
	t.Logf("%d messages for %d deliveries over three kills; settled after %s", all(), n*len(endpoints), time.Since(began).Round(time.Millisecond))
}
