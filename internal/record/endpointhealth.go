package record

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// AddHealth says of each endpoint of the tenant how deliveries to it go.
func (s *Store) AddHealth(ctx context.Context, tenant string, list []job.Endpoint) error {
	if len(list) == 0 {
		return nil
	}
	pipe := s.rdb.Pipeline()
	lanes, waiting := make([]*redis.MapStringStringCmd, len(list)), make([]*redis.IntCmd, len(list))
	for i, e := range list {
		lanes[i], waiting[i] = pipe.HGetAll(ctx, endpointLaneKey(tenant, e.ID)), pipe.ZCard(ctx, endpointLaneKey(tenant, e.ID)+":waiting")
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return fmt.Errorf("read health of endpoints: %w", err)
	}
	for i := range list {
		h, err := parseHealth(list[i].ID, lanes[i].Val(), s.now())
		if err != nil {
			return err
		}
		h.Waiting = waiting[i].Val()
		if list[i].Disabled {
			h.State = job.EndpointDisabled
		}
		list[i].Health = h
	}
	return nil
}

func parseHealth(id string, f map[string]string, now time.Time) (job.EndpointHealth, error) {
	r := fields{of: "health of endpoint " + id, f: f}
	at := func(name string) *time.Time {
		if t := r.at(name); !t.IsZero() {
			return &t
		}
		return nil
	}
	h := job.EndpointHealth{
		State: job.EndpointOK, FailingSince: at("failing"), DisabledAt: at("disabled"), LastAt: at("last"), LastStatus: int(r.number("status")), LastError: f["error"],
	}
	if pause := at("pause"); pause != nil && pause.After(now) {
		h.NextAt = pause
	}
	switch {
	case h.DisabledAt != nil:
		h.State, h.Reason = job.EndpointDisabled, ReasonOf(f["reason"])
	case h.FailingSince != nil:
		h.State = job.EndpointFailing
	}
	return h, r.err
}

// ReasonOf says in words why an endpoint was disabled, "" where it was not.
func ReasonOf(word string) string {
	switch word {
	case "gone":
		return "it answered 410"
	case "delivered":
		return ""
	}
	return "nothing could be delivered to it for days"
}

// EndpointAttempts lists attempts at deliveries to an endpoint, the newest first: at most limit,
// older than the one that before names, if it does. next names the last, where there may be more.
func (s *Store) EndpointAttempts(ctx context.Context, tenant, id, before string, limit int) (list []job.DeliveryAttempt, next string, err error) {
	top := "+"
	if before != "" {
		top = "(" + before
	}
	entries, err := s.rdb.XRevRangeN(ctx, attemptsKey(tenant, id), top, "-", int64(limit)).Result()
	if err != nil {
		return nil, "", fmt.Errorf("list attempts at endpoint: %w", err)
	}
	list = make([]job.DeliveryAttempt, 0, len(entries))
	for _, e := range entries {
		text, _ := e.Values["entry"].(string)
		a, err := unmarshalAttempt(text)
		if err != nil {
			return nil, "", fmt.Errorf("read attempt %s at endpoint %s: %w", e.ID, id, err)
		}
		a.DeliveryID, _ = e.Values["id"].(string)
		list = append(list, a)
		next = e.ID
	}
	if len(entries) < limit {
		next = ""
	}
	return list, next, nil
}

// FailedDeliveries lists at most limit deliveries to an endpoint that failed between these times,
// the oldest first.
func (s *Store) FailedDeliveries(ctx context.Context, tenant, id string, since, until time.Time, limit int) ([]string, error) {
	ids, err := s.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: failedKey(tenant, id), ByScore: true, Start: ms(since), Stop: ms(until), Count: int64(limit),
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("list failed deliveries to endpoint: %w", err)
	}
	return ids, nil
}

// ForgetFailed takes deliveries out of those that failed.
func (s *Store) ForgetFailed(ctx context.Context, tenant, id string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	members := make([]any, len(ids))
	for i, did := range ids {
		members[i] = did
	}
	if err := s.rdb.ZRem(ctx, failedKey(tenant, id), members...).Err(); err != nil {
		return fmt.Errorf("forget failed deliveries to endpoint: %w", err)
	}
	return nil
}
