package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// listInput has text only: what is wrong with it is said like any other wrong field.
type listInput struct {
	Status  string `query:"status"`
	Runtime string `query:"runtime"`
	Problem string `query:"problem"`
	Since   string `query:"since"`
	Limit   string `query:"limit"`
	Cursor  string `query:"cursor"`
}

type listOutput struct {
	Body producer.JobPage
}

func (a *API) list(ctx context.Context, in *listInput) (*listOutput, error) {
	options, err := in.options()
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	page, err := a.tenantClient(ctx).List(ctx, options)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &listOutput{page}, nil
}

// options reads the query. It fails with job.Invalid.
func (in *listInput) options() (producer.ListOptions, error) {
	o := producer.ListOptions{Runtime: in.Runtime, Problem: in.Problem, Cursor: in.Cursor}
	var invalid job.Invalid
	for _, s := range strings.FieldsFunc(in.Status, func(r rune) bool { return r == ',' }) {
		o.Status = append(o.Status, job.Status(s))
	}
	if len(o.Status) > 2*len(job.Statuses()) {
		invalid = append(invalid, job.FieldError{Field: "status", Value: clip(in.Status), Message: "has too many values", Allowed: "each status once"})
	}
	var err error
	if in.Since != "" {
		if o.Since, err = time.Parse(time.RFC3339, in.Since); err != nil {
			invalid = append(invalid, job.FieldError{Field: "since", Value: clip(in.Since), Message: "is no time", Allowed: "RFC 3339: 2026-11-20T09:00:00Z"})
		}
	}
	if in.Limit != "" {
		if o.Limit, err = strconv.Atoi(in.Limit); err != nil || o.Limit == 0 {
			invalid = append(invalid, job.FieldError{
				Field: "limit", Value: clip(in.Limit), Message: "is no number of jobs", Allowed: "1 to " + strconv.Itoa(producer.MaxPage),
			})
		}
	}
	if invalid != nil {
		return o, invalid
	}
	return o, nil
}

// describeList says in the OpenAPI document what the text of listInput is.
func describeList(op *huma.Operation) {
	describe := map[string]func(*huma.Param){
		"status": func(p *huma.Param) {
			p.Description = "Jobs in any of these, separated by commas."
			p.Schema = &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}
			for _, s := range job.Statuses() {
				p.Schema.Items.Enum = append(p.Schema.Items.Enum, string(s))
			}
			explode := false
			p.Style, p.Explode = "form", &explode
		},
		"runtime": func(p *huma.Param) { p.Description = "Jobs on this runtime, by its name or an alias." },
		"problem": func(p *huma.Param) {
			p.Description = "Jobs that the stored problem of this digest grades: the last 10,000, for a week and their retention; the newest first where that is the same."
		},
		"since": func(p *huma.Param) {
			p.Description = "Jobs that were created then or later."
			p.Schema = &huma.Schema{Type: huma.TypeString, Format: "date-time"}
		},
		"limit": func(p *huma.Param) {
			p.Description = "How many jobs to answer at most."
			least, most := 1.0, float64(producer.MaxPage)
			p.Schema = &huma.Schema{Type: huma.TypeInteger, Minimum: &least, Maximum: &most, Default: producer.DefaultPage}
		},
		"cursor": func(p *huma.Param) {
			p.Description = "The next_cursor of the page before, which was asked for with the same parameters."
		},
	}
	for _, p := range op.Parameters {
		describe[p.Name](p)
	}
}
