package record

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// TestSpoiledByAWorker: submissions, keys and lists go on, and slots are what living workers say.
func TestSpoiledByAWorker(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"SET gb:slots:total x", "SET gb:slots:total 4611686018427387904", "SET gb:slots:total 4611686018427387904 EX 1", "SET gb:slots:total -1 EX 1",
		"SET gb:slots:total 7", "SET gb:slots:total 7 EX 1000000", "HSET gb:slots:total a b",
		"HSET gb:slots w x", "HSET gb:slots w 4611686018427387904", "HSET gb:slots w -5",
		"HSET gb:runtimes evil x", `HSET gb:runtimes evil {"name":"bash"}`, `HSET gb:runtimes evil {"name":"evil","seen_at":"2999-01-01T00:00:00Z"}`,
		"HSET gb:keys evil x", `HSET gb:keys evil {"id":"evil"}`, "HSET gb:images evil x", "HSET gb:images evil 32472144000000",
		"HSET gb:secretkeys evil x", `HSET gb:secretkeys evil {"public":"AAAA","seen_at":"2999-01-01T00:00:00Z"}`,
		"SET gb:{acme}:queued x", "SET gb:{acme}:stored x", "SET gb:{acme}:recorded x", "HSET gb:{acme}:queued a b", "HSET gb:{acme}:stored a b", "HSET gb:{acme}:recorded a b",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			r := openRoles(t)
			ctx := t.Context()
			keys, err := secrets.ParseKeys(secrets.NewKey())
			if err != nil {
				t.Fatal(err)
			}
			k := publicKey(t)
			say := func() error {
				return errors.Join(
					r.worker.Fleet.Beat(ctx, fleet.Worker{ID: "w2", Concurrency: 3}), r.worker.Fleet.PublishRuntimes(ctx, []fleet.Runtime{{Name: "bash"}}),
					r.worker.Fleet.PublishImages(ctx, []string{"image"}), r.worker.Fleet.PublishKey(ctx, k), r.worker.Fleet.PublishSecretsKey(ctx, keys.Public()),
					r.worker.rdb.Set(ctx, workerKey("w"), "{}", time.Minute).Err(), // it lives
				)
			}
			if _, err := r.api.CreateTenant(ctx, "acme", job.Terms{Quotas: job.Quotas{JobsQueued: 9, BytesQueued: 1 << 20, BytesStored: 1 << 20}}); err != nil {
				t.Fatal(err)
			}
			if err := say(); err != nil {
				t.Fatal(err)
			}
			var args []any
			for _, word := range strings.Fields(command) {
				args = append(args, word)
			}
			r.must(t, args...)
			if err := r.api.CheckRoom(ctx, "acme", 1); err != nil {
				t.Error(err)
			}
			id := job.NewID("acme")
			if err := r.api.Create(ctx, id, job.Spec{Runtime: "bash"}, ""); err != nil {
				t.Error(err)
			}
			if err := say(); err != nil {
				t.Error(err)
			}
			if list, err := r.api.Fleet.Runtimes(ctx); err != nil || len(list) != 1 {
				t.Errorf("runtimes: got %v, %v", list, err)
			}
			if list, err := r.api.Fleet.Images(ctx); err != nil || len(list) != 1 {
				t.Errorf("images: got %v, %v", list, err)
			}
			if list, err := r.api.Fleet.Keys(ctx); err != nil || len(list) != 1 {
				t.Errorf("keys: got %v, %v", list, err)
			}
			if got, err := r.api.Fleet.SecretsKey(ctx); err != nil || got.ID != keys.Public().ID {
				t.Errorf("key for secrets: got %s, %v", got.ID, err)
			}
			if slots, err := r.api.slots(ctx); err != nil || slots != 3 {
				t.Errorf("got %d slots, %v, want 3", slots, err)
			}
			if list, err := r.api.Tenants(ctx); err != nil || len(list) != 1 {
				t.Errorf("tenants: got %v, %v", list, err)
			}
			if n := r.admin.ZCard(ctx, openKey("acme")).Val(); n != 1 {
				t.Errorf("%d jobs are released, want 1", n)
			}
			j, err := r.worker.Start(ctx, id, 1, "w2")
			if err == nil {
				err = r.worker.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}"), Stored: 5})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSpoiledHashes: what is no hash is one again once a worker says something.
func TestSpoiledHashes(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	for _, k := range []string{runtimesKey, imagesKey, keysKey, secretsKeysKey, slotsKey} {
		r.must(t, "SET", k, "x")
	}
	if err := r.api.Create(ctx, job.NewID("acme"), job.Spec{Runtime: "bash"}, ""); err != nil {
		t.Error(err)
	}
	if err := errors.Join(r.worker.Fleet.PublishRuntimes(ctx, []fleet.Runtime{{Name: "bash"}}), r.worker.Fleet.PublishImages(ctx, []string{"image"}),
		r.worker.Fleet.PublishKey(ctx, publicKey(t)), r.worker.Fleet.Beat(ctx, fleet.Worker{ID: "w", Concurrency: 3})); err != nil {
		t.Error(err)
	}
	runtimes, err := r.api.Fleet.Runtimes(ctx)
	keys, keysErr := r.api.Fleet.Keys(ctx)
	if err := errors.Join(err, keysErr); err != nil || len(runtimes) != 1 || len(keys) != 1 {
		t.Errorf("got %v, %v, %v", runtimes, keys, err)
	}
}

// TestForgetOfNothing: a batch has no bytes in the bucket, and gives none back.
func TestForgetOfNothing(t *testing.T) {
	t.Parallel()
	s, ctx := store(t), t.Context()
	s.rdb.HSet(ctx, script.Key("default", "kept"), "b", "0 1 0")
	s.rdb.Set(ctx, storedKey("default"), 95, 0)
	if err := s.forget(ctx, "default", "b", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.stored(ctx, "default"); err != nil || n != 95 {
		t.Errorf("%d bytes are stored, %v, want 95", n, err)
	}
}

// queueKey is a key of asynq's.
func queueKey(queue, rest string) string { return "asynq:{" + queue + "}:" + rest }

// TestNoTaskInATasksPlace: asynq puts off the whole queue for what is no hash.
func TestNoTaskInATasksPlace(t *testing.T) {
	t.Parallel()
	w, _ := sweeping(t)
	s, ctx := w.Records, t.Context()
	id := s.mustCreate(t, "default", "")
	if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
		t.Fatal(err)
	}
	s.rdb.Set(ctx, queueKey("normal", "t:"+id+".1"), "x", 0)
	w.forward(time.Minute)
	if err := w.sweepOpen(ctx, "default"); err != nil {
		t.Error(err)
	}
	if got := tasks(t, s, "normal"); !slices.Equal(got, []string{id + ".1"}) {
		t.Errorf("got tasks %v", got)
	}
}

// poisons are what a worker may do to a key of that type, most of it to all that is in it.
func (r roles) poisons(t *testing.T, ks []string, others []string) map[string]func() {
	t.Helper()
	all := map[string]func(){}
	each := func(name string, do func(k string)) {
		all[name] = func() {
			for _, k := range ks {
				do(k)
			}
		}
	}
	again := func(k string, command ...any) {
		r.must(t, "DEL", k)
		r.must(t, command...)
	}
	switch r.admin.Type(t.Context(), ks[0]).Val() {
	case "string":
		for _, v := range []string{"x", "-1", "4611686018427387904", "1e400"} {
			each(v, func(k string) { r.must(t, "SET", k, v) })
		}
	case "hash":
		for _, v := range []string{"", " ", "x", "-1", "9223372036854775807", "nan"} {
			each("fields "+v, func(k string) {
				for _, f := range r.admin.HKeys(t.Context(), k).Val() {
					r.must(t, "HSET", k, f, v)
				}
				r.must(t, "HSET", k, "evil", v, others[0], v)
			})
		}
		for _, f := range []string{"priority", "created", "epoch", "state"} {
			each("no "+f, func(k string) { r.must(t, "HDEL", k, f) })
		}
	case "zset":
		for _, score := range []string{"-inf", "1", "9007199254740993"} {
			each("members at "+score, func(k string) {
				for _, m := range slices.Concat(others, []string{"", " ", "evil", "tenant", "secrets", "upload:../x", "msg_x", job.NewID("acme"), job.NewBatchID("acme"), strings.Repeat("x", 1<<16)}) {
					r.must(t, "ZADD", k, score, m)
				}
			})
		}
	case "list":
		each("element", func(k string) { r.must(t, "RPUSH", k, "evil", " ", "") })
	case "stream":
		each("entry", func(k string) { r.must(t, "XADD", k, "*", "evil", "x") })
	}
	if r.admin.Type(t.Context(), ks[0]).Val() != "string" {
		each("a string", func(k string) { again(k, "SET", k, "x") })
	}
	each("a hash", func(k string) { again(k, "HSET", k, "evil", "x") })
	each("a set", func(k string) { again(k, "SADD", k, "evil") })
	return all
}
