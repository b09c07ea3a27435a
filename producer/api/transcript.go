package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/notebook"
)

// transcriptRoutes are what a session has executed, as a whole.
func (a *API) transcriptRoutes(mux *listedMux, doc *huma.OpenAPI, d documenter) {
	add := func(what, mediaType, summary, description string, answer *huma.Response, send func(*direct.Client, *lasting, string)) {
		path := "/v1/sessions/{id}/" + what
		mux.HandleFunc("GET "+path, a.history(what, mediaType, send))
		op := d.operation("get-session-"+what, http.MethodGet, path, summary, description, d.problems(401, 404, 503))
		op.Responses["200"] = answer
		op.Parameters = []*huma.Param{{Name: "id", In: "path", Required: true, Description: "The session's id.", Schema: text()}}
		doc.AddOperation(&op)
	}
	add("transcript", producer.LinesMediaType, "Read what a session has executed",
		"Answers what the session has executed and is still kept, in its order, as JSON Lines: of each execution its result, and as input the code and files that it was given, with the session's environment. "+
			"What has not ended is not in it; what was never begun comes last, without input. `glovebox verify --session` proves offline that it is whole and unchanged.",
		&huma.Response{Description: "An execution a line", Content: map[string]*huma.MediaType{producer.LinesMediaType: {Schema: d.schema(job.Executed{})}}},
		func(c *direct.Client, out *lasting, id string) { sendAll(out, c.Transcript(out.ctx, id)) })
	add("notebook", notebook.MediaType, "Read a session as a Jupyter notebook",
		"Answers what the session has executed and is still kept as a notebook (nbformat 4.5): a code cell for each execution, with what it printed, how it failed, and small charts.",
		&huma.Response{Description: "The notebook", Content: map[string]*huma.MediaType{notebook.MediaType: {Schema: &huma.Schema{Type: huma.TypeObject}}}},
		func(c *direct.Client, out *lasting, id string) {
			if err := notebook.Write(out.ctx, out, c, id); err != nil {
				out.fail(err)
			}
		})
}

// history answers a whole session.
func (a *API) history(what, mediaType string, send func(*direct.Client, *lasting, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := a.admit(w, r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		a.answerLasting(w, r, c, "a session's "+what, mediaType, func(ctx context.Context, out *lasting) {
			send(a.answering(ctx, c.tenant), out, r.PathValue("id"))
		})
	}
}
