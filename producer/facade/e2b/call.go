package e2b

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// callError is an error of a procedure call, by the codes of Connect's protocol.
type callError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e callError) Error() string { return e.Message }

// statusOfCode is the HTTP status of each code that is answered.
var statusOfCode = map[string]int{
	"canceled": 499, "unknown": 500, "invalid_argument": 400, "deadline_exceeded": 504, "not_found": 404, "already_exists": 409,
	"permission_denied": 403, "resource_exhausted": 429, "unimplemented": 501, "internal": 500, "unavailable": 503, "unauthenticated": 401,
}

// codeOfStatus is the code for what is refused with an HTTP status.
func codeOfStatus(status int) string {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return "invalid_argument"
	case http.StatusUnauthorized:
		return "unauthenticated"
	case http.StatusForbidden:
		return "permission_denied"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusConflict:
		return "already_exists"
	case http.StatusTooManyRequests, http.StatusPaymentRequired:
		return "resource_exhausted"
	case http.StatusBadGateway, http.StatusServiceUnavailable: // SDKs take it for a sandbox that has ended
		return "unavailable"
	case http.StatusNotImplemented:
		return "unimplemented"
	}
	return "internal"
}

const (
	unaryType  = "application/json"
	streamType = "application/connect+json"
)

// isStream reports whether a call is answered by a stream of messages.
func isStream(r *http.Request) bool {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return strings.HasPrefix(mediaType, "application/connect+")
}

// refuseCall answers a call with an error: on a stream it is the last message.
func refuseCall(w http.ResponseWriter, r *http.Request, e callError) {
	if isStream(r) {
		w.Header().Set("Content-Type", streamType)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(envelope(endOfStream, streamEnd{&e})) // the client may have left
		return
	}
	facade.Write(w, statusOfCode[e.Code], e)
}

// failCall answers what went wrong with a call.
func failCall(w http.ResponseWriter, r *http.Request, c *facade.Call, err error) {
	refuseCall(w, r, callErrorOf(r, c, err))
}

func callErrorOf(r *http.Request, c *facade.Call, err error) callError {
	var said callError
	if errors.As(err, &said) {
		return said
	}
	p := problemOf(r, c, err)
	status, message := facade.Say(p)
	return callError{codeOfStatus(status), message}
}

// maxMessage is how large a call's message may be, in bytes: it has paths, or a program with its arguments and environment, of which a
// kernel takes 2 MiB.
const maxMessage = 4 << 20

var zippedCall = zipped{maxMessage, zippedRequest.weight}

// readCall reads the one message that a call brings. What it takes is held until done, which may be called more than once. It fails
// with a facade.BadRequest.
func readCall(ctx context.Context, r *http.Request, c *facade.Call) (q request, done func(), err error) {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != unaryType && mediaType != streamType {
		return nil, nil, statusError{http.StatusUnsupportedMediaType, fmt.Sprintf("Content-Type %.60q is not known: want %s or %s", mediaType, unaryType, streamType)}
	}
	body, bodyDone, err := readBody(ctx, r, c, zippedCall)
	if err != nil {
		return nil, nil, err
	}
	message, unzipped := body, func() {}
	if mediaType == streamType {
		message, unzipped, err = messageOf(ctx, r, c, body)
	}
	if err == nil && len(message) > maxMessage {
		err = statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the message has more than %d bytes", maxMessage)}
	}
	if err == nil {
		q, err = parseRequest(message)
	}
	if err != nil {
		bodyDone() // what is unzipped is held until the request is answered, which it is now
		return nil, nil, err
	}
	return q, func() { bodyDone(); unzipped() }, nil
}

// messageOf is the message that is the body of a stream. done gives back what it takes besides the body.
func messageOf(ctx context.Context, r *http.Request, c *facade.Call, body []byte) (message []byte, done func(), err error) {
	if len(body) < envelopeHead || int64(binary.BigEndian.Uint32(body[1:])) != int64(len(body)-envelopeHead) {
		return nil, nil, facade.BadRequest("the body is not one message of Connect's protocol")
	}
	message = body[envelopeHead:]
	if body[0]&compressed == 0 {
		return message, func() {}, nil
	}
	if coding := r.Header.Get("Connect-Content-Encoding"); coding != "gzip" {
		return nil, nil, facade.BadRequest(fmt.Sprintf("Connect-Content-Encoding %.40q is not known: want gzip", coding))
	}
	return unzip(ctx, c, message, zippedCall)
}

// A message on a stream has five bytes before it: flags, and its length.
const (
	envelopeHead = 5
	compressed   = 1
	endOfStream  = 2
)

// streamEnd is the last message of a stream.
type streamEnd struct {
	Error *callError `json:"error,omitempty"`
}

// envelope is a message as it is sent on a stream.
func envelope(flags byte, v any) []byte {
	text, err := job.Marshal(v)
	if err != nil {
		panic(err) // what is sent here always can be encoded
	}
	b := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(text))) //nolint:gosec // a message is a chunk of output at most
	return append(b, text...)
}

// stream sends messages to a client, each with a deadline of its own.
type stream struct {
	w     http.ResponseWriter
	begun bool
}

func (s *stream) send(flags byte, v any) error {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", streamType)
		s.w.Header().Set("X-Accel-Buffering", "no") // what nginx would keep back
	}
	control := http.NewResponseController(s.w)
	if err := control.SetWriteDeadline(time.Now().Add(lineTime)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	if _, err := s.w.Write(envelope(flags, v)); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return control.Flush()
}
