package direct

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// maxName bounds the name of a runtime to list.
const maxName = 200

// List is [producer.Lister.List].
func (c *Client) List(ctx context.Context, o producer.ListOptions) (producer.JobPage, error) {
	f, err := c.filter(o)
	if err != nil {
		return producer.JobPage{}, err
	}
	if f.Runtime != "" {
		if f.Runtime, err = c.runtimeName(ctx, f.Runtime); err != nil {
			return producer.JobPage{}, err
		}
	}
	return c.page(ctx, f)
}

// page is what a filter finds.
func (c *Client) page(ctx context.Context, f record.Filter) (producer.JobPage, error) {
	held, err := c.takeListed(ctx, f.Limit)
	if err != nil {
		return producer.JobPage{}, err
	}
	jobs, next, err := c.records.List(ctx, c.tenant, f)
	if err != nil {
		held.keep(0)
		return producer.JobPage{}, err
	}
	page, needed := producer.JobPage{Jobs: make([]job.Summary, len(jobs))}, int64(0)
	for i, j := range jobs {
		page.Jobs[i] = wireSummary(j)
		needed += listed(j.Metadata)
	}
	held.keep(needed)
	page.Next = writeCursor(next)
	return page, nil
}

// writeCursor is a place in a list as callers see it; "" for its end.
func writeCursor(next record.Position) string {
	return base64.RawURLEncoding.EncodeToString([]byte(next))
}

// readCursor reads what writeCursor wrote, and what a caller made up. "" is the list's beginning.
func readCursor(cursor string, parse func(string) (record.Position, bool)) (record.Position, bool) {
	if cursor == "" {
		return "", true
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return parse(string(b))
}

func wrongCursor(cursor string) job.FieldError {
	return job.FieldError{Field: "cursor", Value: job.Clip(cursor, 120), Message: "is not a cursor of this list", Allowed: "the next_cursor of the page before"}
}

// filter checks the options. It fails with job.Invalid.
func (c *Client) filter(o producer.ListOptions) (record.Filter, error) {
	f := record.Filter{States: o.Status, Runtime: o.Runtime, Problem: o.Problem, Since: o.Since, Limit: o.Limit}
	var invalid job.Invalid
	wrong := func(field string, value any, message, allowed string) {
		invalid = append(invalid, job.FieldError{Field: field, Value: fmt.Sprintf("%.120s", fmt.Sprint(value)), Message: message, Allowed: allowed})
	}
	for _, s := range o.Status {
		if !slices.Contains(job.Statuses(), s) {
			wrong("status", s, "is not a status", statusNames())
		}
	}
	if len(o.Runtime) > maxName {
		wrong("runtime", o.Runtime, "is too long", "the name of a runtime")
	}
	if o.Problem != "" && !job.IsSHA256(o.Problem) {
		wrong("problem", o.Problem, "is no digest of a problem", "64 hex digits, in lower case")
	}
	if f.Limit == 0 {
		f.Limit = producer.DefaultPage
	}
	if f.Limit < 1 || f.Limit > producer.MaxPage {
		wrong("limit", o.Limit, "is out of range", fmt.Sprintf("1 to %d", producer.MaxPage))
	}
	var ok bool
	if f.After, ok = readCursor(o.Cursor, func(s string) (record.Position, bool) { return record.ParsePosition(c.tenant, s) }); !ok {
		invalid = append(invalid, wrongCursor(o.Cursor))
	}
	if invalid != nil {
		return f, invalid
	}
	return f, nil
}

func statusNames() string {
	var names []string
	for _, s := range job.Statuses() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// runtimeName is the name that records have for a runtime.
func (c *Client) runtimeName(ctx context.Context, name string) (string, error) {
	runtimes, err := c.records.Fleet.Runtimes(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range runtimes {
		if slices.Contains(r.Aliases, name) {
			return r.Name, nil
		}
	}
	return name, nil // one that is offered no longer has jobs, too
}
