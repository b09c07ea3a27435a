package direct

import (
	"context"
	"errors"
	"time"
)

// ErrNotYet is of a message that can't be written before what it is about has ended.
var ErrNotYet = errors.New("what the message is about has not ended")

// Messages are Clients for messages to webhooks, of all tenants. What these take of memory while they are written is bounded, however many
// are at once, and a tenant has a half of it at most.
type Messages struct {
	client   *Client
	memory   *shared
	patience time.Duration
}

// Messages returns those that take so much memory together, bytes, and wait so long for it.
func (c *Client) Messages(bytes int64, patience time.Duration) *Messages {
	return &Messages{c, newShared(bytes, bytes/2), patience}
}

// Of returns a Client for a message of the tenant. What it reads is held until done, and fails with [context.DeadlineExceeded] where others
// have held what it takes for too long.
func (m *Messages) Of(tenant string) (c *Client, done func()) {
	held := &messageMemory{of: m, tenant: tenant, left: m.memory.share}
	return m.client.ForAnswer(tenant, held), held.giveAll
}

// messageWeight is how many times what an answer takes a message does: it is encoded again until what is cut of it is enough.
const messageWeight = 2

// messageMemory is the memory of one message.
type messageMemory struct {
	of     *Messages
	tenant string
	taken  []int64 // by each Take: shared counts those who hold some
	left   int64   // of the tenant's share: a message that needs more goes on without
}

// Take is [Memory.Take].
func (m *messageMemory) Take(ctx context.Context, bytes int64) error {
	ctx, cancel := context.WithTimeout(ctx, m.of.patience)
	defer cancel()
	bytes = min(messageWeight*bytes, m.left)
	err := m.of.memory.Take(ctx, m.tenant, bytes)
	if err == nil {
		m.taken, m.left = append(m.taken, bytes), m.left-bytes
	}
	return err
}

// Give is [Memory.Give]. A message is written within moments: all is given back then.
func (m *messageMemory) Give(int64) {}

func (m *messageMemory) giveAll() {
	for _, bytes := range m.taken {
		m.of.memory.Give(m.tenant, bytes)
	}
	m.taken = nil
}
