package producer

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// MaxAuditPage is how many entries a page of the audit log has at most.
const MaxAuditPage = 1000

// AuditOptions say which entries of the audit log to read. The zero value reads all that
// are kept, the oldest first.
type AuditOptions struct {
	// Tenant whose things they concern; "" for all.
	Tenant string
	// Action is one, such as "job.submit", or a kind of them, such as "job"; "" for all.
	Action string
	// Since is when the first one was written at the earliest.
	Since time.Time
	// Cursor is the Next of the page before, instead of Since.
	Cursor string
	// Limit is how many to return at most, up to MaxAuditPage. Defaults to that.
	Limit int
}

// AuditPage is a part of the audit log.
type AuditPage struct {
	Entries []job.AuditEntry `json:"entries" nullable:"false" doc:"The oldest first."`
	Next    string           `json:"next_cursor" doc:"The cursor of what comes behind these; also where nothing does yet."`
	// More says that there may be more behind Next already. A page can have none, and not
	// be the last.
	More bool `json:"more" doc:"There may be more entries behind next_cursor already."`
}

// Audit returns a page of the audit log, with the admin token.
func (c *Client) Audit(ctx context.Context, o AuditOptions) (AuditPage, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("tenant", o.Tenant)
	set("action", o.Action)
	set("cursor", o.Cursor)
	if !o.Since.IsZero() {
		set("since", o.Since.UTC().Format(time.RFC3339Nano))
	}
	if o.Limit != 0 {
		set("limit", strconv.Itoa(o.Limit))
	}
	var page AuditPage
	err := c.json(ctx, http.MethodGet, "/v1/admin/audit?"+query.Encode(), 0, nil, &page)
	return page, err
}
