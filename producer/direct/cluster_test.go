package direct_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// A Redis Cluster is refused before anything is written to it.
func TestOpenRefusesACluster(t *testing.T) {
	t.Parallel()
	w, cluster := producertest.New(t, ""), gbtest.StartRedisCluster(t)
	client, err := direct.Open(t.Context(), direct.Config{RedisURL: cluster.Nodes[2].API(), S3: w.S3Spec})
	if err == nil {
		client.Close()
	}
	if !errors.Is(err, await.ErrSettings) || !strings.Contains(err.Error(), "Redis Cluster is not supported") {
		t.Errorf("got %v", err)
	}
	if n, err := cluster.Client(t).DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("it has %d keys, %v", n, err)
	}
}
