package api

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// preferredWait reads wait=SECONDS from a Prefer header (RFC 7240). A preference that
// makes no sense is no preference, as the RFC has it; one beyond most is cut.
func preferredWait(prefer string, most time.Duration) time.Duration {
	for _, one := range strings.Split(prefer, ",") {
		one, _, _ = strings.Cut(one, ";")
		name, value, _ := strings.Cut(one, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"`)
		seconds, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return 0
		}
		return min(time.Duration(seconds)*time.Second, most) // the first counts
	}
	return 0
}

// wait returns the job when it has ended, or as it is when d has passed or the API
// drains.
func (a *API) wait(ctx context.Context, client *direct.Client, id string, d time.Duration) (producer.Job, error) {
	return held(ctx, a, id, d, client.Wait, client.Get)
}

// held waits for so long, or until the API drains, and then gets what there is.
func held[T any](ctx context.Context, a *API, id string, d time.Duration, wait, get func(context.Context, string) (T, error)) (T, error) {
	waiting, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	defer context.AfterFunc(a.draining, cancel)() //nolint:contextcheck // it ends the wait, beside ctx
	v, err := wait(waiting, id)
	if waiting.Err() != nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return get(ctx, id)
	}
	return v, err
}
