package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/redisconn"
)

func TestSentinels(t *testing.T) {
	t.Parallel()
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: time.Minute, MaxLag: 4})
	primary := g.Primary(t)
	for _, s := range g.Servers {
		s.MayRefuse = true // the api's user asks for CONFIG
	}
	want := func(replicas int, name string, level Level, text string) {
		t.Helper()
		all := Run(t.Context(), Config{ToolsDir: t.TempDir(), Podman: []string{"/nothing"}, Redis: record.Config{URL: g.API(), Replicas: replicas}})
		for _, f := range all {
			if strings.Contains(f.Text+f.Fix, primary.Password) {
				t.Errorf("a secret is shown: %+v", f)
			}
			if f.Name == name && f.Level == level && strings.Contains(f.Text, text) {
				return
			}
		}
		t.Errorf("got %+v, want %s %s: …%s…", all, level, name, text)
	}
	want(1, "redis sentinel", OK, "3 of 3 answer, quorum 2, primary "+primary.Addr)
	want(1, "redis sentinel", Warning, "missed after 60000 ms")
	want(1, "redis replicas", OK, "2 of them count for min-replicas-to-write, 1 confirm")
	want(0, "redis replicas", Warning, "a failover loses jobs")
	want(2, "redis replicas", Warning, "wants all 2")
	want(3, "redis replicas", Problem, "no job is accepted")
	if err := set(t.Context(), g.Admin(), "min-replicas-to-write", "0"); err != nil {
		t.Fatal(err)
	}
	want(1, "redis replicas", Warning, "takes writes which are lost later")
	g.Sentinels[0].Kill()
	want(1, "redis sentinel", Warning, "2 of 3 answer")
	if err := g.Sentinel(2).Set(t.Context(), "glovebox", "down-after-milliseconds", "1000").Err(); err != nil {
		t.Fatal(err)
	}
	g.Sentinels[1].Kill()
	gbtest.Eventually(t, "the last Sentinel misses the others", func() bool {
		return g.Sentinel(2).CkQuorum(t.Context(), "glovebox").Err() != nil
	})
	want(1, "redis sentinel", Problem, "no failover is possible")
}

func TestVersionsOfValkey(t *testing.T) {
	t.Parallel()
	for version, safe := range map[string]bool{
		"7.2.4": false, "7.2.13": false, "7.2.14": true, "8.0.9": false, "8.0.10": true, "8.1.8": false, "8.1.9": true,
		"9.0.4": false, "9.0.5": true, "9.1.0": false, "9.1.1": true, "9.2.0": true,
	} {
		if ValkeyIsSafe(version) != safe {
			t.Errorf("Valkey %s: got %v", version, !safe)
		}
	}
}

// A Redis Cluster is a problem, whichever node is asked, and for whichever database.
func TestCluster(t *testing.T) {
	t.Parallel()
	for _, node := range gbtest.StartRedisCluster(t).Nodes {
		node.MayRefuse = true // the api's user asks for CONFIG
		for _, url := range []string{node.Admin(), node.API(), strings.Replace(node.Admin(), "/0?", "/1?", 1)} {
			all := Run(t.Context(), Config{ToolsDir: t.TempDir(), Podman: []string{"/nothing"}, Redis: record.Config{URL: url}})
			if f := find(t, all, "redis"); f.Level != Problem || !strings.Contains(f.Text, "Redis Cluster") || !strings.Contains(f.Text+f.Fix, "cluster mode disabled") {
				t.Errorf("got %+v, want a problem", f)
			}
		}
	}
}

// What a provider's server answers: it is Valkey, allows no CONFIG and keeps no append-only file.
func TestManagedRedis(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t, "--rename-command", "CONFIG", "", "--appendonly", "no")
	all := Run(t.Context(), Config{ToolsDir: t.TempDir(), Podman: []string{"/nothing"}, Redis: record.Config{URL: server.Admin()}})
	if f := find(t, all, "redis AOF"); f.Level != Warning || !strings.Contains(f.Text, "providers") || !strings.Contains(f.Fix, "WAIT_REPLICAS") {
		t.Errorf("got %+v, want a warning", f)
	}
	at, err := redisconn.Parse(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	client := at.Client()
	defer client.Close()
	said, err := client.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	want := info(said).field("redis_version") + " at "
	if valkey := info(said).field("valkey_version"); valkey != "" { // make test-valkey
		want = "Valkey " + valkey + " at "
	}
	if f := find(t, all, "redis"); !strings.HasPrefix(f.Text, want) {
		t.Errorf("got %+v, want %s", f, want)
	}
	r := &report{}
	r.redisServer(t.Context(), client, at.Options, info("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.9\nmaxmemory_policy:noeviction\naof_enabled:1\n"))
	if f := find(t, r.findings, "redis"); f.Level != OK || !strings.HasPrefix(f.Text, "Valkey 8.1.9 at ") {
		t.Errorf("got %+v, want Valkey's own version", f)
	}
}
