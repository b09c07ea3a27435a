package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

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
