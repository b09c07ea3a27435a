package facade

import (
	"encoding/json"
	"net/http"

	"github.com/glovebox-run/glovebox/producer"
)

// BadRequest is what is wrong with a request, in the words of the server whose place a façade takes.
type BadRequest string

func (b BadRequest) Error() string { return string(b) }

// Text is a JSON string's; ok is false for anything else.
func Text(v json.RawMessage) (s string, ok bool) {
	ok = len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil
	return s, ok
}

// Write answers JSON.
func Write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // the client may have left
}

// Say is a problem for servers that have 400 for whatever is wrong with a request, and one message.
func Say(p *producer.Problem) (status int, message string) {
	status, message = p.Status, p.Detail
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if len(p.Errors) > 0 {
		message = p.Errors[0].Error()
	}
	return status, message
}
