package api

import (
	"errors"
	"mime"

	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
)

// decode reads a body: a submitted job, say. Its error is a problem that lists what is wrong.
func decode[T any](contentType string, body []byte) (v T, err error) {
	if err := checkMediaType(contentType); err != nil {
		return v, err
	}
	v, err = strictjson.Decode[T](body, "body")
	var malformed strictjson.Malformed
	var invalid job.Invalid
	switch {
	case errors.As(err, &malformed):
		err = bodyProblem(malformed.Message, malformed.Allowed)
	case errors.As(err, &invalid):
		err = invalidProblem(invalid)
	}
	return v, err
}

func checkMediaType(contentType string) error {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if contentType == "" || err == nil && mediaType == "application/json" {
		return nil
	}
	p := newProblem(job.CodeMediaType, "this is sent as application/json")
	p.Errors = job.Invalid{{Field: "Content-Type", Value: clip(contentType), Message: "is not known", Allowed: "application/json"}}
	return p
}

// bodyProblem says what is wrong with the body as a whole.
func bodyProblem(fault, allowed string) problem {
	p := malformed("the body " + fault)
	p.Errors = job.Invalid{{Field: "body", Message: fault, Allowed: allowed}}
	return p
}

// clip shortens what a stranger sent.
func clip(s string) string { return job.Clip(s, 120) }
