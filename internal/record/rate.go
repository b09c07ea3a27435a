package record

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
)

// RateWindow is the time that a quota of requests is for.
const RateWindow = time.Minute

// Rate is what one request left of its tenant's quota.
type Rate struct {
	// Wait until such a request would be admitted; 0 for one that is.
	Wait time.Duration
	// Remaining requests that would be admitted at once.
	Remaining int64
	// Reset is when the whole quota is there again, if nothing more is asked.
	Reset time.Duration
}

// TakeRequest takes one request from the tenant's quota, which all processes share. One
// that is not admitted takes nothing.
func (s *Store) TakeRequest(ctx context.Context, tenant string, perMinute int64) (Rate, error) {
	answer, err := takeRequestScript.Run(ctx, s.rdb, tenant, script.Args{"quota": perMinute}).Int64Slice()
	if err != nil {
		return Rate{}, fmt.Errorf("take request from quota: %w", err)
	}
	return Rate{time.Duration(answer[0]) * time.Microsecond, answer[1], time.Duration(answer[2]) * time.Microsecond}, nil
}
