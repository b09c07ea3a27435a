package record

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// monthKey is what a tenant's jobs cost that ended in a month.
func monthKey(tenant string, at time.Time) string {
	return script.Key(tenant, "usage:"+job.MonthOf(at))
}

// budgetSubject is what an event of a budget is about, without what is spent.
func budgetSubject(tenant, month string, b job.Budget) string {
	return tenant + " " + month + " " + strconv.FormatInt(b.Nano, 10)
}

// checkBudget fails with job.ErrBudget where the tenant's budget is spent. What it lets pass may take it beyond: of
// jobs that are accepted nobody knows yet what they cost.
func (s *Store) checkBudget(ctx context.Context, tenant string, terms job.Terms) error {
	if terms.Budget.Nano == 0 {
		return nil
	}
	now := s.now()
	spent, err := s.spent(ctx, tenant, now)
	if err != nil {
		return err
	}
	if spent >= terms.Budget.Nano {
		return job.ErrBudget(terms.Budget, spent, now)
	}
	return nil
}

// spent is what a tenant's jobs cost that ended in the month so far, billionths: 0 where a worker has spoiled that, which stops nobody's jobs.
func (s *Store) spent(ctx context.Context, tenant string, now time.Time) (int64, error) {
	text, err := s.rdb.HGet(ctx, monthKey(tenant, now), "nano").Result()
	if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return 0, fmt.Errorf("read what is spent: %w", err)
	}
	spent, err := strconv.ParseInt(text, 10, 64)
	if err != nil && text != "" {
		s.unreadable.PassOver("what a month cost", err)
	}
	return spent, nil
}

// budgetState is how far a tenant's budget is spent, nil where it has none.
func (s *Store) budgetState(ctx context.Context, tenant string) (*job.BudgetState, error) {
	terms, err := s.terms(ctx, tenant)
	if err != nil || terms.Budget.Nano == 0 {
		return nil, err
	}
	now := s.now()
	spent, err := s.spent(ctx, tenant, now)
	if err != nil {
		return nil, err
	}
	return &job.BudgetState{Month: job.MonthOf(now), Budget: job.NewCost(terms.Budget.Nano), Spent: job.NewCost(spent)}, nil
}

// ParseBudget reads what an event of a budget is about, which has to be the tenant's: a worker may have written it.
func ParseBudget(tenant, subject string) (b job.BudgetState, ok bool) {
	words := strings.Split(subject, " ")
	if len(words) != 4 || words[0] != tenant {
		return b, false
	}
	_, err := time.Parse("2006-01", words[1])
	budget, err1 := strconv.ParseInt(words[2], 10, 64)
	spent, err2 := strconv.ParseInt(words[3], 10, 64)
	if errors.Join(err, err1, err2) != nil || budget < 0 || spent < 0 {
		return b, false
	}
	return job.BudgetState{Month: words[1], Budget: job.NewCost(budget), Spent: job.NewCost(spent)}, true
}
