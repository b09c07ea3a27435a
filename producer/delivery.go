package producer

import (
	"time"
)

// Delivery is one webhook message to one endpoint, over all its attempts.
type Delivery struct {
	ID string `json:"id" doc:"The message's webhook-id, the same at every attempt."`
	// JobID or BatchID is what the message is about.
	JobID   string `json:"job_id,omitempty"`
	BatchID string `json:"batch_id,omitempty"`
	Event   string `json:"event" example:"job.completed"`
	URL     string `json:"url"`
	State   string `json:"state" enum:"pending,delivered,failed,gone" doc:"failed: every attempt of the schedule was; gone: the endpoint answered 410."`
	// Attempt is the number of the attempt that is due, from 1; once final, of the last.
	Attempt    int        `json:"attempt" doc:"Number of the attempt that is due, or once final of the last."`
	CreatedAt  time.Time  `json:"created_at"`
	NextAt     *time.Time `json:"next_at,omitempty" doc:"When the next attempt is due."`
	LastAt     *time.Time `json:"last_at,omitempty" doc:"When the last attempt was made."`
	LastStatus int        `json:"last_status,omitempty" doc:"HTTP status of the last answer, absent if there was none."`
	LastError  string     `json:"last_error,omitempty" doc:"Why the last attempt failed."`
}
