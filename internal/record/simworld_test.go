package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
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

// lane is one thing at a time that a process does.
type lane struct {
	p    *process
	ops  []op
	busy bool
	at   string       // the command that it waits with
	want chan string  // it has a command to run
	turn chan verdict // what becomes of it
	done chan struct{}
}

// op is something that a process does, in any number of commands.
type op struct {
	name   string
	weight int
	do     func(ctx context.Context, l *lane)
}

// verdict is what becomes of a command.
type verdict int

const (
	runs       verdict = iota
	answerLost         // Redis runs it, and the process hears of an error
	neverSent          // the process hears of an error
	diesBefore
	diesAfter
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

type laneKey struct{}

// begin starts one of the lane's operations, which waits with its first command.
func (l *lane) begin() {
	total := 0
	for _, o := range l.ops {
		total += o.weight
	}
	n := l.p.w.rng.IntN(total)
	for _, o := range l.ops {
		if n -= o.weight; n < 0 {
			l.start(o)
			return
		}
	}
}

func (l *lane) start(o op) {
	l.want, l.turn, l.done = make(chan string), make(chan verdict), make(chan struct{})
	l.busy = true
	l.p.w.note("%s begins %s", l.p.name, o.name)
	go func() {
		defer close(l.done)
		o.do(context.WithValue(context.Background(), laneKey{}, l), l)
	}()
	l.wait()
}

// resume says what becomes of the command that the lane waits with, and waits for its next.
func (l *lane) resume(v verdict) {
	l.turn <- v
	l.wait()
}

// wait returns once the lane has another command, or no more.
func (l *lane) wait() {
	select {
	case l.at = <-l.want:
	case <-l.done:
		l.busy = false
	}
}

// ask is where a lane waits for its turn.
func (l *lane) ask(what string) verdict {
	if l.p.w.free || l.p.dead {
		return runs
	}
	l.want <- what
	return <-l.turn
}

// pause is a step in which the lane sends nothing. It is false where its process dies in it.
func (l *lane) pause(what string) bool {
	if v := l.ask(what); v == diesBefore || v == diesAfter {
		l.p.dead = true
	}
	return !l.p.dead
}

// simHook is where each command of a process waits for its turn.
type simHook struct{ p *process }

// errSim is what a process hears instead of an answer. It is of Redis, not of the network:
// after those a Store makes a pause.
type errSim string

func (e errSim) Error() string { return string(e) }
func (errSim) RedisError()     {}

var errDead = errSim("SIM the process is dead")

func (simHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h simHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := h.command(ctx, describe(cmd), func() error { return next(ctx, cmd) })
		var sim errSim
		if errors.As(err, &sim) {
			cmd.SetErr(err)
		}
		return err
	}
}

func (h simHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := h.command(ctx, describe(cmds...), func() error { return next(ctx, cmds) })
		var sim errSim
		if errors.As(err, &sim) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (h simHook) command(ctx context.Context, what string, send func() error) error {
	v := runs
	// What a new connection says of itself is no command of the lane's.
	if l, ok := ctx.Value(laneKey{}).(*lane); ok && !strings.HasPrefix(what, "client") && !strings.HasPrefix(what, "hello") {
		v = l.ask(what)
	}
	if h.p.dead || v == diesBefore {
		h.p.dead = true
		return errDead
	}
	if v == neverSent {
		return errSim("SIM the command was not sent")
	}
	if strings.Contains(what, "purge") {
		h.p.w.look() //nolint:contextcheck // what is purged can't be looked at after; no step of the lane's
	}
	err := send()
	switch v {
	case answerLost:
		return errSim("SIM the answer got lost")
	case diesAfter:
		h.p.dead = true
		return errDead
	case runs, neverSent, diesBefore:
	}
	return err
}

// describe names commands in the trace; scripts by what they are.
func describe(cmds ...redis.Cmder) string {
	var words []string
	for _, cmd := range cmds {
		args := cmd.Args()
		word := fmt.Sprint(args[0])
		if len(args) > 1 && strings.HasPrefix(strings.ToLower(word), "eval") {
			if name, ok := scriptNames[fmt.Sprint(args[1])]; ok {
				word = name
			}
		}
		words = append(words, word)
	}
	if len(words) > 4 {
		return fmt.Sprintf("%s … (%d)", strings.Join(words[:3], "+"), len(words))
	}
	return strings.Join(words, "+")
}

// scriptNames are the scripts by their hash.
var scriptNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range scripts.Names("*") {
		names[scripts.Load(name).Hash()] = strings.ReplaceAll(name, "_", " ")
	}
	return names
}()

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
