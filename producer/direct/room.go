package direct

import (
	"context"

	"github.com/glovebox-run/glovebox/job"
)

// Room is memory that answers share: what is large in one is taken before it is read, so
// that however many are asked for, and however slowly they are taken, no more is held.
type Room interface {
	// Take waits for so many bytes, for a moment, or fails.
	Take(ctx context.Context, bytes int64) error
	// Give gives some of them back.
	Give(bytes int64)
}

// ForAnswer returns a Client for the jobs of a tenant that takes room for what it reads. It
// gives back what it has passed on (Watch, BatchResults); what it returns is the caller's to
// give back, once that is sent.
func (c *Client) ForAnswer(tenant string, r Room) *Client {
	other := c.For(tenant)
	other.room = r
	return other
}

const (
	// answerWeight is how many times its size a result takes, or an event: decoded, and
	// encoded to be sent.
	answerWeight = 2
	// smallResult takes no room: the connection that it is sent over holds as much.
	smallResult = 8 << 10
	// listedBytes is more than a job or a batch takes in a list, most of it metadata, and
	// bareBytes one without metadata.
	listedBytes = job.MaxMetadataJSON + bareBytes
	bareBytes   = 1 << 10
	// itemErrorBytes is more than the error of a batch's job mostly takes.
	itemErrorBytes = 4 << 10
)

// boundless is the room of a Client that nobody shares with others.
type boundless struct{}

func (boundless) Take(context.Context, int64) error { return nil }
func (boundless) Give(int64)                        {}

// loan is what is taken of a room for a moment.
type loan struct {
	Room

	taken int64
}

// Take is [Room.Take].
func (l *loan) Take(ctx context.Context, bytes int64) error {
	err := l.Room.Take(ctx, bytes)
	if err == nil {
		l.taken += bytes
	}
	return err
}

// keep gives back all but so much.
func (l *loan) keep(bytes int64) {
	if l.taken > bytes {
		l.Give(l.taken - bytes)
		l.taken = bytes
	}
}

// takeListed takes room for a list of so many, before it is read. What keeps less is given
// back once it was.
func (c *Client) takeListed(ctx context.Context, limit int) (*loan, error) {
	l := &loan{Room: c.room}
	return l, l.Take(ctx, answerWeight*listedBytes*int64(limit))
}

// listed is what one of a list takes.
func listed(metadata map[string]string) int64 {
	if len(metadata) == 0 {
		return answerWeight * bareBytes
	}
	return answerWeight * listedBytes
}
