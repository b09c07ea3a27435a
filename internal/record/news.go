package record

import (
	"context"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// News is what an event is about that is no job, batch, run or budget: one of a schedule's fires, a session that has ended, an
// endpoint, or a job that is held, which has not ended. A delivery's record only points to it, as a worker can write those: what is told is read from where workers can't write,
// or, of a session or a job, from its record.
type News struct {
	// Schedule is its name, and Entry the fire's place in its list.
	Schedule, Entry string
	SessionID       string
	HeldID          string // the job
	// EndpointID is the endpoint, and Reason what was the matter: gone, failing or delivered.
	EndpointID, Reason string
}

// sessionNews is what is told of a session.
func sessionNews(id string) string { return "session " + id }

// SessionDeliveries lists the ids that deliveries of a session's end have: to its callback, if it has one, and to each endpoint that there is now.
func (s *Store) SessionDeliveries(ctx context.Context, x Session) (ids []string, err error) {
	return s.DeliveriesOf(ctx, x.Tenant, sessionNews(x.ID), job.EventSessionEnded, x.Callback)
}

// ParseNews reads what the scripts have written, and reports whether it is of that tenant.
func ParseNews(tenant, text string) (n News, ok bool) {
	f := strings.Split(text, " ")
	switch {
	case len(f) == 3 && f[0] == "schedule":
		return News{Schedule: f[1], Entry: f[2]}, job.CheckScheduleName(f[1]) == nil && job.ValidEventID(f[2])
	case len(f) == 2 && f[0] == "session":
		of, ok := job.TenantOfSession(f[1])
		return News{SessionID: f[1]}, ok && of == tenant
	case len(f) == 2 && f[0] == "held":
		return News{HeldID: f[1]}, ofTenant(f[1], tenant)
	case len(f) == 4 && f[0] == "endpoint":
		of, ok := job.TenantOfEndpoint(f[1])
		return News{EndpointID: f[1], Reason: f[2]}, ok && of == tenant && (f[2] == "gone" || f[2] == "failing" || f[2] == "delivered")
	}
	return n, false
}

// newsOfAttempt is the id of an event that an attempt at a delivery brings about.
func newsOfAttempt(d Delivery, event string) string {
	return MessageID("attempt "+d.ID+" "+strconv.Itoa(d.Attempt), event)
}
