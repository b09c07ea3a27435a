package redisconn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
)

// Every node of a Cluster is refused, whichever role asks and for whichever database, with what to do instead.
func TestAClusterIsRefused(t *testing.T) {
	t.Parallel()
	for _, node := range gbtest.StartRedisCluster(t).Nodes {
		for _, url := range []string{node.API(), node.Worker(), node.Admin(), strings.Replace(node.API(), "/0?", "/1?", 1)} {
			_, err := redisconn.Open(t.Context(), url)
			if !errors.Is(err, await.ErrSettings) || !strings.Contains(err.Error(), "Redis Cluster is not supported") || !strings.Contains(err.Error(), "cluster mode disabled") || strings.Contains(err.Error(), node.Password) {
				t.Errorf("got %v", err)
			}
		}
	}
}

// Why a Cluster is refused (docs/adr/0063-cluster.md): this holds of a Cluster, and none of it may hold where Glovebox runs.
func TestWhatAClusterBreaks(t *testing.T) {
	t.Parallel()
	c := gbtest.StartRedisCluster(t)
	all := c.Client(t)

	t.Log("a worker waits at several lists at once")
	if err := all.BLPop(t.Context(), 0, "gb:bell:jobs", "gb:bell:jobs:python").Err(); !redis.HasErrorPrefix(err, "CROSSSLOT") {
		t.Errorf("got %v", err)
	}

	t.Log("the key that a script of ours is given is never there, so while its slot moves it runs where the tenant's keys are not yet")
	prefix := script.Key("default", "")
	accept := redis.NewScript("if redis.call('SETNX', KEYS[1] .. 'idem:x', '1') == 0 then return 'known' end return 'accepted'")
	run := func(rdb redis.Scripter) (string, error) { return accept.Run(t.Context(), rdb, []string{prefix}).Text() }
	for _, want := range []string{"accepted", "known"} {
		if got, err := run(all); err != nil || got != want {
			t.Fatalf("before: got %s, %v, want %s", got, err, want)
		}
	}
	owner := c.Move(t, prefix)
	if got, err := run(all); err != nil || got != "accepted" {
		t.Errorf("a second time: got %s, %v; if it is known, this reason against a Cluster is gone", got, err)
	}

	t.Log("a client of that node alone gets no answer until the slot has moved")
	at, err := redisconn.Parse(owner.Admin())
	if err != nil {
		t.Fatal(err)
	}
	alone := at.Client()
	defer alone.Close()
	if _, err := run(alone); !redis.HasErrorPrefix(err, "ASK") {
		t.Errorf("got %v", err)
	}
}
