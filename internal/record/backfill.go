package record

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Past is something that has ended, and of which an endpoint is to be told.
type Past struct {
	Event string
	// JobID, BatchID or RunID is what the event is about.
	JobID, BatchID, RunID string
	Ended                 time.Time
	// Expires is when a job is kept no longer, zero for others.
	Expires time.Time
}

// kind is what an event is about, as a delivery's record names it, and its id.
func (p Past) kind() (name, id string) {
	switch {
	case p.JobID != "":
		return "job", p.JobID
	case p.BatchID != "":
		return "batch", p.BatchID
	}
	return "run", p.RunID
}

// PositionAt is where those end in a list that were created before that time.
func PositionAt(t time.Time) Position { return position(t, "") }

// Backfill makes deliveries to an endpoint of what has ended before, as far as there are none: those that have failed are made
// once more. It returns how many it made. It fails with job.ErrNoEndpoint, or with job.ErrOverQuota where the tenant's records have
// no room for more.
func (s *Store) Backfill(ctx context.Context, tenant, endpoint string, list []Past) (made int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return 0, fmt.Errorf("deliver the past: %w", err)
	}
	most, now := s.mostRecorded(terms), s.now()
	ids, rest := make([]string, len(list)), make([]any, 0, 6*len(list))
	for i, p := range list {
		kind, id := p.kind()
		ids[i] = DeliveryID(id, p.Event, endpoint)
		expires := ""
		if !p.Expires.IsZero() {
			expires = fmt.Sprint(ms(p.Expires))
		}
		rest = append(rest, ids[i], p.Event, kind, id, ms(p.Ended), expires)
	}
	answer, err := backfillScript.Run(ctx, s.rdb, tenant, script.Args{
		"endpoint": endpoint, "now": now, "again": now.Add(waitCheck), "most_recorded": most,
	}, rest...).Slice()
	if err != nil {
		return 0, fmt.Errorf("deliver the past: %w", err)
	}
	s.enqueueDeliveries(ctx, tenant, answer[1])
	var failed []string
	words, _ := answer[0].([]any)
	for i, word := range words {
		switch DeliveryState(fmt.Sprint(word)) {
		case "missing":
			return 0, job.ErrNoEndpoint
		case "bytes_recorded":
			err = overRecorded(most)
		case "made":
			made++
		case Exhausted, Gone:
			failed = append(failed, ids[i])
		}
	}
	if err != nil || len(failed) == 0 {
		return made, err
	}
	again, err := s.Redeliver(ctx, tenant, failed)
	for _, word := range again {
		if word == RedeliverOK {
			made++
		}
	}
	return made, err
}
