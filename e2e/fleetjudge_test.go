package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// collect returns the results of the batches: of each job one, and what it was to print.
func (f *fleetOf) collect() map[string]job.Result {
	f.tb.Helper()
	results, by, again, n := map[string]job.Result{}, map[string]int{}, 0, 0
	for _, submitted := range f.batches {
		n += submitted.Jobs
		b, err := f.client.WaitBatch(f.tb.Context(), submitted.ID)
		if err != nil || b.Status != job.BatchCompleted || b.Ended != submitted.Jobs || b.Counts[job.Succeeded] != submitted.Jobs {
			f.tb.Fatalf("got %+v, %v, want %d jobs that succeeded", b, err, submitted.Jobs)
		}
		for r, err := range f.client.BatchResults(f.tb.Context(), b.ID, 0) {
			if err != nil {
				f.tb.Fatal(err)
			}
			if r.Result == nil || r.Result.Stdout != fmt.Sprintln(r.Index) {
				f.tb.Errorf("jobs[%d] of %s: got %+v, want it to have printed its number", r.Index, b.ID, r)
				continue
			}
			results[r.ID] = *r.Result
			by[r.Result.Worker]++
			again += r.Result.Attempt - 1
		}
	}
	if len(results) != n {
		f.tb.Errorf("got results of %d jobs, want %d", len(results), n)
	}
	f.tb.Logf("%d jobs in %.0f s, %d tries more; by worker %v", n, time.Since(f.batches[0].CreatedAt).Seconds(), again, by)
	return results
}

// judgeKilled: what ran on a worker that was killed has been done by another, soon.
func (f *fleetOf) judgeKilled(results map[string]job.Result, ids []string, worker string, killed time.Time) {
	f.tb.Helper()
	var took []time.Duration
	for _, id := range ids {
		r := results[id]
		if onItsWay(r, worker, killed) {
			continue
		}
		if r.Worker == worker || r.Attempt < 2 || r.Timing.FinishedAt == nil {
			f.tb.Errorf("job %s ran on a worker that was killed, and has a result of attempt %d by %s", id, r.Attempt, r.Worker)
			continue
		}
		took = append(took, r.Timing.FinishedAt.Sub(killed).Round(100*time.Millisecond))
		if took[len(took)-1] > redoneWithin {
			f.tb.Errorf("job %s was done again %s after its worker was killed, want %s at most", id, took[len(took)-1], redoneWithin)
		}
	}
	if len(took) == 0 {
		f.tb.Error("nothing of the killed worker had to be done again")
	}
	f.tb.Logf("jobs of the killed worker were done again after %v", took)
}

// onItsWay reports whether a job had ended on the worker by then: what told of it was on its way to Redis, and the record had it as running still.
func onItsWay(r job.Result, worker string, then time.Time) bool {
	return r.Worker == worker && r.Timing.FinishedAt != nil && r.Timing.FinishedAt.Before(then)
}

// judgeBlinked: what a worker did while it was cut off for a moment was taken from it once it was back, or another's by then.
func (f *fleetOf) judgeBlinked(results map[string]job.Result, ids []string, w *fleetWorker) {
	f.tb.Helper()
	own := func(id string) bool { r := results[id]; return r.Worker == w.id && r.Attempt == 1 }
	gbtest.Eventually(f.tb, w.name+" has said what became of each job", func() bool {
		refused, handedBack := w.said(refusedLine), w.said(handedBackLine)
		return !slices.ContainsFunc(ids, func(id string) bool { return !own(id) && !refused[id] && !handedBack[id] })
	})
	refused, handedBack, taken := w.said(refusedLine), w.said(handedBackLine), 0
	for _, id := range ids {
		r, accepted := results[id], own(id)
		if accepted == refused[id] && !handedBack[id] {
			f.tb.Errorf("job %s ran on a worker that was cut off for a moment: its end was accepted %v and refused %v; attempt %d by %s", id, accepted, refused[id], r.Attempt, r.Worker)
		}
		if accepted {
			taken++
		}
	}
	f.tb.Logf("of %d results of the worker that was cut off for a moment, %d were accepted", len(ids), taken)
}

