package producer

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// DefaultPage is how many jobs a page has at most, unless told otherwise, and
	// MaxPage the most that may be asked for.
	DefaultPage = 50
	MaxPage     = 200

	// maxName bounds the name of a runtime to list.
	maxName = 200
)

// ListOptions say which jobs to list. The zero value lists all.
type ListOptions struct {
	// Status lists jobs in any of these.
	Status []job.Status
	// Runtime lists jobs on this runtime, by its name or an alias.
	Runtime string
	// Since lists jobs that were created then or later, to the millisecond.
	Since time.Time
	// Limit is how many jobs to return at most, up to MaxPage. Defaults to DefaultPage.
	Limit int
	// Cursor is the Next of the page before, listed with the same options.
	Cursor string
}

// JobPage is a part of a list of jobs.
type JobPage struct {
	// Jobs are what they were when they were listed, newest first: results are not in
	// them. There can be fewer than asked for, or none, on a page that is not the last:
	// one looks at a bounded number of jobs.
	Jobs []job.Record `json:"jobs" nullable:"false" doc:"Records of jobs, newest first. There can be fewer than limit, or none, on a page that is not the last."`
	// Next is the Cursor of the next page, "" on the last.
	Next string `json:"next_cursor,omitempty" doc:"The cursor of the next page; absent on the last."`
}

// List is [Jobs.List].
func (c *Client) List(ctx context.Context, o ListOptions) (JobPage, error) {
	f, err := c.filter(o)
	if err != nil {
		return JobPage{}, err
	}
	if f.Runtime != "" {
		if f.Runtime, err = c.runtimeName(ctx, f.Runtime); err != nil {
			return JobPage{}, err
		}
	}
	held, err := c.takeListed(ctx, f.Limit)
	if err != nil {
		return JobPage{}, err
	}
	jobs, next, err := c.records.List(ctx, c.tenant, f)
	if err != nil {
		held.keep(0)
		return JobPage{}, err
	}
	page, needed := JobPage{Jobs: make([]job.Record, len(jobs))}, int64(0)
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
func (c *Client) filter(o ListOptions) (record.Filter, error) {
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
		f.Limit = DefaultPage
	}
	if f.Limit < 1 || f.Limit > MaxPage {
		wrong("limit", o.Limit, "is out of range", fmt.Sprintf("1 to %d", MaxPage))
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
	runtimes, err := c.records.Runtimes(ctx)
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

// List is [Jobs.List].
func (h *HTTP) List(ctx context.Context, o ListOptions) (JobPage, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	var states []string
	for _, s := range o.Status {
		states = append(states, string(s))
	}
	set("status", strings.Join(states, ","))
	set("runtime", o.Runtime)
	if !o.Since.IsZero() {
		set("since", o.Since.UTC().Format(time.RFC3339Nano))
	}
	if o.Limit != 0 {
		set("limit", strconv.Itoa(o.Limit))
	}
	set("cursor", o.Cursor)
	path := "/v1/jobs"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var page JobPage
	err := h.json(ctx, http.MethodGet, path, 0, nil, &page)
	return page, err
}
