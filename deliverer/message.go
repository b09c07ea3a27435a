package deliverer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// message is the body of a delivery. It depends on nothing but the record, so that
// every attempt has the same bytes.
type message[T any] struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	// ResultURL is where the API has the job or run, for its tenant's token: something of it is left out here.
	ResultURL string `json:"result_url,omitempty"`
	Data      T      `json:"data"`
}

// endpointTest is what a test tells.
type endpointTest struct {
	EndpointID string `json:"endpoint_id"`
}

// message returns the body of a delivery, and the method by which it is sent. What is read for it takes memory until it is written: the body
// itself is small.
func (d *Deliverer) message(ctx context.Context, delivery record.Delivery) (method string, body []byte, err error) {
	client, done := d.messages.Of(delivery.Tenant)
	defer done()
	if delivery.Event == job.EventEndpointTest {
		body, err = encode(message[endpointTest]{Type: delivery.Event, Timestamp: delivery.Created, Data: endpointTest{delivery.EndpointID}})
		return http.MethodPost, body, err
	}
	if budget, ok := record.ParseBudget(delivery.Tenant, delivery.Budget); ok {
		body, err = encode(message[job.BudgetState]{Type: delivery.Event, Timestamp: delivery.Created, Data: budget})
		return http.MethodPost, body, err
	}
	if delivery.News != "" {
		body, err = d.news(ctx, client, delivery)
		return http.MethodPost, body, err
	}
	if delivery.BatchID != "" {
		b, err := client.GetBatch(ctx, delivery.BatchID)
		if err != nil {
			return "", nil, err
		}
		body, err = d.fitBatch(message[job.Batch]{Type: delivery.Event, Timestamp: delivery.Created, Data: b})
		return http.MethodPost, body, err
	}
	if delivery.RunID != "" {
		r, err := client.GetRun(ctx, delivery.RunID)
		if err != nil {
			return "", nil, err
		}
		body, err = d.fitRun(message[job.Run]{Type: delivery.Event, Timestamp: delivery.Created, Data: r})
		return http.MethodPost, body, err
	}
	result, expires, err := client.Result(ctx, delivery.JobID)
	if err != nil {
		return "", nil, err
	}
	if d.Translate != nil && delivery.EndpointID == "" { // an endpoint is nobody's callback
		if body, err = d.Translate(ctx, client, result); body != nil || err != nil {
			return http.MethodPut, body, err
		}
	}
	body, err = d.fit(message[job.Result]{Type: delivery.Event, Timestamp: delivery.Created, Data: result}, expires)
	return http.MethodPost, body, err
}

