package record

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

// ledger is what is known from outside of the records: what callers were told, and what
// was seen when somebody looked.
type ledger struct {
	jobs    map[string]*entry
	order   []string
	batches map[string]bool
	posted  map[string]int          // attempts by delivery
	bucket  map[string]map[int]bool // job → epochs whose objects are there
	purged  map[string]bool
	final   map[string]job.BatchStatus // of batches
}

// entry is what is known of a job.
type entry struct {
	accepted bool
	callback bool
	ended    []string // who was told that it ended the job
	end      *seenEnd
}

// seenEnd is the end of a job as it was first seen.
type seenEnd struct {
	state, ref, result, delivery string
}

func newLedger() ledger {
	return ledger{
		jobs: map[string]*entry{}, batches: map[string]bool{}, posted: map[string]int{}, bucket: map[string]map[int]bool{},
		purged: map[string]bool{}, final: map[string]job.BatchStatus{},
	}
}

func (l *ledger) entry(id string) *entry {
	e := l.jobs[id]
	if e == nil {
		e = &entry{}
		l.jobs[id] = e
		l.order = append(l.order, id)
	}
	return e
}

// accepted notes that a caller was told so. again says that an earlier call had made the job.
func (l *ledger) accepted(id string, callback, again bool) {
	e := l.entry(id)
	e.accepted = true
	e.callback = e.callback || callback && !again
}

func (w *world) ended(id, by string) {
	e := w.ledger.entry(id)
	if e.ended = append(e.ended, by); len(e.ended) > 1 {
		w.fail("job %s was ended more than once: %q", id, e.ended)
	}
}

func (l *ledger) someJob(rng *rand.Rand) (string, bool) {
	if len(l.order) == 0 {
		return "", false
	}
	return l.order[rng.IntN(len(l.order))], true
}

func (l *ledger) someBatch(rng *rand.Rand) (string, bool) {
	if len(l.batches) == 0 {
		return "", false
	}
	ids := make([]string, 0, len(l.batches))
	for id := range l.batches {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[rng.IntN(len(ids))], true
}

// put notes that a try wrote its objects.
func (l *ledger) put(id string, epoch int) {
	if l.bucket[id] == nil {
		l.bucket[id] = map[int]bool{}
	}
	l.bucket[id][epoch] = true
}

func (l *ledger) discard(id string, epoch int) {
	delete(l.bucket[id], epoch)
	if len(l.bucket[id]) == 0 {
		delete(l.bucket, id)
	}
}

// deleteObjects is what the sweeper calls: all objects of a job but those of epoch keep.
func (l *ledger) deleteObjects(_ context.Context, _, id string, keep int) error {
	for epoch := range l.bucket[id] {
		if epoch != keep {
			l.discard(id, epoch)
		}
	}
	return nil
}

func (e *seenEnd) String() string { return fmt.Sprintf("%+v", *e) }
