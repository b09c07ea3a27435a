package record

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// What a tenant's records take of Redis is counted from when they are written until they
// are forgotten, in the scripts that do it (docs/adr/0020-memory.md). A record counts so many bytes,
// whatever state it is in, and its text besides; TestMemoryIsCounted measures that a real
// Redis takes no more.
const (
	jobCost      = 3072
	callbackCost = 512 + deliveryLog*attemptCost // a delivery that is done; its URL is text, kept twice
	// endpointDeliveryCost is a delivery to an endpoint that is done.
	endpointDeliveryCost = 768 + deliveryLog*attemptCost
	attemptCost          = 512 // what is told of an attempt: half of what it may take, as few fail five times, in many words
	batchCost            = 1536
	sessionCost          = 2560
	contextCost          = 1536
	itemCost             = 16 // a job's fingerprint in its batch
	runCost              = 2048
	runItemCost          = 128 // what is known of a job in its run
	// runMost bounds what is decided about a run's steps, with what was noted before. It is read as a whole, at several times its size, out of the memory
	// that answers share: what is noted later comes on top, which is items, and why the first mostWhys jobs were refused.
	runMost      = 2 << 20
	mostWhys     = 100
	faultCost    = 128
	uploadCost   = 512
	problemCost  = 1024 // with its head, which has a name of up to 200 bytes
	pinCost      = 160  // an upload that a problem has
	gradedCost   = 256  // that a problem graded a job
	keyCost      = 768  // also how a callback's host does
	deliveryCost = 1024 // what a pending delivery takes besides: its outbox entry and task
)

// deliveryCheck is when a delivery is looked at again that counts and whose time is over: one that is pending stays.
const deliveryCheck = time.Minute

// DefaultRecordBytes is the quota bytes_recorded of tenants whose terms name none.
const DefaultRecordBytes = 1 << 30

// textCost is what so many bytes of text take: Redis's allocator rounds up by a quarter at most.
func textCost(n int) int { return n + n/4 }

// jobMemory is what a new job counts: its spec, if the record holds it, and what of it is a field besides.
func jobMemory(spec job.Spec, inline, metadata []byte) int {
	n := jobCost + textCost(len(inline)) + textCost(len(metadata)) + textCost(len(spec.Image))
	if spec.Problem != "" {
		n += textCost(len(spec.Problem))
	}
	if spec.Callback != nil {
		n += callbackCost + 2*textCost(len(spec.Callback.URL))
	}
	return n
}

// mostRecorded is the quota bytes_recorded of a tenant with these terms.
func (s *Store) mostRecorded(t job.Terms) int64 {
	if t.Quotas.BytesRecorded > 0 {
		return t.Quotas.BytesRecorded
	}
	return s.recordBytes
}

func lastingDeliveriesKey(tenant string) string { return script.Key(tenant, "lasting:deliveries") }

// countRecorded asks what the tenant's records take. The number is there once the
// pipeline was executed.
func (s *Store) countRecorded(ctx context.Context, pipe redis.Pipeliner, tenant string) func() (int64, error) {
	bytes := pipe.Get(ctx, recordedKey(tenant))
	keys, last, pending := pipe.ZCard(ctx, lastingKey(tenant)), pipe.ZCard(ctx, lastingDeliveriesKey(tenant)), pipe.ZCard(ctx, outboxKey(tenant))
	return func() (int64, error) {
		n, err := s.sum(bytes)
		if err != nil {
			return 0, fmt.Errorf("read bytes recorded of tenant %s: %w", tenant, err)
		}
		return n + keys.Val()*keyCost + last.Val()*endpointDeliveryCost + pending.Val()*deliveryCost, nil
	}
}

// overRecorded is what is said to a tenant whose records take as much as they may.
func overRecorded(most int64) error {
	return &job.Error{
		Code: job.CodeQuotaExceeded,
		Message: "the tenant's quota bytes_recorded (" + strconv.FormatInt(most, 10) +
			") has no room for another record: purge jobs, or wait until some are no longer kept",
	}
}