// news is the body of a message that is about no job, batch, run or budget.
func (d *Deliverer) news(ctx context.Context, client *direct.Client, delivery record.Delivery) ([]byte, error) {
	n, _ := record.ParseNews(delivery.Tenant, delivery.News)
	var data any
	switch {
	case n.SessionID != "":
		x, err := client.Session(ctx, n.SessionID)
		if errors.Is(err, job.ErrNoSession) {
			err = job.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		data = x
	case n.HeldID != "":
		p, err := client.Pending(ctx, n.HeldID)
		if err != nil {
			return nil, err
		}
		data = p
	case n.Schedule != "":
		fire, err := d.Records.Fire(ctx, delivery.Tenant, n.Schedule, n.Entry)
		if err != nil {
			return nil, err
		}
		data = job.ScheduleSkipped{Schedule: n.Schedule, Fire: fire}
	default:
		e, err := d.Records.Endpoint(ctx, delivery.Tenant, n.EndpointID)
		if errors.Is(err, job.ErrNoEndpoint) {
			err = job.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		data = job.EndpointNews{EndpointID: e.ID, URL: e.URL, Reason: record.ReasonOf(n.Reason)}
	}
	return encode(message[any]{Type: delivery.Event, Timestamp: delivery.Created, Data: data})
}

// fitBatch leaves out errors of rejected jobs until the message is small enough: the
// results have them.
func (d *Deliverer) fitBatch(m message[job.Batch]) ([]byte, error) {
	for {
		b, err := encode(m)
		if err != nil || len(b) <= d.BodyBytes || len(m.Data.Errors) == 0 {
			return b, err
		}
		m.Data.Errors = m.Data.Errors[:len(m.Data.Errors)/2]
	}
}

// fitRun leaves out what the API has in any case until the message is small enough: first the jobs of each step, then
// the parameters and outputs.
func (d *Deliverer) fitRun(m message[job.Run]) ([]byte, error) {
	b, err := encode(m)
	if err != nil || len(b) <= d.BodyBytes {
		return b, err
	}
	m.ResultURL = d.Links.RunURL(m.Data.ID)
	m.Data.Steps = maps.Clone(m.Data.Steps)
	for name, step := range m.Data.Steps {
		step.Jobs = nil
		m.Data.Steps[name] = step
	}
	if b, err = encode(m); err != nil || len(b) <= d.BodyBytes {
		return b, err
	}
	m.Data.Params, m.Data.Outputs = nil, nil
	return encode(m)
}

// fit leaves out the data of charts, then cuts outputs, and the texts of tests and results, until the message is small enough, and gives a URL to
// what it cuts. Names of artifacts and tests and metadata are not cut: they are bounded, to less than a receiver of
// ours takes.
func (d *Deliverer) fit(m message[job.Result], expires time.Time) ([]byte, error) {
	b, err := encode(m)
	if err != nil || len(b) <= d.BodyBytes {
		return b, err
	}
	if briefCharts(&m.Data) {
		m.ResultURL = d.Links.JobURL(m.Data.ID)
	}
	whole := m.Data
	for most := job.InlineOutput; ; most /= 2 {
		b, err := encode(m)
		if err != nil || len(b) <= d.BodyBytes || most == 0 {
			return b, err
		}
		cuts := []struct {
			stream    string
			whole     string
			text, url *string
		}{
			{producer.Stdout, whole.Stdout, &m.Data.Stdout, &m.Data.StdoutURL},
			{producer.Stderr, whole.Stderr, &m.Data.Stderr, &m.Data.StderrURL},
		}
		for _, c := range cuts {
			*c.text = cut(c.whole, most/2)
			if len(*c.text) == len(c.whole) || *c.url != "" {
				continue
			}
			if *c.url, err = d.Links.URL(m.Data.ID, c.stream, expires); err != nil {
				return nil, fmt.Errorf("link to %s: %w", c.stream, err)
			}
		}
		if whole.Compile != nil {
			compile := *whole.Compile
			compile.Output = cut(compile.Output, most/2)
			m.Data.Compile = &compile
		}
		tests, less := cutTests(whole.Tests, most/2)
		if m.Data.Tests = tests; less {
			m.ResultURL = d.Links.JobURL(m.Data.ID)
		}
		if less := cutShown(&m.Data, whole, most/2); less {
			m.ResultURL = d.Links.JobURL(m.Data.ID)
		}
	}
}

// briefCharts leaves out the data of charts: the artifacts and the API have them. It reports whether there were any.
func briefCharts(r *job.Result) (less bool) {
	r.Artifacts = slices.Clone(r.Artifacts)
	for i, a := range r.Artifacts {
		if a.Chart == nil {
			continue
		}
		chart, err := job.ParseChart(a.Chart)
		if err != nil {
			chart.Type = "unknown"
		}
		r.Artifacts[i].Chart, less = chart.Brief("its data are left out: the message would be too large"), true
	}
	return less
}

// leastShown is how many bytes of a result's texts are worth sending. Where there is no room for them, there is none for results.
const leastShown = 1 << 10

// cutShown sets what is told of an execution's results: texts of at most so many bytes each. Of those that are longer, plain text is cut and
// anything else left out, as half of it is nothing. It reports whether that is less than the whole.
func cutShown(r *job.Result, whole job.Result, most int) (less bool) {
	if e := whole.Exception; e != nil {
		short := job.Exception{Name: e.Name, Value: cut(e.Value, most), Traceback: cut(e.Traceback, most)}
		less = short != *e
		r.Exception = &short
	}
	if most < leastShown {
		r.Results, r.ResultsLeftOut = nil, whole.ResultsLeftOut+len(whole.Results)
		return less || len(whole.Results) > 0
	}
	r.Results = slices.Clone(whole.Results)
	for i, x := range r.Results {
		r.Results[i].Data = map[string]job.Rendering{}
		for name, d := range x.Data {
			if len(d.Text) > most {
				less = true
				if name != "text/plain" {
					continue
				}
				d.Text = cut(d.Text, most)
			}
			r.Results[i].Data[name] = d
		}
	}
	return less
}

// cutTests returns tests with at most so many bytes of each of their texts, and whether that is less.
func cutTests(whole []job.TestResult, most int) (tests []job.TestResult, less bool) {
	short := func(s *string) {
		text := cut(*s, most)
		less = less || len(text) < len(*s)
		*s = text
	}
	tests = slices.Clone(whole)
	for i := range tests {
		t := &tests[i]
		short(&t.Stdout)
		short(&t.Stderr)
		short(&t.Feedback)
		if t.Difference != nil {
			d := *t.Difference
			short(&d.Want)
			short(&d.Got)
			t.Difference = &d
		}
	}
	return tests, less
}

func encode(m any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // it is no HTML, and < would be six bytes
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// cut returns at most so many bytes of s, whole characters only.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
