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
	page, needed := producer.JobPage{Jobs: make([]job.Record, len(jobs))}, int64(0)
	for i, j := range jobs {
		page.Jobs[i] = wireRecord(j)
		needed += listed(j.Metadata)
	}
	held.keep(needed)
	if next != "" {
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(next))
	}
	return page, nil
}

// filter checks the options. It fails with job.Invalid.
func (c *Client) filter(o producer.ListOptions) (record.Filter, error) {
	f := record.Filter{States: o.Status, Runtime: o.Runtime, Since: o.Since, Limit: o.Limit}
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
	if f.Limit == 0 {
		f.Limit = producer.DefaultPage
	}
	if f.Limit < 1 || f.Limit > producer.MaxPage {
		wrong("limit", o.Limit, "is out of range", fmt.Sprintf("1 to %d", producer.MaxPage))
	}
	if o.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(o.Cursor)
		position, ok := record.ParsePosition(c.tenant, string(b))
		if err != nil || !ok {
			wrong("cursor", o.Cursor, "is not a cursor of this list", "the next_cursor of the page before")
		}
		f.After = position
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
