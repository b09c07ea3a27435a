package facade

import (
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/producer"
)

// BadRequest is what is wrong with a request, in the words of the server whose place a façade takes.
type BadRequest string

func (b BadRequest) Error() string { return string(b) }

// CheckEntries fails for a JSON body whose objects and arrays have more than most entries together, before anything is made of them: an
// entry of two bytes becomes a hundred in a map.
func CheckEntries(body []byte, most int) error {
	if entries(body) > most {
		return BadRequest(fmt.Sprintf("the body has too many entries: want up to %d", most))
	}
	return nil
}

// CheckText fails for a body that is not UTF-8, and for JSON with an escape that is half a character: a decoder has other characters in their
// place, and another program would run than was sent.
func CheckText(body []byte) error {
	if !utf8.Valid(body) {
		return BadRequest("the body is not UTF-8")
	}
	if !json.Valid(body) {
		return nil // its reader says so
	}
	if escape := strictjson.LoneSurrogate(body); escape != nil {
		return BadRequest(fmt.Sprintf("the body has %s, an escape that is half a character", escape))
	}
	return nil
}

// entries counts them: each but the first of its object or array has a comma before it.
func entries(body []byte) int {
	n := 1
	for at := 0; at < len(body); at++ {
		switch body[at] {
		case ',', '{', '[':
			n++
		case '"':
			for at++; at < len(body) && body[at] != '"'; at++ {
				if body[at] == '\\' {
					at++
				}
			}
		}
	}
	return n
}

// Text is a JSON string's; ok is false for anything else.
func Text(v json.RawMessage) (s string, ok bool) {
	ok = len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil
	return s, ok
}

// Scalar is the text of a string, a number, true or false; ok is false for all else.
func Scalar(v json.RawMessage) (text string, ok bool) {
	if len(v) == 0 || v[0] == '{' || v[0] == '[' || v[0] == 'n' { // null
		return "", false
	}
	if v[0] != '"' {
		return string(v), true
	}
	return Text(v)
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
