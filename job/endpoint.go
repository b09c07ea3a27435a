package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// MaxEndpoints is how many endpoints a tenant has at most.
	MaxEndpoints = 32
	// MaxEndpointDescription bounds an endpoint's description, in bytes.
	MaxEndpointDescription = 512

	endpointMark = "e-"
)

// EventEndpointTest is posted when its tenant asks for it, to see whether an endpoint works.
const EventEndpointTest = "endpoint.test"

// EndpointEvents are the events that an endpoint can want.
func EndpointEvents() []string {
	return []string{
		EventCompleted, EventHeld, EventBatchCompleted, EventPipelineCompleted, EventSessionEnded, EventScheduleSkipped,
		EventBudgetWarning, EventBudgetExceeded, EventEndpointDisabled, EventEndpointEnabled,
	}
}

// EndpointSettings are what a tenant says of an endpoint.
type EndpointSettings struct {
	URL         string   `json:"url" doc:"Where events are posted: an http or https URL, for which the same holds as for a job's callback." example:"https://hooks.example.com/glovebox"`
	Description string   `json:"description,omitempty" doc:"Words of your own, up to 512 bytes."`
	Events      []string `json:"events,omitempty" doc:"Events that are posted: job.completed, job.held, batch.completed, pipeline.completed, session.ended, schedule.skipped, budget.warning, budget.exceeded, endpoint.disabled, endpoint.enabled. All of these by default." example:"[\"job.completed\"]"`
	// Headers of one's own are written only: an [Endpoint] tells their names.
	Headers map[string]string `json:"headers,omitempty" doc:"Headers of your own that each message has, such as Authorization: up to 16, of 4 KiB together. Their values are stored sealed, and never told; header_names has the names. Not Host, User-Agent, Content-*, Webhook-*, Traceparent, Tracestate, nor those of a connection." example:"{\"Authorization\": \"Bearer …\"}"`
	// Filter narrows these down. Nil lets all through.
	Filter *EndpointFilter `json:"filter,omitempty" doc:"Posts only what this matches; all by default."`
	// Disabled endpoints are sent nothing.
	Disabled bool `json:"disabled,omitempty" doc:"Whether nothing is posted. What happens meanwhile can be delivered later: POST /v1/endpoints/{id}/recover."`
}

// EndpointFilter matches jobs, batches and runs.
type EndpointFilter struct {
	// Statuses are final ones, of jobs, batches or runs. Empty matches all.
	Statuses []string `json:"statuses,omitempty" doc:"Final statuses of jobs (failed, timed_out…), batches (completed, canceled) or runs of pipelines (succeeded, failed, canceled); all by default." example:"[\"failed\",\"timed_out\"]"`
	// Metadata are pairs that all have to be in the metadata of the job, batch or run.
	Metadata map[string]string `json:"metadata,omitempty" doc:"Pairs that all have to be in the metadata of the job, of the batch, or of the run." example:"{\"project\":\"atlas\"}"`
}

