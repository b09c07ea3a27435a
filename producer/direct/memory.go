package direct

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/glovebox-run/glovebox/job"
)

// Memory is what answers share: what is large in one is taken before it is read, so
// that however many are asked for, and however slowly they are taken, no more is held.
type Memory interface {
	// Take waits for so many bytes, for a moment, or fails.
	Take(ctx context.Context, bytes int64) error
	// Give gives some of them back.
	Give(bytes int64)
}

// ForAnswer returns a Client for the jobs of a tenant that takes memory for what it reads. It
// gives back what it has passed on (Watch, BatchResults); what it returns is the caller's to
// give back, once that is sent.
func (c *Client) ForAnswer(tenant string, m Memory) *Client {
	other := c.For(tenant)
	other.memory = m
	return other
}

const (
	// answerWeight is how many times its size a result takes, or an event: decoded, and
	// encoded to be sent.
	answerWeight = 2
	// smallResult takes no memory: the connection that it is sent over holds as much.
	smallResult = 8 << 10
	// listedBytes is more than a job or a batch takes in a list, most of it metadata, and
	// bareBytes one without metadata.
	listedBytes = job.MaxMetadataJSON + bareBytes
	bareBytes   = 1 << 10
	// itemErrorBytes is more than the error of a batch's job mostly takes.
	itemErrorBytes = 4 << 10
	// mostTaken is the most that is taken for one thing, however large that is. An api gives one answer more, so even the
	// largest can be read.
	mostTaken = 24 << 20
)

// unlimited is the memory of a Client that nobody shares with others.
type unlimited struct{}

func (unlimited) Take(context.Context, int64) error { return nil }
func (unlimited) Give(int64)                        {}

// reservation is memory that is taken for a moment.
type reservation struct {
	Memory

	taken int64
}

// Take is [Memory.Take].
func (r *reservation) Take(ctx context.Context, bytes int64) error {
	err := r.Memory.Take(ctx, bytes)
	if err == nil {
		r.taken += bytes
	}
	return err
}

// Give is [Memory.Give].
func (r *reservation) Give(bytes int64) {
	r.Memory.Give(bytes)
	r.taken -= bytes
}

// keep gives back all but so much.
func (r *reservation) keep(bytes int64) {
	if r.taken > bytes {
		r.Give(r.taken - bytes)
	}
}

// upTo is memory of which left is taken at most. A caller that needs more goes on with that.
type upTo struct {
	Memory

	left int64
}

// Take is [Memory.Take].
func (u *upTo) Take(ctx context.Context, bytes int64) error {
	bytes = min(bytes, u.left)
	err := u.Memory.Take(ctx, bytes)
	if err == nil {
		u.left -= bytes
	}
	return err
}

// bounded is so much memory, which is waited for.
type bounded struct {
	most int64
	free *semaphore.Weighted
}

func newBounded(bytes int64) bounded { return bounded{bytes, semaphore.NewWeighted(bytes)} }

// Take is [Memory.Take].
func (b bounded) Take(ctx context.Context, bytes int64) error {
	if bytes > b.most {
		return fmt.Errorf("take %d bytes of memory: there are %d", bytes, b.most)
	}
	if err := b.free.Acquire(ctx, bytes); err != nil {
		return fmt.Errorf("wait for %d bytes of memory: %w", bytes, err)
	}
	return nil
}

// Give is [Memory.Give].
func (b bounded) Give(bytes int64) { b.free.Release(bytes) }

// shared is memory of which a tenant has a share at most. A tenant that waits for its own share keeps no other waiting, and whoever needs
// nothing waits for nobody.
type shared struct {
	all   bounded
	share int64

	mu sync.Mutex
	of map[string]*share // of tenants that have some, or wait
}

// share is what a tenant may have.
type share struct {
	bounded

	users int
}

func newShared(bytes, most int64) *shared {
	return &shared{all: newBounded(bytes), share: most, of: map[string]*share{}}
}

// Take waits for so many bytes of a tenant's share.
func (s *shared) Take(ctx context.Context, tenant string, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	own := s.enter(tenant)
	err := own.Take(ctx, bytes)
	if err == nil {
		if err = s.all.Take(ctx, bytes); err != nil {
			own.Give(bytes)
		}
	}
	if err != nil {
		s.leave(tenant)
	}
	return err
}

// Give gives back what one Take took.
func (s *shared) Give(tenant string, bytes int64) {
	if bytes == 0 {
		return
	}
	s.all.Give(bytes)
	s.leave(tenant).Give(bytes)
}

func (s *shared) enter(tenant string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[tenant]
	if own == nil {
		own = &share{bounded: newBounded(s.share)}
		s.of[tenant] = own
	}
	own.users++
	return own
}

// leave forgets a tenant's share with its last user.
func (s *shared) leave(tenant string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[tenant]
	if own.users--; own.users == 0 {
		delete(s.of, tenant)
	}
	return own
}

// takeListed takes memory for a list of so many, before it is read. What keeps less is given
// back once it was.
func (c *Client) takeListed(ctx context.Context, limit int) (*reservation, error) {
	l := &reservation{Memory: c.memory}
	return l, l.Take(ctx, answerWeight*listedBytes*int64(limit))
}

// listed is what one of a list takes.
func listed(metadata map[string]string) int64 {
	if len(metadata) == 0 {
		return answerWeight * bareBytes
	}
	return answerWeight * listedBytes
}
