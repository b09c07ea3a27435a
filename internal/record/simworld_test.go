package record

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// world is all that a schedule has: a Redis, processes, one clock that they read with an
// error each, and what is known from outside of what they did.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	server *gbtest.RedisServer
	rdb    *redis.Client // the observer's own: not part of the schedule
	began  time.Time
	offset time.Duration // how much time has passed
	free   bool          // commands run at once: the schedule is over

	procs   []*process
	born    int
	ledger  ledger
	types   map[string]string // of keys, as far as typeOf was asked
	problem error             // the first
	steps   int
	trace   []string
}

// process is an api or a worker. It dies as a whole.
type process struct {
	w       *world
	name    string
	kind    procKind
	store   *Store
	sweeper *Sweeper
	skew    time.Duration
	dead    bool
	narrow  bool // it has one of two runtimes
	lanes   []*lane
	holds   map[string]bool // ids that a worker's beats name
}

type procKind int

const (
	apiProcess procKind = iota
	workerProcess
)

func newWorld(t *testing.T, server *gbtest.RedisServer, seed uint64) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), server: server, began: time.Now(), ledger: newLedger(), types: map[string]string{}}
	opts, err := redis.ParseURL(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	w.rdb = redis.NewClient(opts)
	return w
}

// now is what a process that is so far off reads on its clock.
func (w *world) now(skew time.Duration) time.Time { return w.began.Add(w.offset + skew) }

// simPauses are how much time passes at once: less and more than between two beats, than
// what loses a worker, than a lease, and than what gives a batch up.
var simPauses = []time.Duration{
	100 * time.Millisecond, time.Second, time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second, 3 * time.Second,
	3 * time.Second, 7 * time.Second, 7 * time.Second, 16 * time.Second, 16 * time.Second, 35 * time.Second, time.Minute, 20 * time.Minute,
}

const (
	simAPIs    = 2
	simWorkers = 2
	simSteps   = 250
)

// schedule runs one, and returns the first thing that is wrong.
func (w *world) schedule() error {
	ctx := context.Background()
	defer w.rdb.Close()
	defer func() {
		for _, p := range w.procs {
			w.kill(p)
		}
	}()
	if err := w.rdb.FlushDB(ctx).Err(); err != nil {
		return err
	}
	// Redis knows it, so that no step lies between the look before a purge and the purge.
	if err := purgeScript.Load(ctx, w.rdb); err != nil {
		return err
	}
	for range simAPIs {
		w.boot(apiProcess)
	}
	for range simWorkers {
		w.boot(workerProcess)
	}
	for i := 0; i < simSteps && w.problem == nil; i++ {
		w.step()
	}
	w.settle()
	w.expire()
	return w.problem
}

// fail notes the first thing that is wrong, at which the schedule ends.
func (w *world) fail(format string, args ...any) {
	if w.problem == nil {
		w.problem = fmt.Errorf(format, args...)
		w.note("WRONG: %v", w.problem)
	}
}

// boot starts a process.
func (w *world) boot(kind procKind) {
	w.born++
	p := &process{w: w, kind: kind, holds: map[string]bool{}, name: fmt.Sprintf("%s%d", []string{"api", "w"}[kind], w.born)}
	p.skew = time.Duration(w.rng.IntN(4001)-2000) * time.Millisecond
	url := w.server.API()
	if kind == workerProcess {
		url = w.server.Worker()
	}
	store, err := Open(context.Background(), Config{URL: url, Retention: simRetention, ResultLife: time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	store.now = func() time.Time { return w.now(p.skew) }
	store.rdb.AddHook(simHook{p})
	p.store = store
	p.sweeper = &Sweeper{Records: store, DeleteObjects: w.ledger.deleteObjects, garbageAtOnce: 1, Log: slog.New(slog.DiscardHandler)}
	p.narrow = kind == workerProcess && w.chance(2)
	lanes := [][]op{clientOps, sweepOps, deliverOps}
	if kind == workerProcess {
		lanes = [][]op{runOps, runOps, beatOps}
	}
	for _, ops := range lanes {
		p.lanes = append(p.lanes, &lane{p: p, ops: ops})
	}
	w.procs = append(w.procs, p)
}

// kill ends a process: every command of it from now on fails, and reaches nobody.
func (w *world) kill(p *process) {
	p.dead = true
	for _, l := range p.lanes {
		if l.busy {
			l.resume(diesBefore)
		}
	}
	p.store.Close()
}

// step lets one lane go on by a command, or lets time pass.
func (w *world) step() {
	w.steps++
	switch n := w.rng.IntN(100); {
	case n < 3:
		w.age(pick(w.rng, simPauses))
	case n < 5:
		w.look()
	default:
		p := pick(w.rng, w.procs)
		l := pick(w.rng, p.lanes)
		if !l.busy {
			l.begin()
			return
		}
		v := runs
		switch n := w.rng.IntN(200); {
		case n < 4:
			v = answerLost
		case n < 6:
			v = neverSent
		case n < 8:
			v = diesBefore
		case n < 11:
			v = diesAfter
		}
		if v != runs {
			w.note("%s %s: %s", p.name, l.at, map[verdict]string{answerLost: "answer lost", neverSent: "not sent", diesBefore: "dies before", diesAfter: "dies after"}[v])
		}
		l.resume(v)
		if v == diesBefore || v == diesAfter {
			w.kill(p)
			w.boot(p.kind)
			w.procs = remove(w.procs, p)
		}
	}
}

func remove(list []*process, p *process) []*process {
	for i := range list {
		if list[i] == p {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// age lets time pass: in Redis, whose clock is the machine's, by making what is there as much
// older. Nobody extends asynq's leases, as on a machine that stood still.
func (w *world) age(d time.Duration) {
	w.look() // what expires can't be looked at after
	w.note("%s pass", d)
	w.offset += d
	if err := ageScript.Run(context.Background(), w.rdb, nil, d.Milliseconds(), int64(d/time.Second)).Err(); err != nil {
		w.fail("let time pass: %w", err)
	}
}

var ageScript = redis.NewScript(`
local ms, seconds = tonumber(ARGV[1]), tonumber(ARGV[2])
for _, key in ipairs(redis.call('KEYS', '*')) do
  local left = redis.call('PTTL', key)
  if left >= 0 then
    if left <= ms then redis.call('DEL', key) else redis.call('PEXPIRE', key, left - ms) end
  end
end
for _, queue in ipairs({'high', 'normal', 'low', 'deliveries', 'deliveries:backlog'}) do
  local key = 'asynq:{' .. queue .. '}:lease'
  for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -seconds, id) end
end
return 'ok'`)

const simRetention = 48 * time.Hour
