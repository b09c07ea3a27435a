package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// MaxBody bounds what [Handler] reads, and is more than Glovebox ever sends.
const MaxBody = 4 << 20

// Event is the body of a webhook.
type Event struct {
	// ID names the message and is the same at every attempt: who must not handle one
	// twice remembers it. It comes from the header webhook-id.
	ID string `json:"-"`
	// Type is "job.completed", for example.
	Type string `json:"type"`
	// Timestamp is when it happened.
	Timestamp time.Time `json:"timestamp"`
	// ResultURL is where the API has the job, for a token of its tenant, if texts of tests are cut here.
	ResultURL string `json:"result_url,omitempty"`
	// Data depends on Type: a job.Result for "job.completed".
	Data json.RawMessage `json:"data"`
}

// Handler receives webhooks: it verifies each with one of the secrets or public keys and
// passes it to receive. When receive fails it answers 500, and the sender will try again. The
// request's context ends when the sender gives up waiting, after 15 to 30 seconds.
func Handler(verifiers []Verifier, receive func(context.Context, Event) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "a webhook is a POST", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		if err := Verify(r.Header, body, verifiers, DefaultTolerance, time.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		event := Event{ID: r.Header.Get(HeaderID)}
		if err := json.Unmarshal(body, &event); err != nil {
			http.Error(w, "the body is no event", http.StatusBadRequest)
			return
		}
		if err := receive(r.Context(), event); err != nil {
			// What went wrong here is none of the sender's business.
			http.Error(w, "the event could not be handled", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}
