package record

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// BenchmarkScripts measures the scripts that every job runs: how long a call takes Redis, by
// Redis's own clock, in the median and, on a machine that is busy with something else, in the
// best tenth. ns/op is what the callers wait, round trips and tasks included.
func BenchmarkScripts(b *testing.B) {
	b.Run("job", func(b *testing.B) {
		s := benchStore(b)
		for b.Loop() {
			id := job.NewID("default")
			s.benchCreate(b, id)
			j, err := s.Start(b.Context(), id, 1, "w")
			if err != nil {
				b.Fatal(err)
			}
			if err := s.End(b.Context(), j, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k"}); err != nil {
				b.Fatal(err)
			}
		}
		s.report(b)
	})
	b.Run("create=100", func(b *testing.B) {
		s := benchStore(b)
		for b.Loop() {
			ids := make([]string, createMost)
			for i := range ids {
				ids[i] = job.NewID("default")
			}
			s.benchCreate(b, ids...)
		}
		s.report(b)
	})
}

// benchedStore is a Store, and its Redis as the operator sees it.
type benchedStore struct {
	*Store
	admin *redis.Client
}

func benchStore(b *testing.B) benchedStore {
	b.Helper()
	server := gbtest.Redis(b)
	o, err := redis.ParseURL(server.Admin())
	if err != nil {
		b.Fatal(err)
	}
	admin := redis.NewClient(o)
	b.Cleanup(func() { admin.Close() })
	for name, value := range map[string]string{"appendfsync": "no", "slowlog-log-slower-than": "0", "slowlog-max-len": "1000000"} {
		if err := admin.ConfigSet(b.Context(), name, value).Err(); err != nil {
			b.Fatal(err)
		}
	}
	s, err := Open(b.Context(), Config{URL: server.URL(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return benchedStore{s, admin}
}

func (s benchedStore) benchCreate(b *testing.B, ids ...string) {
	b.Helper()
	jobs := make([]NewJob, len(ids))
	for i, id := range ids {
		jobs[i] = NewJob{ID: id, Spec: job.Spec{Runtime: "python", Source: "print(1)"}}
	}
	created, err := s.CreateMany(b.Context(), "default", jobs)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range created {
		if c.Err != nil {
			b.Fatal(c.Err)
		}
	}
}

// report tells how long each script took that ran.
func (s benchedStore) report(b *testing.B) {
	b.Helper()
	b.StopTimer()
	entries, err := s.admin.SlowLogGet(b.Context(), -1).Result()
	if err != nil {
		b.Fatal(err)
	}
	took := map[string][]time.Duration{}
	for _, e := range entries {
		if strings.EqualFold(e.Args[0], "evalsha") && scriptNames[e.Args[1]] != "" {
			took[scriptNames[e.Args[1]]] = append(took[scriptNames[e.Args[1]]], e.Duration)
		}
	}
	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(all[len(all)/10].Microseconds()), name+"-p10-µs")
	}
}
