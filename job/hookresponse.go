package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

const (
	// MaxResponseFile bounds [ResponseFile], bytes.
	MaxResponseFile = 64 << 10

	maxAnswerHeader = 1 << 10
)

// HookResponse is what a job writes into [ResponseFile] to say what its hook answers.
type HookResponse struct {
	Status  int               `json:"status,omitempty"`  // 200 to 599, but 205 and 3xx; 200 by default
	Headers map[string]string `json:"headers,omitempty"` // those that answers may have
	Body    *string           `json:"body,omitempty"`
	// Artifact is the name of another artifact, which is the body. Without it and Body that is standard output.
	Artifact string `json:"artifact,omitempty"`
}

// answerHeaders are those that a job may set beside Content-Type. Others have a meaning to proxies before the
// API (X-Accel-Redirect reads nginx' files), to browsers of the API's origin (Set-Cookie), or for the connection.
var answerHeaders = []string{"Content-Language", "Etag", "Location", "Retry-After"}

// ParseHookResponse reads what a job wrote. It fails with [Invalid].
func ParseHookResponse(text []byte) (HookResponse, error) {
	var r HookResponse
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil || len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return r, Invalid{{ResponseFile, nil, "is no JSON object of its fields", "status, headers, and body or artifact"}}
	}
	var errs Invalid
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	if r.Status < 200 || r.Status > 599 || r.Status/100 == 3 || r.Status == http.StatusResetContent {
		errs = append(errs, FieldError{"status", r.Status, "is no status that a hook answers with", "200 to 299 but 205, 400 to 599"})
	}
	if r.Body != nil && r.Artifact != "" {
		errs = append(errs, FieldError{"artifact", clip(r.Artifact), "and body exclude each other", "one of them, or none for standard output"})
	}
	headers := map[string]string{}
	for name, value := range r.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case headers[canonical] != "":
			errs = append(errs, FieldError{"headers." + clip(name), nil, "appears more than once", "once"})
		case canonical == "Content-Type":
			if _, _, ok := AnswerType(value); !ok {
				errs = append(errs, FieldError{"headers." + clip(name), clip(value), "is no type that a hook answers with", AllowedAnswers()})
			}
		case !slices.Contains(answerHeaders, canonical):
			errs = append(errs, FieldError{"headers." + clip(name), nil, "is no header that a job may set", "Content-Type, " + strings.Join(answerHeaders, ", ")})
		case len(value) > maxAnswerHeader || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			errs = append(errs, FieldError{"headers." + clip(name), nil, "is no header's value", fmt.Sprintf("up to %d printable ASCII characters", maxAnswerHeader)})
		}
		headers[canonical] = value
	}
	r.Headers = headers
	if len(errs) > 0 {
		return r, errs
	}
	return r, nil
}
