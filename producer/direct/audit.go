package direct

import (
	"context"
	"fmt"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Audit returns a page of the audit log. It fails with job.Invalid.
func (c *Client) Audit(ctx context.Context, o producer.AuditOptions) (producer.AuditPage, error) {
	if o.Limit == 0 {
		o.Limit = producer.MaxAuditPage
	}
	if o.Limit < 1 || o.Limit > producer.MaxAuditPage {
		return producer.AuditPage{}, job.Invalid{{Field: "limit", Value: o.Limit, Message: "is out of range", Allowed: fmt.Sprintf("1 to %d", producer.MaxAuditPage)}}
	}
	after := record.AuditSince(o.Since)
	if o.Cursor != "" {
		var ok bool
		if after, ok = record.ParseAuditCursor(o.Cursor); !ok {
			return producer.AuditPage{}, job.Invalid{{Field: "cursor", Value: fmt.Sprintf("%.120s", o.Cursor), Message: "is no cursor of the audit log", Allowed: "the next_cursor of a page"}}
		}
	}
	list, next, more, err := c.records.Audited(ctx, after, record.AuditFilter{Tenant: o.Tenant, Action: o.Action}, o.Limit)
	if list == nil {
		list = []job.AuditEntry{}
	}
	return producer.AuditPage{Entries: list, Next: next.String(), More: more}, err
}

// NoteAudit writes an entry to the audit log, soon.
func (c *Client) NoteAudit(e job.AuditEntry) { c.records.Audit(e) }
