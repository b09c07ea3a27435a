package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// TenantRecord is a tenant, with what proves its tokens.
type TenantRecord struct {
	job.Tenant

	proofs []provenToken
}

// CreateTenant writes the record of a new tenant, which has no token yet. It fails with
// job.ErrTenantExists. The caller has checked name and terms.
func (s *Store) CreateTenant(ctx context.Context, name string, terms job.Terms) (TenantRecord, error) {
	b, err := json.Marshal(terms)
	if err != nil {
		return TenantRecord{}, fmt.Errorf("encode terms: %w", err)
	}
	if err := s.rdb.SAdd(ctx, tenantsKey, name).Err(); err != nil {
		return TenantRecord{}, fmt.Errorf("create tenant: %w", err)
	}
	answer, err := createTenantScript.Run(ctx, s.lasting, name, script.Args{"now": s.now(), "terms": b}).Text()
	if err != nil {
		return TenantRecord{}, fmt.Errorf("create tenant: %w", err)
	}
	if answer == "exists" {
		return TenantRecord{}, job.ErrTenantExists
	}
	s.tenants.forget(name)
	return s.ReadTenant(ctx, name)
}

// SetTerms replaces the terms of a tenant, if they are still those of that revision. It
// fails with job.ErrNoTenant or job.ErrRevision. The caller has checked the terms.
func (s *Store) SetTerms(ctx context.Context, name string, revision int64, terms job.Terms) (TenantRecord, error) {
	b, err := json.Marshal(terms)
	if err != nil {
		return TenantRecord{}, fmt.Errorf("encode terms: %w", err)
	}
	now, budget := s.now(), terms.Budget
	of := budgetSubject(name, job.MonthOf(now), budget)
	answer, err := setTermsScript.Run(ctx, s.lasting, name, script.Args{
		"revision": revision, "terms": b, "now": now, "month": job.MonthOf(now), "budget": budget.Nano, "warn_at": budget.WarnAt(), "budget_of": of,
		"warning": MessageID(of, job.EventBudgetWarning), "exceeded": MessageID(of, job.EventBudgetExceeded), "retention": s.retention,
	}).StringSlice()
	switch {
	case err != nil:
		return TenantRecord{}, fmt.Errorf("set terms of tenant: %w", err)
	case answer[0] == "missing":
		return TenantRecord{}, job.ErrNoTenant
	case answer[0] == "stale":
		return TenantRecord{}, job.ErrRevision
	}
	s.enqueueFirstDelivery(ctx, name, answer[1])
	s.tenants.forget(name)
	return s.ReadTenant(ctx, name)
}

// ReadTenant returns a tenant as it is now, with what it uses, or job.ErrNoTenant.
func (s *Store) ReadTenant(ctx context.Context, name string) (TenantRecord, error) {
	if !job.ValidTenant(name) {
		return TenantRecord{}, job.ErrNoTenant
	}
	list, err := s.readTenants(ctx, name)
	if err != nil {
		return TenantRecord{}, err
	}
	if len(list) == 0 {
		return TenantRecord{}, job.ErrNoTenant
	}
	return list[0], nil
}

// readTerms returns a tenant without what it uses: one command, which a worker
// may send, too, and which a stranger with a made-up token makes an api send.
func (s *Store) readTerms(ctx context.Context, name string) (TenantRecord, error) {
	f, err := s.rdb.HGetAll(ctx, tenantKey(name)).Result()
	switch {
	case err != nil:
		return TenantRecord{}, fmt.Errorf("read tenant %s: %w", name, err)
	case len(f) == 0:
		return TenantRecord{}, job.ErrNoTenant
	}
	return parseTenant(name, f, nil)
}

// Tenants lists the tenants that have a record, by name.
func (s *Store) Tenants(ctx context.Context) ([]TenantRecord, error) {
	names, err := s.rdb.SMembers(ctx, tenantsKey).Result()
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	slices.Sort(names)
	return s.readTenants(ctx, names...)
}

// readTenants leaves out those that have no record.
func (s *Store) readTenants(ctx context.Context, names ...string) ([]TenantRecord, error) {
	type answer struct {
		record  *redis.MapStringStringCmd
		queued  func() int64
		bytes   *redis.StringCmd
		running *redis.IntCmd
		stored  *redis.StringCmd
		taken   func() (int64, error)
		used    *redis.MapStringStringCmd
	}
	if len(names) == 0 {
		return nil, nil
	}
	answers := make([]answer, len(names))
	pipe := s.rdb.Pipeline()
	for i, name := range names {
		answers[i] = answer{
			pipe.HGetAll(ctx, tenantKey(name)), countQueued(ctx, pipe, name), pipe.Get(ctx, queuedKey(name)), pipe.HLen(ctx, runningKey(name)),
			pipe.Get(ctx, storedKey(name)), s.countRecorded(ctx, pipe, name), pipe.HGetAll(ctx, tokenUseKey(name)),
		}
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return nil, fmt.Errorf("read tenants: %w", err)
	}
	var list []TenantRecord
	for i, name := range names {
		if err := answers[i].record.Err(); err != nil {
			return nil, fmt.Errorf("read tenant %s: %w", name, err)
		}
		if len(answers[i].record.Val()) == 0 {
			continue
		}
		t, err := parseTenant(name, answers[i].record.Val(), answers[i].used.Val())
		if err != nil {
			return nil, err
		}
		t.Usage.JobsQueued, t.Usage.Running = answers[i].queued(), answers[i].running.Val()
		if t.Usage.BytesQueued, err = s.sum(answers[i].bytes); err != nil {
			return nil, fmt.Errorf("read bytes queued of tenant %s: %w", name, err)
		}
		if t.Usage.BytesStored, err = s.sum(answers[i].stored); err != nil {
			return nil, fmt.Errorf("read bytes stored of tenant %s: %w", name, err)
		}
		if t.Usage.BytesRecorded, err = answers[i].taken(); err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

func parseTenant(name string, f, used map[string]string) (TenantRecord, error) {
	t := TenantRecord{Tenant: job.Tenant{Name: name, Tokens: []job.Token{}}}
	created, err := strconv.ParseInt(f["created"], 10, 64)
	t.CreatedAt = time.UnixMilli(created).UTC()
	var revisionErr error
	t.Revision, revisionErr = strconv.ParseInt(f["revision"], 10, 64)
	err = errors.Join(err, revisionErr, json.Unmarshal([]byte(f["terms"]), &t.Terms))
	for field, value := range f {
		id, ok := strings.CutPrefix(field, tokenField)
		if !ok {
			continue
		}
		var stored storedToken
		err = errors.Join(err, json.Unmarshal([]byte(value), &stored))
		last, _ := strconv.ParseInt(used[id], 10, 64) // 0 for one that is not known to have been used
		token := stored.wire(id, last)
		t.Tokens = append(t.Tokens, token)
		t.proofs = append(t.proofs, provenToken{stored.Hash, token})
	}
	if err != nil { // a record that can't be read must not admit anybody
		return TenantRecord{}, fmt.Errorf("read record of tenant %s: %w", name, err)
	}
	slices.SortFunc(t.Tokens, func(a, b job.Token) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return t, nil
}
