package direct

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// sessionWeight is how many times their size the settings of a session take that is read: as they come, to be decoded, decoded, and of a fork encoded again.
const sessionWeight = 4

// session is the record of a session of this tenant, without its environment. It takes memory for that while it is read.
func (c *Client) session(ctx context.Context, id string) (record.Session, error) {
	held := &reservation{Memory: c.memory}
	defer held.keep(0)
	x, err := c.takeSession(ctx, held, id)
	x.Settings.Env = nil
	return x, err
}

// takeSession reads a session of this tenant, once there is memory for it, which the caller gives back.
func (c *Client) takeSession(ctx context.Context, memory Memory, id string) (record.Session, error) {
	if err := c.ownSession(id); err != nil {
		return record.Session{}, err
	}
	return c.records.HeldSession(ctx, id, takeSettings(ctx, memory))
}

// takeSettings takes memory for settings of sessions that are so long: for small ones none, as for results.
func takeSettings(ctx context.Context, memory Memory) func(settings int64) error {
	return func(settings int64) error {
		if settings <= smallResult {
			return nil
		}
		return memory.Take(ctx, min(sessionWeight*settings, mostTaken))
	}
}

// ownSession fails with job.ErrNoSession for a session that is not this tenant's: it is answered for as if it did not exist.
func (c *Client) ownSession(id string) error {
	if tenant, ok := job.TenantOfSession(id); !ok || tenant != c.tenant {
		return job.ErrNoSession
	}
	return nil
}

// sessionOf is what an execution in a context has to know of its session. Of the main one that is the settings alone.
func (c *Client) sessionOf(ctx context.Context, id, name string) (x record.Session, err error) {
	if name != "" && name != job.MainContext {
		return c.takeSession(ctx, c.memory, id)
	}
	if err := c.ownSession(id); err != nil {
		return x, err
	}
	x.Settings, err = c.records.SessionSettings(ctx, id, takeSettings(ctx, c.memory))
	return x, err
}

// ListSessions is [producer.Sessions.ListSessions].
func (c *Client) ListSessions(ctx context.Context, o producer.SessionListOptions) (producer.SessionPage, error) {
	page := producer.SessionPage{Sessions: []job.Session{}}
	if o.Limit == 0 {
		o.Limit = producer.DefaultPage
	}
	if o.Limit < 1 || o.Limit > producer.MaxPage {
		return page, job.Invalid{{Field: "limit", Value: o.Limit, Message: "is out of range", Allowed: "1 to " + strconv.Itoa(producer.MaxPage)}}
	}
	var after record.Position
	if o.Cursor != "" {
		var ok bool
		if after, ok = record.ParseSessionPosition(c.tenant, o.Cursor); !ok {
			return page, job.Invalid{{Field: "cursor", Value: fmt.Sprintf("%.100s", o.Cursor), Message: "is no cursor of this list", Allowed: "the next_cursor of the page before"}}
		}
	}
	for _, s := range o.Status {
		if !slices.Contains(job.SessionStatuses(), s) {
			return page, job.Invalid{{Field: "status", Value: fmt.Sprintf("%.100s", s), Message: "is no status of a session", Allowed: "queued, ready, busy, paused, ended"}}
		}
	}
	most := o.Limit
	if len(o.Status) > 0 { // then others are looked at, too
		most = producer.MaxPage
	}
	held, err := c.takeListed(ctx, most)
	if err != nil {
		return page, err
	}
	settings := &reservation{Memory: c.memory}
	defer func() { settings.keep(0) }()
	list, next, err := c.records.ListSessions(ctx, c.tenant, after, o.Limit, func(size int64) error {
		settings.keep(0)
		return takeSettings(ctx, settings)(size)
	}, o.Status...)
	if err != nil {
		held.keep(0)
		return page, err
	}
	needed := int64(0)
	for _, x := range list {
		page.Sessions = append(page.Sessions, wireSession(x))
		needed += listed(x.Settings.Metadata)
	}
	held.keep(needed)
	page.Next = string(next)
	return page, nil
}

// SessionCursor is where a list of sessions goes on after this one.
func SessionCursor(x job.Session) string { return string(record.SessionPosition(x.CreatedAt, x.ID)) }
