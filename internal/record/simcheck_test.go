package record

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/redisacl"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// dump is everything of a tenant's that is in Redis.
type dump struct {
	tenant  string
	hashes  map[string]map[string]string // by what follows the tenant's prefix
	sets    map[string]map[string]float64
	strings map[string]string
	ttl     map[string]int64 // ms, -1 for none
	types   map[string]string
}

var dumpScript = redis.NewScript(`
local all = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  local value = {}
  if kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'string' then value = {redis.call('GET', key)} end
  all[#all + 1] = {key, kind, redis.call('PTTL', key), value}
end
return all`)

// typeOf is what redisacl says of the type of a key. The same keys are looked at again and again.
func (w *world) typeOf(key string) string {
	if kind, known := w.types[key]; known {
		return kind
	}
	i := slices.IndexFunc(redisacl.Keys(), func(k redisacl.Key) bool { fits, _ := path.Match(k.Pattern, key); return fits })
	if i < 0 {
		return "no key of Glovebox's"
	}
	w.types[key] = redisacl.Keys()[i].Type
	return w.types[key]
}

func (w *world) dump(tenant string) dump {
	d := dump{
		tenant: tenant, hashes: map[string]map[string]string{}, sets: map[string]map[string]float64{}, strings: map[string]string{},
		ttl: map[string]int64{}, types: map[string]string{},
	}
	prefix := script.Key(tenant, "")
	all, err := dumpScript.Run(context.Background(), w.rdb, nil, prefix+"*").Slice()
	if err != nil {
		w.fail("read everything: %w", err)
		return d
	}
	for _, one := range all {
		fields := one.([]any)
		name := strings.TrimPrefix(fields[0].(string), prefix)
		d.types[name], d.ttl[name] = fields[1].(string), fields[2].(int64)
		if kind := w.typeOf(fields[0].(string)); !strings.Contains(kind, d.types[name]) {
			w.fail("%s is a %s, and redisacl says %q", fields[0], d.types[name], kind)
		}
		values := fields[3].([]any)
		switch d.types[name] {
		case "hash":
			h := map[string]string{}
			for i := 0; i+1 < len(values); i += 2 {
				h[values[i].(string)] = values[i+1].(string)
			}
			d.hashes[name] = h
		case "zset":
			z := map[string]float64{}
			for i := 0; i+1 < len(values); i += 2 {
				score, err := strconv.ParseFloat(values[i+1].(string), 64)
				if err != nil {
					w.fail("score of %s in %s: %w", values[i], name, err)
				}
				z[values[i].(string)] = score
			}
			d.sets[name] = z
		case "string":
			d.strings[name] = values[0].(string)
		}
	}
	return d
}

// ofKind calls do for each hash whose name begins with prefix and has no further part.
func (d dump) ofKind(prefix string, do func(id string, fields map[string]string)) {
	for name, fields := range d.hashes {
		if id, ok := strings.CutPrefix(name, prefix); ok && !strings.Contains(id, ":") {
			do(id, fields)
		}
	}
}

// look checks what holds at any moment, between any two commands.
func (w *world) look() {
	if w.problem != nil {
		return
	}
	for _, tenant := range simTenants {
		d := w.dump(tenant)
		w.lookAtJobs(d)
		w.lookAtDeliveries(d)
		w.lookAtBatches(d)
		w.lookAtLanes(d)
		w.lookAtKeys(d)
	}
}

