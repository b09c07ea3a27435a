package record

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
)

// page is how many entries of one tenant a pass over a sorted set takes.
const page = 500

// claims says what to claim of each tenant.
type claims struct {
	// set is the sorted set that lists when the entries are due: "open".
	set string
	// overdue is for how long they have to be due.
	overdue time.Duration
	// until is when they are due again, if nothing becomes of them.
	until time.Time
	// record is what the keys of their records begin with, "job:", and fields what to read of
	// them, first one that each has. An entry without a record is taken out of the set.
	record string
	fields []string
}

// due is an entry whose time has come. It has the fields that were asked for, "" for one
// that is not there; none of one whose record is none.
type due struct {
	tenant, id string
	fields     []string
}

// claim lists what is due of these tenants, some 500, and puts it off in the same step: no other
// process finds it meanwhile, and one for which something fails holds up no other.
// errs are of tenants for which it fails.
func (w *Sweeper) claim(ctx context.Context, tenants []string, c claims) (list []due, errs []error, err error) {
	tenants, err = w.Records.whereDue(ctx, tenants, func(tenant string) string { return script.Key(tenant, c.set) }, c.overdue)
	if err != nil || len(tenants) == 0 {
		return nil, nil, err
	}
	var fields []any
	for _, f := range c.fields {
		fields = append(fields, f)
	}
	answers, err := runEach(ctx, w.Records, claimScript, tenants, func(string) script.Args {
		return script.Args{"set": c.set, "by": w.Records.now().Add(-c.overdue), "again": c.until, "record": c.record}
	}, fields...)
	if err != nil {
		return nil, nil, fmt.Errorf("claim what is due in %s: %w", c.set, err)
	}
	for i, a := range answers {
		entries, err := a.Slice()
		if err != nil {
			errs = append(errs, fmt.Errorf("claim what is due in %s of tenant %s: %w", c.set, tenants[i], err))
		}
		for _, entry := range entries {
			d := due{tenant: tenants[i]}
			for n, word := range entry.([]any) {
				text, _ := word.(string)
				if n == 0 {
					d.id = text
				} else {
					d.fields = append(d.fields, text)
				}
			}
			list = append(list, d)
		}
	}
	return list, errs, nil
}

// whereDue lists those of these tenants that have something in the set which is due, for
// overdue at least.
func (s *Store) whereDue(ctx context.Context, tenants []string, set func(tenant string) string, overdue time.Duration) (some []string, err error) {
	until := strconv.FormatInt(ms(s.now().Add(-overdue)), 10)
	for group := range slices.Chunk(tenants, redisconn.AtOnce) {
		counts, err := redisconn.Ask(ctx, s.rdb, group, func(pipe redis.Pipeliner, tenant string) *redis.IntCmd {
			return pipe.ZCount(ctx, set(tenant), "-inf", until)
		})
		if err != nil {
			return nil, fmt.Errorf("look for what is due: %w", err)
		}
		for i, tenant := range group {
			if counts[i].Val() > 0 || counts[i].Err() != nil { // who looks closer says what is wrong
				some = append(some, tenant)
			}
		}
	}
	return some, nil
}
