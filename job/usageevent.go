package job

import "time"

// UsageEvent is what a tenant's jobs used on a day, as a CloudEvent (version 1.0.2 of its specification, JSON format). A system that meters
// takes an event once by its source and id, however often it is fetched.
type UsageEvent struct {
	SpecVersion string `json:"specversion" enum:"1.0"`
	ID          string `json:"id" doc:"The tenant and the day: always the same." example:"acme/2026-11-22"`
	Source      string `json:"source" doc:"Where this deployment says what was used." example:"https://glovebox.example.com/v1/usage"`
	Type        string `json:"type" enum:"glovebox.usage.day"`
	Subject     string `json:"subject" doc:"The tenant." example:"acme"`
	// Time is the day's end.
	Time            time.Time `json:"time" doc:"The day's end."`
	DataContentType string    `json:"datacontenttype" enum:"application/json"`
	Data            DayUsage  `json:"data"`
}

// usageSettles is how long after its end a day can still change: the clock of a worker that ends a job may be behind by less than that.
const usageSettles = 15 * time.Minute

// Events are the days of the report that have been over for a quarter of an hour, as what no longer changes can be taken once.
func (u UsageReport) Events(source, tenant string, now time.Time) []UsageEvent {
	events := []UsageEvent{}
	for _, d := range u.Days {
		day, err := time.Parse(time.DateOnly, d.Day)
		if end := day.AddDate(0, 0, 1); err == nil && !end.Add(usageSettles).After(now) {
			events = append(events, UsageEvent{
				SpecVersion: "1.0", ID: tenant + "/" + d.Day, Source: source, Type: "glovebox.usage.day", Subject: tenant, Time: end,
				DataContentType: "application/json", Data: d,
			})
		}
	}
	return events
}
