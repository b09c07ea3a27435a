package record

import "sync"

// waiters maps a job id to those who wait for it.
type waiters struct {
	mu *sync.Mutex
	m  map[string]map[chan struct{}]struct{}
}

func newWaiters() waiters {
	return waiters{mu: &sync.Mutex{}, m: map[string]map[chan struct{}]struct{}{}}
}

func (w waiters) add(id string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.m[id] == nil {
		w.m[id] = map[chan struct{}]struct{}{}
	}
	w.m[id][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.m[id], c)
		if len(w.m[id]) == 0 {
			delete(w.m, id)
		}
	}
}

func (w waiters) wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.m[id] {
		signal(c)
	}
}

// ids are the jobs that somebody waits for.
func (w waiters) ids() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make(map[string]bool, len(w.m))
	for id := range w.m {
		ids[id] = true
	}
	return ids
}

func (w waiters) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, waiting := range w.m {
		for c := range waiting {
			signal(c)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has a wake-up to read already
	}
}
