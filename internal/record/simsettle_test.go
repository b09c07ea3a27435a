package record

import (
	"context"
	"strings"
	"time"

	"github.com/hibiken/asynq"
)

func (w *world) inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(w.rdb) }

// settle lets everything come to its end: half of the time all that was begun is lost
// first, with its processes. Nothing fails any more.
func (w *world) settle() {
	w.note("settles")
	lost := w.chance(2)
	for _, p := range w.procs {
		for _, l := range p.lanes {
			for !lost && l.busy {
				l.resume(runs)
			}
		}
	}
	w.free = true
	if lost {
		for _, p := range w.procs {
			w.kill(p)
		}
		w.procs = nil
		w.boot(apiProcess)
		w.boot(workerProcess)
	}
	api, worker := w.procs[0], w.procs[len(w.procs)-1]
	for _, p := range w.procs {
		if p.kind == apiProcess {
			api = p
		} else {
			worker = p
		}
	}
	left := ""
	for round := range 60 {
		if w.problem != nil {
			return
		}
		for _, o := range sweepOps {
			w.all(api, o, 1)
		}
		w.all(worker, beatOps[0], 1)
		w.all(worker, runOps[0], 12)
		w.all(api, deliverOps[0], 8)
		if left = w.settleFault(); left == "" {
			break
		}
		pause := 3 * time.Second // as a sweeper's passes follow each other
		switch {
		case round%16 == 15:
			pause = 16 * time.Minute // a batch that nobody sends any more is given up
		case round%8 == 7:
			pause = 16 * time.Second
		}
		w.age(pause)
	}
	if left != "" {
		w.fail("after an hour something had not come to its end: %s", left)
		return
	}
	w.look()
	for id, e := range w.ledger.jobs {
		switch {
		case e.accepted && e.end == nil:
			w.fail("job %s was accepted and never ended", id)
		case e.end != nil && e.end.delivery != "" && w.ledger.posted[e.end.delivery] == 0 && !w.ledger.purged[id]:
			w.fail("job %s ended and nobody was told", id)
		}
	}
}

// all carries out an operation of a process some times, without a schedule.
func (w *world) all(p *process, o op, times int) {
	l := p.lanes[0]
	for range times {
		o.do(context.WithValue(context.Background(), laneKey{}, l), l)
	}
}

// expire lets everything expire, after which nothing may be left of any job.
func (w *world) expire() {
	if w.problem != nil {
		return
	}
	w.note("expires")
	var api *process
	for _, p := range w.procs {
		if p.kind == apiProcess {
			api = p
		}
	}
	for range 4 {
		w.age(simRetention + time.Hour)
		for _, o := range sweepOps {
			w.all(api, o, 1)
		}
	}
	for _, tenant := range simTenants {
		for name := range w.dump(tenant).types {
			if name != "line" && !strings.HasPrefix(name, "tenant") { // a counter of places, and the tenant itself
				w.fail("key %s of %s is there after everything has expired", name, tenant)
			}
		}
	}
	for id, epochs := range w.ledger.bucket {
		w.fail("objects of job %s are there after everything has expired: epochs %v", id, epochs)
	}
}
