// Package jobe answers clients of Jobe, such as Moodle's CodeRunner: it runs programs while they wait, and
// keeps their files by name. docs/moving.md says what differs.
package jobe

import (
	"encoding/json"
	"net/http"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// New returns the façade.
func New() facade.Facade {
	const base = "/index.php/restapi"
	return facade.Facade{Name: "jobe", Base: "/jobe", Refuse: refuse, Routes: []facade.Route{
		{Pattern: "GET " + base + "/languages", Scope: facade.AnyToken, Serve: listLanguages},
		{Pattern: "POST " + base + "/runs", Scope: job.ScopeSubmit, Action: "job.submit", Serve: run},
		{Pattern: "PUT " + base + "/files/{id}", Scope: job.ScopeSubmit, Serve: putFile},
		{Pattern: "HEAD " + base + "/files/{id}", Scope: job.ScopeSubmit, Serve: headFile},
	}}
}

// refuse answers what is not served as Jobe would: it has no 401.
func refuse(w http.ResponseWriter, r *http.Request, p *producer.Problem) {
	status, message := p.Status, p.Detail
	switch status {
	case http.StatusUnauthorized:
		status, message = http.StatusForbidden, "Unknown API key"
		if !facade.HasToken(r) {
			message = "Missing API key"
		}
	case http.StatusUnprocessableEntity:
		status = http.StatusBadRequest
	}
	if len(p.Errors) > 0 {
		message = p.Errors[0].Error()
	}
	write(w, status, message)
}

// write answers JSON, which an error is, too: a string.
func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // the client may have left
}
