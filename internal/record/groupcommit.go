package record

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
)

// groupCommit gathers the jobs of a tenant that come while a call of the create script is under
// way: they share the next call. A job that comes alone waits for nobody.
type groupCommit struct {
	mu      sync.Mutex
	waiting map[string][]*waitingJob // by tenant, which has an entry while a call is under way
}

type waitingJob struct {
	NewJob
	created Created
	err     error
	done    chan struct{} // closed once created and err are set
}

// CreateOne is CreateMany of one job, whose JSON the caller has encoded. When ctx ends before the
// job's turn has come, nothing was accepted; later, and with any other error, nobody knows.
func (s *Store) CreateOne(ctx context.Context, tenant string, j NewJob) (Created, error) {
	w, first := s.group.join(tenant, j)
	if first {
		defer s.createWaiting(tenant) //nolint:contextcheck // of others, who have contexts of their own
		created, err := s.CreateMany(ctx, tenant, []NewJob{j})
		if err != nil {
			return Created{}, err
		}
		return created[0], nil
	}
	select {
	case <-w.done:
		return w.created, w.err
	case <-ctx.Done():
		s.group.leave(tenant, w)
		return Created{}, ctx.Err()
	}
}

// createWaiting creates the jobs that have come meanwhile, in the background, until there are none.
func (s *Store) createWaiting(tenant string) {
	group := s.group.take(tenant)
	if len(group) == 0 {
		return
	}
	go func() {
		for ; len(group) > 0; group = s.group.take(tenant) {
			s.createGroup(tenant, group)
		}
	}()
}

// createGroup creates the jobs in one call. A call that fails, fails for all whose jobs it has not
// created; and so does one that panics, which a request of its own would have survived, too.
func (s *Store) createGroup(tenant string, group []*waitingJob) {
	jobs := make([]NewJob, len(group))
	for i, w := range group {
		jobs[i] = w.NewJob
	}
	var created []Created
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("create jobs: panic: %v", p)
			s.log.Error("panic while jobs were created", "tenant", tenant, "panic", p, "stack", string(debug.Stack()))
		}
		for i, w := range group {
			if i < len(created) {
				w.created = created[i]
			} else {
				w.err = err
			}
			close(w.done)
		}
	}()
	created, err = s.CreateMany(context.Background(), tenant, jobs)
}

// join has a job wait, or says that it is the first: no call is under way.
func (g *groupCommit) join(tenant string, j NewJob) (w *waitingJob, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting, underWay := g.waiting[tenant]
	if !underWay {
		g.waiting[tenant] = nil
		return nil, true
	}
	// A caller whose context has ended may change what is its own while the call goes on.
	j.Spec.Files, j.Spec.Metadata, j.Spec.Placement = slices.Clone(j.Spec.Files), maps.Clone(j.Spec.Metadata), maps.Clone(j.Spec.Placement)
	if j.Spec.Callback != nil {
		callback := *j.Spec.Callback
		j.Spec.Callback = &callback
	}
	w = &waitingJob{NewJob: j, done: make(chan struct{})}
	g.waiting[tenant] = append(waiting, w)
	return w, false
}

// leave takes back a job that still waits.
func (g *groupCommit) leave(tenant string, w *waitingJob) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting[tenant], w); i >= 0 {
		g.waiting[tenant] = slices.Delete(g.waiting[tenant], i, i+1)
	}
}

// take takes as many as go into one call. Without any, no call is under way any more.
func (g *groupCommit) take(tenant string) []*waitingJob {
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := g.waiting[tenant]
	if len(waiting) == 0 {
		delete(g.waiting, tenant)
		return nil
	}
	n := min(len(waiting), createMost)
	g.waiting[tenant] = slices.Clone(waiting[n:])
	return waiting[:n]
}
