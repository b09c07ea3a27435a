package autoscale

import "time"

// Load is what there is to do at one time, for the workers of one pool.
type Load struct {
	// Pool is its name, as [Pools.Name] has it.
	Pool    string
	At      time.Time
	Tenants []Tenant
	// Oldest is how long the job has waited that waits longest, of those that only a worker is missing for.
	Oldest time.Duration
	// Workers take jobs, Paused ones live and take none. Those that an operator has drained are neither.
	Workers, Paused int
	// Sessions are open: a worker holds each.
	Sessions int64
}

// Tenant is what there is to do of one.
type Tenant struct {
	Name string
	// Queued jobs wait, Running ones have a worker, Soon ones come due before a worker has started.
	Queued, Running, Soon int64
	// Quota is how many of its jobs may run at once, 0 for any number.
	Quota int64
	// Ended counts its jobs that have run. It may begin again at 0, as it does at midnight.
	Ended int64
}

// most is n, bounded by the tenant's quota.
func (t Tenant) most(n float64) float64 {
	if t.Quota > 0 {
		return min(n, float64(t.Quota))
	}
	return n
}

// sum is the work of all tenants, each bounded by its quota.
type sum struct{ waiting, running, jobs float64 }

func (l Load) sum() (s sum) {
	for _, t := range l.Tenants {
		running := max(t.Running, 0)
		all := t.most(float64(running + max(t.Queued, 0) + max(t.Soon, 0)))
		s.running += float64(running)
		s.waiting += max(all-float64(running), 0)
		s.jobs += float64(max(t.Queued, 0) + running + max(t.Soon, 0))
	}
	return s
}