// lookAtJobs: a job is where its state says, counters equal what is there, and an end stays.
func (w *world) lookAtJobs(d dump) {
	places := map[string][]string{}
	for _, set := range []string{"open", "later", "approvals", "backlog:high", "backlog:normal", "backlog:low"} {
		for id := range d.sets[set] {
			places[id] = append(places[id], set)
		}
	}
	queued, bytes := 0, int64(0)
	d.ofKind("job:", func(id string, f map[string]string) {
		e := w.ledger.entry(id)
		e.callback = e.callback || f["callback"] != ""
		switch state := job.Status(f["state"]); {
		case state == job.Queued, state == job.Held:
			queued++
			n, err := strconv.ParseInt(f["bytes"], 10, 64)
			if err != nil {
				w.fail("job %s: bytes: %w", id, err)
			}
			bytes += n
			if len(places[id]) != 1 || (places[id][0] == "approvals") != (state == job.Held) {
				w.fail("%s job %s is in %q, want one place, approvals where it is held", state, id, places[id])
			}
			if (f["hold"] != "") != (state == job.Held) {
				w.fail("%s job %s has the hold %q", state, id, f["hold"])
			}
		case len(places[id]) > 0:
			w.fail("job %s is %s and still in %q", id, state, places[id])
		case state == job.Running:
			if got, want := d.hashes["running"][id], f["epoch"]+" "+f["worker"]; got != want {
				w.fail("running job %s is noted as %q, want %q", id, got, want)
			}
		case state.Final():
			w.lookAtEnd(d, id, f, e)
		default:
			w.fail("job %s has state %q", id, state)
		}
		if _, listed := d.sets["jobs"][f["created"]+":"+id]; !listed {
			w.fail("job %s is not listed", id)
		}
		if e.end != nil && !job.Status(f["state"]).Final() {
			w.fail("job %s had ended as %v and is %s", id, e.end, f["state"])
		}
		if ttl := d.ttl["job:"+id]; (ttl >= 0) != job.Status(f["state"]).Final() {
			w.fail("job %s is %s and expires in %d ms", id, f["state"], ttl)
		}
	})
	for id, where := range places {
		if d.hashes["job:"+id] == nil {
			w.fail("%s is in %q and has no record", id, where)
		}
	}
	for id := range d.hashes["running"] {
		if d.hashes["job:"+id]["state"] != string(job.Running) {
			w.fail("%s is noted as running and is %q", id, d.hashes["job:"+id]["state"])
		}
	}
	if got := number(d.strings["queued"]); got != bytes {
		w.fail("tenant %s: %d bytes are counted as queued, want %d of %d jobs", d.tenant, got, bytes, queued)
	}
	stored := int64(0)
	for id, kept := range d.hashes["kept"] {
		n, _, _ := strings.Cut(kept, " ")
		stored += number(n)
		if _, due := d.sets["garbage"][id]; !due {
			w.fail("%s keeps objects and nobody will look for them", id)
		}
	}
	if got := number(d.strings["stored"]); got != stored {
		w.fail("tenant %s: %d bytes are counted as stored, want %d", d.tenant, got, stored)
	}
}

// lookAtEnd: one result, which stays, its objects kept, and a delivery where one was asked for.
func (w *world) lookAtEnd(d dump, id string, f map[string]string, e *entry) {
	now := &seenEnd{state: f["state"], ref: f["result_ref"], result: f["result"]}
	if f["callback"] != "" {
		now.delivery = DeliveryID(id, job.EventCompleted, f["callback"])
		// The two expire by the clocks of two machines.
		if d.hashes["delivery:"+now.delivery] == nil && d.ttl["job:"+id] > 5000 {
			w.fail("job %s ended and has no delivery", id)
		}
	}
	if e.end == nil {
		e.end = now
	}
	if *e.end != *now {
		w.fail("job %s had ended as %v and now says %v", id, e.end, now)
	}
	if (now.ref == "") == (now.result == "") {
		w.fail("job %s ended with %v: want a result or a reference to one", id, now)
	}
	if now.ref != "" && !w.ledger.bucket[id][int(number(f["epoch"]))] {
		w.fail("job %s ended in epoch %s, whose objects are gone", id, f["epoch"])
	}
	if _, ok := d.hashes["kept"][id]; !ok {
		w.fail("job %s ended and is not counted", id)
	}
}

// lookAtDeliveries: one to each end, in the outbox until it is final.
func (w *world) lookAtDeliveries(d dump) {
	d.ofKind("delivery:", func(did string, f map[string]string) {
		of, event, state := f["job"], job.EventCompleted, d.hashes["job:"+f["job"]]["state"]
		if f["batch"] != "" {
			of, event, state = f["batch"], job.EventBatchCompleted, d.hashes["batch:"+f["batch"]]["state"]
		}
		if want := DeliveryID(of, event, f["url"]); did != want {
			w.fail("delivery of %s is %s, want %s", of, did, want)
		}
		if state == string(job.Held) || state == string(job.Queued) || state == string(job.Running) || state == string(job.BatchReceiving) {
			w.fail("%s is %s and has a delivery", of, state)
		}
		_, out := d.sets["outbox"][did]
		if pending := f["state"] == string(Pending); pending != out || pending != (d.ttl["delivery:"+did] < 0) {
			w.fail("delivery %s is %s, in the outbox %t, expires in %d ms", did, f["state"], out, d.ttl["delivery:"+did])
		}
	})
	for did := range d.sets["outbox"] {
		if d.hashes["delivery:"+did] == nil {
			w.fail("delivery %s is in the outbox and has no record", did)
		}
	}
}

