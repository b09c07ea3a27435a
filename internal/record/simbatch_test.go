package record

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/glovebox-run/glovebox/job"
)

// batchOp sends a batch, some of whose jobs are refused, or a part of it. A sender with a key sends it again.
func batchOp(ctx context.Context, l *lane) {
	w, tenant := l.p.w, pick(l.p.w.rng, simTenants)
	var o job.BatchOptions
	if w.chance(2) {
		o.Callback = &job.Callback{URL: "https://example.com/batch"}
	}
	seed := w.rng.Uint64()
	if w.chance(2) {
		n := uint64(w.rng.IntN(2))
		o = job.BatchOptions{IdempotencyKey: fmt.Sprintf("batch %d", n)} // the same for all who send it
		seed = n
	}
	n, whole := 1+int(seed%5), !w.chance(4)
	l.again(1+w.rng.IntN(3), func() error {
		b, _, err := l.p.store.OpenBatch(ctx, tenant, o)
		if err != nil {
			return err
		}
		w.ledger.batches[b.ID] = true
		var jobs []NewJob
		for i := range n {
			spec := job.Spec{Runtime: "python", Source: strconv.Itoa(i)}
			text, err := json.Marshal(spec)
			if err != nil {
				return err
			}
			fingerprint := NewFingerprint(text)
			if (seed>>(8+i))%4 == 0 {
				err := l.p.store.Reject(ctx, b.ID, []Fingerprint{fingerprint}, []job.ItemError{{Index: i, Code: "invalid"}})
				if err != nil {
					return err
				}
				continue
			}
			j := NewJob{ID: job.ItemID(b.ID, i), Spec: spec, JSON: text, Index: i, Fingerprint: fingerprint}
			if w.chance(8) {
				j.Hold = w.newHold(l.p.store.now())
			}
			jobs = append(jobs, j)
			if w.chance(3) {
				if err := l.addToBatch(ctx, b.ID, jobs); err != nil {
					return err
				}
				jobs = nil
			}
		}
		if err := l.addToBatch(ctx, b.ID, jobs); err != nil || !whole {
			return err
		}
		_, err = l.p.store.SealBatch(ctx, b.ID, n)
		return err
	})
}

func (l *lane) addToBatch(ctx context.Context, batch string, jobs []NewJob) error {
	if len(jobs) == 0 {
		return nil
	}
	err := l.p.store.AddToBatch(ctx, batch, jobs)
	if err == nil {
		for _, j := range jobs {
			l.p.w.ledger.accepted(j.ID, false, false)
		}
	}
	return err
}

func cancelBatchOp(ctx context.Context, l *lane) {
	w := l.p.w
	id, ok := w.ledger.someBatch(w.rng)
	if !ok {
		return
	}
	l.again(1+w.rng.IntN(2), func() error {
		_, err := l.p.store.CancelBatch(ctx, id)
		return err
	})
}