// said are the jobs that such lines of the worker's log name.
func (w *fleetWorker) said(line *regexp.Regexp) map[string]bool {
	ids := map[string]bool{}
	for _, found := range line.FindAllStringSubmatch(w.Output(), -1) {
		ids[found[1]] = true
	}
	return ids
}

// judgeCut: what ran on a worker that was cut off for long has been done by another, and was refused to it as it came back.
func (f *fleetOf) judgeCut(results map[string]job.Result, ids []string, w *fleetWorker, cut, mended time.Time) {
	f.tb.Helper()
	// What it could not upload while it was cut off it wanted to hand back, and was refused that.
	refusals := func() map[string]bool {
		refused := w.said(refusedLine)
		maps.Copy(refused, w.said(staleLine))
		return refused
	}
	gbtest.Eventually(f.tb, w.name+" has said that it was refused its results", func() bool {
		refused := refusals()
		return !slices.ContainsFunc(ids, func(id string) bool { return !onItsWay(results[id], w.id, cut) && !refused[id] })
	})
	refused := refusals()
	for _, id := range ids {
		if r := results[id]; !onItsWay(r, w.id, cut) && (r.Worker == w.id && r.Timing.StartedAt.Before(mended) || !refused[id]) {
			f.tb.Errorf("job %s ran on a worker that was cut off, which was refused its end: %v; its result is of attempt %d by %s", id, refused[id], r.Attempt, r.Worker)
		}
	}
	after := 0
	for _, r := range results {
		if r.Worker == w.id && r.Timing.StartedAt.After(mended) {
			after++
		}
	}
	if after == 0 {
		f.tb.Errorf("%s has ended no job since it was back", w.id)
	}
	f.tb.Logf("the worker that was cut off was refused %d results, and ended %d jobs afterwards", len(refused), after)
}

// deliveredOnce: nobody restarted the receiver or the deliverer, so each job is told of once, with the result that is stored.
func (f *fleetOf) deliveredOnce(results map[string]job.Result) {
	f.tb.Helper()
	f.hook.messages(f.tb, len(results), patience)
	gbtest.Eventually(f.tb, "the deliverer has nothing left, so that no message can come", func() bool {
		d, err := f.records.Depth(f.tb.Context())
		if err != nil {
			f.tb.Fatal(err)
		}
		tasks := d.Deliveries
		for _, q := range d.Queues {
			if q.Name == queue.Delivery || q.Name == queue.DeliveryBacklog {
				tasks += int64(q.Waiting + q.Active + q.Delayed)
			}
		}
		return tasks == 0
	})
	told, ids := map[string]bool{}, map[string]bool{}
	for _, m := range f.hook.messages(f.tb, 0, 0) {
		r, ours := results[m.Result.ID]
		if !ours || told[r.ID] || ids[m.ID] {
			f.tb.Errorf("message %s tells of job %s: of a batch's %v, told of before %v, the same id %v", m.ID, m.Result.ID, ours, told[r.ID], ids[m.ID])
		}
		if m.Result.Attempt != r.Attempt || m.Result.Worker != r.Worker {
			f.tb.Errorf("message %s has the result of attempt %d by %s, and stored is that of %d by %s", m.ID, m.Result.Attempt, m.Result.Worker, r.Attempt, r.Worker)
		}
		told[m.Result.ID], ids[m.ID] = true, true
	}
	if len(told) != len(results) {
		f.tb.Errorf("%d jobs were told of, want %d", len(told), len(results))
	}
}

// cleanedUp: once the killed worker's host has a worker again, no sandbox is left, and no object but those of results.
func (f *fleetOf) cleanedUp(killed *fleetWorker, results map[string]job.Result) {
	f.tb.Helper()
	f.startWorker("GLOVEBOX_INSTANCE=" + killed.instance)
	for _, w := range f.workers {
		f.instance = w.instance
		gbtest.Eventually(f.tb, "no sandbox of "+w.name+" is left", func() bool { return len(f.containers()) == 0 })
	}
	list := make([]job.Result, 0, len(results))
	for _, r := range results {
		list = append(list, r)
	}
	f.nothingLeft(list...)
}
