// Package piston answers clients of Piston v2: its runtimes, packages and execute. What Piston adds to
// a program's files and commands is in [languages]; docs/moving.md says what differs.
package piston

import (
	"net/http"
	"slices"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// version is whose contract this is.
const version = "3.1.1"

// New returns the façade.
func New() facade.Facade {
	f := facade.Facade{Name: "piston", Base: "/piston", Refuse: refuse, Routes: []facade.Route{
		{Pattern: "GET /{$}", Scope: facade.Public, Serve: root},
	}}
	// Piston's public host has the second in the place of the first.
	for _, base := range []string{"/api/v2", "/api/v2/piston"} {
		f.Routes = append(
			f.Routes,
			facade.Route{Pattern: "GET " + base + "/runtimes", Scope: facade.AnyToken, Serve: listRuntimes},
			facade.Route{Pattern: "GET " + base + "/packages", Scope: facade.AnyToken, Serve: listPackages},
			facade.Route{Pattern: "POST " + base + "/packages", Scope: facade.AnyToken, Serve: refusePackage},
			facade.Route{Pattern: "DELETE " + base + "/packages", Scope: facade.AnyToken, Serve: refusePackage},
			facade.Route{Pattern: "POST " + base + "/execute", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: execute},
			facade.Route{Pattern: "GET " + base + "/connect", Scope: job.ScopeSubmit, Action: facade.Submitted, Serve: connect},
		)
	}
	for _, l := range languages {
		f.Languages = append(f.Languages, facade.Language{Runtime: l.runtime, Names: slices.Concat([]string{l.name}, l.aliases)})
	}
	return f
}

func root(w http.ResponseWriter, _ *http.Request, _ *facade.Call) {
	writeMessage(w, http.StatusOK, "Piston v"+version)
}

func refusePackage(w http.ResponseWriter, _ *http.Request, _ *facade.Call) {
	writeMessage(w, http.StatusForbidden, "Glovebox's operator installs languages (glovebox runtimes build); this API can't")
}

// refuse answers what is not served as Piston would: whatever is wrong with a request is a 400.
func refuse(w http.ResponseWriter, _ *http.Request, p *producer.Problem) {
	status, message := facade.Say(p)
	writeMessage(w, status, message)
}

func writeMessage(w http.ResponseWriter, status int, message string) {
	facade.Write(w, status, struct {
		Message string `json:"message"`
	}{message})
}
