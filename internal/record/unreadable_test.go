package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/queue/queuetest"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// roles are an api's store and a worker's, each as its user in Redis, and the client of an operator.
type roles struct {
	server      *gbtest.RedisServer
	api, worker *Store
	admin       *redis.Client
}

func openRoles(t *testing.T) roles {
	t.Helper()
	server := gbtest.Redis(t)
	o, err := redis.ParseURL(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	r := roles{server: server, admin: redis.NewClient(o)}
	t.Cleanup(func() { r.admin.Close() })
	r.api, r.worker = r.open(t, server.API()), r.open(t, server.Worker())
	return r
}

func (r roles) open(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{URL: url, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// must sends a command as the worker's user.
func (r roles) must(t *testing.T, command ...any) {
	t.Helper()
	if err := r.worker.rdb.Do(t.Context(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

// TestDeputyDeletesWhatIsLent: a worker names in lent what only the api could delete.
func TestDeputyDeletesWhatIsLent(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx, names := t.Context(), []string{"tenant", "secrets", "webhook"}
	if _, err := r.api.CreateTenant(ctx, "acme", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	r.admin.HSet(ctx, "gb:{acme}:secrets", "API", "{}")
	r.admin.HSet(ctx, "gb:{acme}:webhook", "generation", 3)
	for i, name := range names {
		r.must(t, "ZADD", "gb:{acme}:lent", i, name)
		r.must(t, "HSET", "gb:{acme}:lent:bytes", name, 1)
	}
	r.must(t, "ZADD", "gb:{acme}:lent", 9, "jobs") // of which no bytes are counted
	r.must(t, "ZADD", "gb:{acme}:garbage", 1, job.NewID("acme"))
	w, _ := sweepingOver(r.api)
	if err := w.sweepGarbage(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if r.admin.Exists(ctx, script.Key("acme", name)).Val() == 0 {
			t.Errorf("%s is gone", name)
		}
	}
	if left := r.admin.ZRange(ctx, lentKey("acme"), 0, -1).Val(); len(left) > 0 {
		t.Errorf("%v is still lent, in the way of what is", left)
	}
}

// TestDeputyDeletesWhatATaskNames: asynq deletes the key that a task names as its lock.
func TestDeputyDeletesWhatATaskNames(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx, task := t.Context(), "acme/msg_x.1"
	r.admin.Set(ctx, "gb:{acme}:idem:x", task, time.Hour)
	if err := r.worker.Queue.Enqueue(ctx, queue.DeliverTask("acme", "msg_x", queue.Turn{Attempt: 1}, false, time.Time{})); err != nil {
		t.Fatal(err)
	}
	message := r.admin.HGet(ctx, "asynq:{deliveries}:t:"+task, "msg").Val()
	const lock = "gb:{acme}:idem:x"
	r.must(t, "HSET", "asynq:{deliveries}:t:"+task, "msg", message+"\x52"+string(rune(len(lock)))+lock) // field 10, a string
	srv, took := serve(t, r.api, queue.Deliveries(), time.Second)
	queuetest.Within(t, took, task, gbtest.AtOnce)
	srv.Shutdown()
	if r.admin.Exists(ctx, lock).Val() == 0 {
		t.Error("the idempotency key is gone")
	}
}

// TestForeignEntries: what a tenant's sets name of another tenant's is not touched.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	id := job.NewID("zed")
	if err := r.api.Create(ctx, id, job.Spec{Runtime: "python"}, ""); err != nil {
		t.Fatal(err)
	}
	b, _, err := r.api.OpenBatch(ctx, "zed", job.BatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.must(t, "ZADD", "gb:{acme}:deadline", 1, id)
	r.must(t, "ZADD", "gb:{acme}:garbage", 1, id, 1, b.ID)
	r.must(t, "ZADD", "gb:{acme}:batchwork", 1, b.ID)
	r.must(t, "HSET", "gb:{acme}:running", id, "1 dead")
	r.must(t, "HSET", "gb:{acme}:delivery:msg_x", "state", "pending", "job", id, "url", "https://evil.example", "attempt", 1)
	w, deleted := sweepingOver(r.api)
	for range 2 {
		for _, p := range w.passes() {
			if err := p.step(ctx, "acme"); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
		w.forward(lostAfter)
	}
	if j, err := r.api.Get(ctx, id); err != nil || j.State != job.Queued {
		t.Errorf("the job is %s, %v", j.State, err)
	}
	if b, err = r.api.GetBatch(ctx, b.ID); err != nil || b.CancelRequested {
		t.Errorf("the batch's cancellation is %t, %v", b.CancelRequested, err)
	}
	deleted.Range(func(what, _ any) bool { t.Errorf("objects of %s were deleted", what); return true })
	if _, err := r.api.GetDelivery(ctx, "acme", "msg_x"); !errors.Is(err, ErrNoDelivery) {
		t.Errorf("a delivery of another's job: got %v", err)
	}
	for _, k := range []string{"deadline", "garbage", "batchwork", "running"} {
		if r.admin.Exists(ctx, script.Key("acme", k)).Val() > 0 {
			t.Errorf("%s still names what is another's", k)
		}
	}
}

// TestUnknownPriorityHoldsUpNobody: asynq refuses the queue before anything is sent.
func TestUnknownPriorityHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for _, priority := range []string{" ", "x", ""} {
		t.Run(fmt.Sprintf("%q", priority), func(t *testing.T) {
			t.Parallel()
			w, _ := sweeping(t)
			s, ctx := w.Records, t.Context()
			bad, good := s.mustCreate(t, "bbb", ""), []string{s.mustCreate(t, "bbb", ""), s.mustCreate(t, "zzz", "")}
			s.rdb.HSet(ctx, jobKey("bbb", bad), "priority", priority)
			if _, err := asynq.NewInspectorFromRedisClient(s.rdb).DeleteAllPendingTasks("normal"); err != nil {
				t.Fatal(err)
			}
			w.forward(time.Minute)
			if err := w.sweepOpen(ctx, "bbb", "zzz"); (err == nil) != (priority == "") {
				t.Errorf("got %v", err)
			}
			got := tasks(t, s, "normal")
			for _, id := range good {
				if !slices.Contains(got, id+".1") {
					t.Errorf("job %s has no task", id)
				}
			}
		})
	}
}

// TestEnqueueRefusedQueue: of a round trip, what asynq refuses holds up nothing else.
func TestEnqueueRefusedQueue(t *testing.T) {
	t.Parallel()
	s := store(t)
	good := queue.RunTask(job.NewID("default"), 1, job.Normal, time.Time{})
	err := s.Queue.EnqueueAll(t.Context(), []queue.Task{queue.RunTask("a", 1, " ", time.Time{}), queue.RunTask("b", 1, " ", time.Time{}), good})
	if err == nil || !strings.Contains(err.Error(), "a.1") {
		t.Errorf("got %v, want the first that was refused named", err)
	}
	if got := tasks(t, s, "normal"); !slices.Equal(got, []string{good.ID()}) {
		t.Errorf("got tasks %v, want %s", got, good.ID())
	}
}

// TestRequeueWithoutPriority: the reaper's process lives on.
func TestRequeueWithoutPriority(t *testing.T) {
	t.Parallel()
	s := store(t)
	j := s.begun(t)
	s.rdb.HDel(t.Context(), jobKey("default", j.ID), "priority")
	if got, err := s.Requeue(t.Context(), j.ID, 1, "w", CostAttempt, 0); err != nil || got != RequeueOK {
		t.Errorf("got %s, %v", got, err)
	}
}

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

// neighbours is what two tenants may have at once, all of which one worker's user may spoil of acme's.
type neighbours struct {
	roles
	// Of zed, whose work is to go on.
	queued  map[job.Priority]string
	overdue string // its deadline
	lost    string // its worker
	batch   string // its sender
	did     string // a delivery
	ended   string
}

func newNeighbours(t *testing.T) neighbours {
	t.Helper()
	w := neighbours{roles: openRoles(t), queued: map[job.Priority]string{}}
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	keys, err := secrets.ParseKeys(secrets.NewKey())
	check(err)
	check(errors.Join(
		w.worker.Fleet.Beat(ctx, fleet.Worker{ID: "w", Concurrency: 8}), w.worker.Fleet.PublishRuntimes(ctx, []fleet.Runtime{{Name: "bash"}}),
		w.worker.Fleet.PublishImages(ctx, []string{"image"}), w.worker.Fleet.PublishKey(ctx, publicKey(t)), w.worker.Fleet.PublishSecretsKey(ctx, keys.Public())))
	for _, tenant := range []string{"acme", "zed"} {
		_, err := w.api.CreateTenant(ctx, tenant, job.Terms{Quotas: job.Quotas{JobsQueued: 100, BytesQueued: 1 << 20, BytesStored: 1 << 20, RunningAtOnce: 6}})
		check(err)
		_, _, err = w.api.AddToken(ctx, tenant, job.Token{})
		check(err)
		_, err = w.api.RotateSigning(ctx, tenant, time.Hour)
		check(err)
		check(w.admin.HSet(ctx, script.Key(tenant, "secrets"), "API", "{}").Err())
		check(w.admin.Set(ctx, rateKey(tenant), 5, time.Hour).Err())
		check(w.api.HoldUpload(ctx, Upload{Tenant: tenant, SHA256: strings.Repeat("a", 64), Size: 5}, false))
		create := func(n NewJob) string {
			n.ID, n.Spec.Runtime = job.NewID(tenant), "bash"
			created, err := w.api.CreateMany(ctx, tenant, []NewJob{n})
			check(err)
			check(created[0].Err)
			return n.ID
		}
		w.ended = create(NewJob{Key: "k", Spec: job.Spec{Callback: &job.Callback{URL: "https://a.example"}}})
		_, err = w.api.Watch(ctx, w.ended)
		check(err)
		j, err := w.worker.Start(ctx, w.ended, 1, "w")
		check(err)
		check(w.worker.Publish(ctx, j, 1, []Event{{Type: EventStdout, Data: []byte("x")}}))
		check(w.worker.End(ctx, j, Ending{Status: job.Succeeded, Result: []byte("{}"), ResultRef: "k", Stored: 5}))
		w.did = DeliveryID(w.ended, job.EventCompleted, "https://a.example")
		w.lost = create(NewJob{})
		_, err = w.worker.Start(ctx, w.lost, 1, "dead")
		check(err)
		w.overdue = create(NewJob{Spec: job.Spec{Deadline: time.Now().Add(10 * time.Minute)}})
		for _, p := range []job.Priority{job.High, job.Normal, job.Low} {
			w.queued[p] = create(NewJob{Spec: job.Spec{Priority: p}})
		}
		create(NewJob{Spec: job.Spec{RunAt: time.Now().Add(time.Hour)}})
		b, _, err := w.api.OpenBatch(ctx, tenant, job.BatchOptions{IdempotencyKey: "k"})
		check(err)
		w.batch = b.ID
		for i := range 2 { // they line up
			n := NewJob{ID: job.ItemID(b.ID, i), Index: i, Spec: job.Spec{Runtime: "bash"}, JSON: []byte("{}")}
			n.Fingerprint = NewFingerprint(n.JSON)
			check(w.api.AddToBatch(ctx, b.ID, []NewJob{n}))
		}
		check(w.api.Reject(ctx, b.ID, []Fingerprint{NewFingerprint([]byte("2"))}, []job.ItemError{{Index: 2, Code: "x"}}))
	}
	for _, k := range w.admin.Keys(ctx, "asynq:*:t:*zed*").Val() { // they were lost
		queue, id, _ := strings.Cut(strings.TrimPrefix(k, "asynq:{"), "}:t:")
		check(w.admin.Del(ctx, k).Err())
		check(w.admin.LRem(ctx, queueKey(queue, "pending"), 0, id).Err())
	}
	return w
}

// saved is what a key holds.
type saved struct {
	dump, text string
	ttl        time.Duration
}

// text is a dump, except for hashes and sets, which are dumped in any order.
func (r roles) text(t *testing.T, k string) string {
	t.Helper()
	switch r.admin.Type(t.Context(), k).Val() {
	case "hash":
		return fmt.Sprint(r.admin.HGetAll(t.Context(), k).Val())
	case "set":
		return fmt.Sprint(r.admin.SMembersMap(t.Context(), k).Val())
	}
	return r.admin.Dump(t.Context(), k).Val()
}

func (r roles) save(t *testing.T) map[string]saved {
	t.Helper()
	all := map[string]saved{}
	for _, k := range r.admin.Keys(t.Context(), "*").Val() {
		ttl := max(r.admin.PTTL(t.Context(), k).Val(), 0)
		if dump := r.admin.Dump(t.Context(), k).Val(); dump != "" { // else it has expired meanwhile
			all[k] = saved{dump, r.text(t, k), ttl}
		}
	}
	return all
}

func (r roles) restore(t *testing.T, all map[string]saved) {
	t.Helper()
	pipe := r.admin.Pipeline()
	pipe.FlushAll(t.Context())
	for k, v := range all {
		pipe.Restore(t.Context(), k, v.ttl, v.dump)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// mayWrite asks Redis itself.
func (r roles) mayWrite(t *testing.T, k string) bool {
	t.Helper()
	answer, err := r.admin.Do(t.Context(), "ACL", "DRYRUN", "glovebox-worker", "SET", k, "x").Text()
	if err != nil {
		t.Fatal(err)
	}
	return answer == "OK"
}

// kind is what keys have in common that are spoiled at once: those of all jobs of acme, say.
func kind(k string) string {
	parts := strings.SplitAfter(k, ":")
	for i, p := range parts {
		if strings.Contains(p, "acme") && !strings.HasPrefix(p, "{") || strings.HasPrefix(p, "msg_") {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "")
}

// TestWhateverAWorkerWrites: nothing of what a worker may write makes the api delete or change what
// a worker may not, holds up the work of another tenant, ends the process, or keeps it busy.
func TestWhateverAWorkerWrites(t *testing.T) {
	t.Parallel()
	w := newNeighbours(t)
	ctx := t.Context()
	before := w.save(t)
	own := map[string]bool{}
	kinds := map[string][]string{}
	for k := range before {
		own[k] = w.mayWrite(t, k)
		if own[k] && !strings.Contains(k, "{zed}") {
			kinds[kind(k)] = append(kinds[kind(k)], k)
		}
	}
	if len(kinds) < 30 {
		t.Fatalf("a worker may write %d kinds of keys: %v", len(kinds), slices.Sorted(maps.Keys(kinds)))
	}
	others := []string{w.queued[job.Normal], w.batch, w.ended}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		w.restore(t, before)
		poisons := w.poisons(t, kinds[k], others)
		for _, name := range slices.Sorted(maps.Keys(poisons)) {
			w.restore(t, before)
			poisons[name]()
			began := time.Now()
			w.goesOn(t, k+" with "+name, before, own)
			if took := time.Since(began); took > gbtest.AtOnce {
				t.Errorf("%s with %s: the passes took %s", k, name, took)
			}
			if ctx.Err() != nil {
				t.Fatal(ctx.Err())
			}
		}
	}
}

func (w neighbours) goesOn(t *testing.T, what string, before map[string]saved, own map[string]bool) {
	t.Helper()
	// What a process remembers is not to be what it goes by.
	api, err := Open(t.Context(), Config{URL: w.server.API()})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sweeper, deleted := sweepingOver(api)
	sweeper.DeleteUpload = func(context.Context, string, string) error { return nil }
	var errs []error
	for _, later := range []time.Duration{20 * time.Minute, 20*time.Minute + lostAfter} {
		sweeper.forward(later)
		for _, p := range sweeper.passes() {
			errs = append(errs, p.step(ctx, "acme", "zed"))
		}
	}
	said := errors.Join(errs...)
	if ctx.Err() != nil {
		t.Errorf("%s: the passes don't end", what)
	}
	for k, v := range before {
		if !own[k] && k != shareKey && w.text(t, k) != v.text {
			t.Errorf("%s: %s is gone or changed", what, k)
		}
	}
	deleted.Range(func(of, _ any) bool {
		if strings.HasPrefix(of.(string), "zed/") && of != "zed/"+w.overdue && of != "zed/"+w.lost && !strings.HasPrefix(of.(string), "zed/zed-") {
			t.Errorf("%s: objects of %s were deleted", what, of)
		}
		return true
	})
	w.zedGoesOn(t, what, api, said)
	// Of acme's nothing is promised but that it ends.
	for _, id := range w.admin.ZRange(t.Context(), jobsKey("acme"), 0, -1).Val() {
		id = Position(id).id()
		_, _ = api.Get(ctx, id)
		_, _ = api.Watch(ctx, id)
		_, _ = api.Events(ctx, id, "", 10)
		_, _ = api.Cancel(ctx, id, []byte("{}"))
		_ = api.Purge(ctx, id)
	}
	_ = api.Create(ctx, job.NewID("acme"), job.Spec{Runtime: "bash"}, "")
	_, _, _ = api.OpenBatch(ctx, "acme", job.BatchOptions{IdempotencyKey: "k"})
	_, _ = api.StopTenant(ctx, "acme")
	if ctx.Err() != nil {
		t.Errorf("%s: the api's calls don't end", what)
	}
	if _, err := api.ReadTenant(ctx, "acme"); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if _, err := api.Depth(ctx); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// zedGoesOn looks at what the passes are to have done for zed, and at what its clients ask for.
func (w neighbours) zedGoesOn(t *testing.T, what string, api *Store, said error) {
	t.Helper()
	ctx := t.Context()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s (the passes said: %.600v)", what, fmt.Sprintf(format, args...), said)
	}
	hasTask := func(queue, task string) {
		t.Helper()
		if strings.HasPrefix(what, queueKey(queue, "")) || strings.HasPrefix(what, "asynq:queues") {
			return // what it says is lost, until asynq's keys are deleted
		}
		if w.admin.HExists(ctx, queueKey(queue, "t:"+task), "msg").Val() == false {
			fail("%s has no task", task)
		}
	}
	for p, id := range w.queued {
		hasTask(string(p), id+".1")
	}
	hasTask(queue.Delivery, "zed/"+w.did+".1")
	if j, err := api.Get(ctx, w.overdue); err != nil || j.State != job.Canceled {
		fail("the job whose deadline has passed is %s, %v", j.State, err)
	}
	if !strings.HasPrefix(what, "gb:worker:") {
		if j, err := api.Get(ctx, w.lost); err != nil || j.Epoch != 2 {
			fail("the job of a lost worker is in epoch %d, %v", j.Epoch, err)
		}
	}
	if b, err := api.GetBatch(ctx, w.batch); err != nil || !b.State.Final() {
		fail("the batch whose sender left is %s, %v", b.State, err)
	}
	if j, err := api.Get(ctx, w.queued[job.Normal]); err != nil || j.State != job.Queued {
		fail("the queued job is %s, %v", j.State, err)
	}
	if err := api.Create(ctx, job.NewID("zed"), job.Spec{Runtime: "bash"}, ""); err != nil {
		fail("create: %v", err)
	}
	if _, _, err := api.List(ctx, "zed", Filter{Limit: 50}); err != nil {
		fail("list: %v", err)
	}
	if _, err := api.Tenants(ctx); err != nil {
		fail("tenants: %v", err)
	}
	if _, err := api.Fleet.Runtimes(ctx); err != nil {
		fail("runtimes: %v", err)
	}
	if _, err := api.Fleet.Keys(ctx); err != nil {
		fail("keys: %v", err)
	}
	if d, err := api.GetDelivery(ctx, "zed", w.did); err != nil || d.State != Pending {
		fail("the delivery is %s, %v", d.State, err)
	}
}

func publicKey(t *testing.T) attest.Key {
	t.Helper()
	s, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	return s.Key()
}
