// Package jobe answers clients of Jobe, such as Moodle's CodeRunner: it runs programs while they wait, and
// keeps their files by name. docs/moving.md says what differs.
package jobe

import (
	"net/http"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// New returns the façade.
func New() facade.Facade {
	const base = "/index.php/restapi"
	f := facade.Facade{Name: "jobe", Base: "/jobe", Refuse: refuse, Routes: []facade.Route{
		{Pattern: "GET " + base + "/languages", Scope: facade.AnyToken, Serve: listLanguages},
		{Pattern: "POST " + base + "/runs", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: run},
		{Pattern: "PUT " + base + "/files/{id}", Scope: job.ScopeSubmit, Action: "file.put", Serve: putFile},
		{Pattern: "HEAD " + base + "/files/{id}", Scope: job.ScopeSubmit, Serve: headFile},
	}}
	for _, l := range languages {
		f.Languages = append(f.Languages, facade.Language{Runtime: l.runtime, Names: []string{l.id}})
	}
	return f
}

// refuse answers what is not served as Jobe would: it has no 401, and an error is a JSON string.
func refuse(w http.ResponseWriter, r *http.Request, p *producer.Problem) {
	status, message := facade.Say(p)
	if status == http.StatusUnauthorized {
		status, message = http.StatusForbidden, "Unknown API key"
		if !facade.HasToken(r) {
			message = "Missing API key"
		}
	}
	facade.Write(w, status, message)
}