// lookAtBatches: counters equal what became of the jobs, and a batch ends with its last job.
func (w *world) lookAtBatches(d dump) {
	d.ofKind("batch:", func(id string, f map[string]string) {
		w.ledger.batches[id] = true
		ended, byState := int64(0), int64(0)
		for i := range len(d.strings["batch:"+id+":items"]) / fingerprintBytes {
			if e := w.ledger.jobs[job.ItemID(id, i)]; e != nil && e.end != nil {
				ended++
			}
		}
		for name, n := range f {
			if strings.HasPrefix(name, endedField) {
				byState += number(n)
			}
		}
		if number(f["ended"]) != byState || byState != ended {
			w.fail("batch %s counts %s jobs that ended, %d by status, want %d", id, f["ended"], byState, ended)
		}
		state := job.BatchStatus(f["state"])
		if was := w.ledger.final[id]; was != "" && was != state {
			w.fail("batch %s was %s and is %s", id, was, state)
		}
		if state.Final() {
			w.ledger.final[id] = state
		}
		if all := f["jobs"] == f["ended"]; state == job.BatchRunning && all || state.Final() && !all {
			w.fail("batch %s is %s with %s of %s jobs ended", id, state, f["ended"], f["jobs"])
		}
		if ttl := d.ttl["batch:"+id]; (ttl >= 0) != state.Final() {
			w.fail("batch %s is %s and expires in %d ms", id, state, ttl)
		}
		if _, work := d.sets["batchwork"][id]; state == job.BatchReceiving && !work {
			w.fail("batch %s is being received and nobody will give it up", id)
		}
		if _, listed := d.sets["batches"][f["created"]+":"+id]; !listed {
			w.fail("batch %s is not listed", id)
		}
	})
}

// lookAtLanes: how a callback's host does counts as long as it is remembered.
func (w *world) lookAtLanes(d dump) {
	const near = 10_000 // ms: the two expire by the clocks of two machines
	for name := range d.hashes {
		if _, counts := d.sets["lasting"][script.Key(d.tenant, name)]; strings.HasPrefix(name, "lane:") && !counts && d.ttl[name] > near {
			w.fail("%s doesn't count", name)
		}
	}
	for key, over := range d.sets["lasting"] {
		name := strings.TrimPrefix(key, script.Key(d.tenant, ""))
		if strings.HasPrefix(name, "lane:") && d.hashes[name] == nil && int64(over) > ms(w.now(0))+near {
			w.fail("%s counts and is not there", name)
		}
	}
}

// Names of keys that hold entries of jobs, and go with the last of them.
var simIndexes = []string{
	"jobs", "kept", "stored", "queued", "line", "backlog:high", "backlog:normal", "backlog:low", "later", "approvals", "deadline", "open", "running", "outbox",
	"garbage", "batches", "batchwork", "recorded", "lasting", "lent", "lent:bytes", "lent:sum",
}

// lookAtKeys: nothing without a TTL or an index.
func (w *world) lookAtKeys(d dump) {
	for name, ttl := range d.ttl {
		kind, _, _ := strings.Cut(name, ":")
		switch {
		case slices.Contains(simIndexes, name):
		case kind == "job", kind == "delivery", kind == "batch" && strings.Count(name, ":") == 1: // looked at above
		case kind == "batch":
			batch := strings.Join(strings.Split(name, ":")[:2], ":")
			if d.hashes[batch] == nil || (ttl >= 0) != (d.ttl[batch] >= 0) {
				w.fail("key %s expires in %d ms, its batch in %d", name, ttl, d.ttl[batch])
			}
		case ttl < 0:
			w.fail("key %s has neither a TTL nor an index", name)
		}
	}
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (w *world) settleFault() string {
	for _, tenant := range simTenants {
		d := w.dump(tenant)
		for _, index := range []string{"open", "later", "approvals", "backlog:high", "backlog:normal", "backlog:low", "outbox", "batchwork"} {
			if n := len(d.sets[index]); n > 0 {
				return fmt.Sprintf("%d entries in %s of %s", n, index, tenant)
			}
		}
		if n := len(d.hashes["running"]); n > 0 {
			return fmt.Sprintf("%d jobs of %s run", n, tenant)
		}
	}
	for _, queue := range []string{"high", "normal", "low", queue.Delivery, queue.DeliveryBacklog} {
		keys, err := w.rdb.Keys(context.Background(), "asynq:{"+queue+"}:t:*").Result()
		if err != nil {
			w.fail("list tasks: %w", err)
		}
		if len(keys) > 0 {
			return fmt.Sprintf("tasks %v", keys)
		}
	}
	return ""
}