// Matches reports whether a job or batch of that final status and metadata is to be told of.
func (f *EndpointFilter) Matches(status string, metadata map[string]string) bool {
	if f == nil {
		return true
	}
	if len(f.Statuses) > 0 && !slices.Contains(f.Statuses, status) {
		return false
	}
	for name, value := range f.Metadata {
		if has, ok := metadata[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// Endpoint is a URL to which a tenant has events posted, of all its jobs and batches.
type Endpoint struct {
	ID string `json:"id" example:"default-e-cltgoj5ht3pt52fyruvlgdcnle"`
	EndpointSettings
	// HeaderNames are those of the headers that messages to it have besides.
	HeaderNames []string `json:"header_names,omitempty" doc:"Headers of your own that messages have. Their values are not told." example:"[\"Authorization\"]"`

	CreatedAt time.Time      `json:"created_at"`
	UpdatedAt time.Time      `json:"updated_at"`
	Health    EndpointHealth `json:"health"`
}

// EndpointHealth is how deliveries to an endpoint go.
type EndpointHealth struct {
	State        EndpointState `json:"state" enum:"ok,failing,disabled" doc:"failing: the last attempt failed; disabled: nothing is posted, because you said so, or because of reason."`
	FailingSince *time.Time    `json:"failing_since,omitempty" doc:"When the first attempt failed since which none succeeded."`
	DisabledAt   *time.Time    `json:"disabled_at,omitempty" doc:"When it was disabled because nothing succeeded for days, or because it answered 410."`
	Reason       string        `json:"reason,omitempty" doc:"Why it was disabled."`
	LastAt       *time.Time    `json:"last_at,omitempty" doc:"When the last attempt was made."`
	LastStatus   int           `json:"last_status,omitempty" doc:"HTTP status of the last answer, absent if there was none."`
	LastError    string        `json:"last_error,omitempty" doc:"Why the last attempt failed."`
	NextAt       *time.Time    `json:"next_at,omitempty" doc:"Until when nothing is tried, because attempts keep failing."`
	Waiting      int64         `json:"waiting" doc:"How many messages are due and wait for their turn."`
}

// EndpointState is how an endpoint is.
type EndpointState string

// The states of an endpoint.
const (
	EndpointOK       EndpointState = "ok"
	EndpointFailing  EndpointState = "failing"
	EndpointDisabled EndpointState = "disabled"
)

// DeliveryAttempt is an attempt at a delivery, as it was noted down.
type DeliveryAttempt struct {
	DeliveryID string `json:"delivery_id,omitempty"`
	// JobID, BatchID or RunID is what the message is about, if anything.
	JobID   string    `json:"job_id,omitempty"`
	BatchID string    `json:"batch_id,omitempty"`
	RunID   string    `json:"run_id,omitempty"`
	Event   string    `json:"event,omitempty" example:"job.completed"`
	Number  int       `json:"number" doc:"Of the attempt, from 1."`
	At      time.Time `json:"at"`
	MS      int64     `json:"ms" doc:"How long it took, milliseconds."`
	Status  int       `json:"status,omitempty" doc:"HTTP status of the answer, absent if there was none."`
	Error   string    `json:"error,omitempty" doc:"Why it failed."`
	// Response begins as the answer's body did.
	Response string     `json:"response,omitempty" doc:"How the answer's body began: at most 256 bytes, control characters left out."`
	State    string     `json:"state" enum:"pending,delivered,failed,gone" doc:"What the delivery was after it."`
	NextAt   *time.Time `json:"next_at,omitempty" doc:"When the next attempt was due then."`
}

// NewEndpointID returns a fresh id for an endpoint of the tenant.
func NewEndpointID(tenant string) string {
	return tenant + "-" + endpointMark + strings.TrimPrefix(NewID(tenant), tenant+"-")
}

// TenantOfEndpoint returns the tenant of an endpoint, and false for what is no endpoint's id.
func TenantOfEndpoint(id string) (tenant string, ok bool) {
	tenant, rest, _ := strings.Cut(id, "-")
	random, ok := strings.CutPrefix(rest, endpointMark)
	if !ok {
		return "", false
	}
	return TenantOf(tenant + "-" + random)
}

// Check returns what is wrong with the settings as [Invalid], or nil. Where the URL leads is
// not looked at.
func (s EndpointSettings) Check() error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	checkURL(add, "url", s.URL)
	if problem := checkString(s.Description, MaxEndpointDescription); problem != "" {
		add("description", clip(s.Description), problem, fmt.Sprintf("up to %d bytes of UTF-8 without NUL", MaxEndpointDescription))
	}
	checkChoices(add, "events", s.Events, EndpointEvents())
	checkEndpointHeaders(add, s.Headers)
	if s.Filter != nil {
		checkChoices(add, "filter.statuses", s.Filter.Statuses, endpointStatuses())
		checkMetadata(func(field string, value any, message, allowed string) {
			add("filter."+field, value, message, allowed)
		}, s.Filter.Metadata)
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// Filled returns the settings with the events that they leave to the default.
func (s EndpointSettings) Filled() EndpointSettings {
	if len(s.Events) == 0 {
		s.Events = EndpointEvents()
	}
	if s.Filter != nil && len(s.Filter.Statuses) == 0 && len(s.Filter.Metadata) == 0 {
		s.Filter = nil
	}
	return s
}

// endpointStatuses are those that a filter can name.
func endpointStatuses() []string {
	words := map[string]bool{string(BatchCompleted): true, string(BatchCanceled): true}
	for _, s := range Statuses() {
		if s.Final() {
			words[string(s)] = true
		}
	}
	return slices.Sorted(maps.Keys(words))
}

// checkChoices refuses a word that is not known, or appears twice.
func checkChoices(add addFunc, field string, words, known []string) {
	for i, word := range words {
		switch {
		case i >= len(known):
			add(field, len(words), "has too many entries", "each of "+strings.Join(known, ", ")+" once")
			return
		case !slices.Contains(known, word):
			add(fmt.Sprintf("%s[%d]", field, i), clip(word), "is not known", strings.Join(known, ", "))
		case slices.Contains(words[:i], word):
			add(fmt.Sprintf("%s[%d]", field, i), clip(word), "appears more than once", "each once")
		}
	}
}
