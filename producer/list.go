package producer

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

const (
	// DefaultPage is how many jobs a page has at most, unless told otherwise, and
	// MaxPage the most that may be asked for.
	DefaultPage = 50
	MaxPage     = 200
)

// Lister lists jobs. It is safe for concurrent use.
type Lister interface {
	// List returns a page of the tenant's jobs, newest first. It fails with job.Invalid
	// where an option is wrong. Pages that Next leads to go on where the one before
	// ended, whatever jobs come meanwhile.
	List(ctx context.Context, o ListOptions) (JobPage, error)
}

var _ Lister = (*Client)(nil)

// ListOptions say which jobs to list. The zero value lists all.
type ListOptions struct {
	// Status lists jobs in any of these.
	Status []job.Status
	// Runtime lists jobs on this runtime, by its name or an alias.
	Runtime string
	// Problem lists jobs that the stored problem of this digest grades, those first of which that is known
	// longest, which is by their creation where their retention is the same: the last 10,000, for
	// a week and their retention.
	Problem string
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
	Jobs []job.Summary `json:"jobs" nullable:"false" doc:"Records of jobs, newest first. There can be fewer than limit, or none, on a page that is not the last."`
	// Next is the Cursor of the next page, "" on the last.
	Next string `json:"next_cursor,omitempty" doc:"The cursor of the next page; absent on the last."`
}

// List is [Lister.List].
func (c *Client) List(ctx context.Context, o ListOptions) (JobPage, error) {
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
	set("problem", o.Problem)
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
	err := c.json(ctx, http.MethodGet, path, 0, nil, &page)
	return page, err
}
