package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// BatchRequest is a batch as one JSON object. It is here for its schema: nobody holds one.
type BatchRequest struct {
	job.BatchOptions

	Jobs []job.Spec `json:"jobs" minItems:"1" maxItems:"10000" doc:"The jobs; it has to be the last field." nullable:"false"`
}

// batchRoutes are huma's except for those whose bodies are streams.
func (a *API) batchRoutes(mux *listedMux, h huma.API, d documenter) {
	batch := d.schema(job.Batch{})

	mux.HandleFunc("POST /v1/batches", a.submitBatch)
	submit := d.operation("submit-batch", http.MethodPost, "/v1/batches", "Submit a batch of jobs",
		"Accepts up to 10,000 jobs, as JSON Lines (a job a line; the first line may be {\"batch\": {…}} with what is said of the batch as a whole) or as one JSON object whose last field is jobs. "+
			"The body is read as a stream, and jobs run as soon as they are accepted. A job that is not valid is rejected, and the others go on. Where the batch can't be received to its end, the problem says what became of it: "+
			"without an idempotency key it is canceled; with one, the same request again goes on with it, for 15 minutes, and makes no job twice.",
		d.answers(202, "Every job is accepted or rejected", batch), d.problems(400, 401, 402, 408, 409, 410, 413, 415, 422, 503))
	submit.Parameters = []*huma.Param{{
		Name: "Idempotency-Key", In: "header", Description: "The same as idempotency_key in the body.", Schema: text(),
	}}
	submit.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/json":      {Schema: d.schema(BatchRequest{})},
		producer.LinesMediaType: {Schema: &huma.Schema{Type: huma.TypeString, Description: "A job a line; application/jsonl means the same."}},
	}}
	h.OpenAPI().AddOperation(&submit)

	huma.Register(h, d.operation("get-batch", http.MethodGet, "/v1/batches/{id}", "Get a batch",
		"Answers how far the batch is. With Prefer: wait=30 the answer is held until it has ended or 30 seconds have passed; then it is 202.",
		d.answers(200, "The batch", batch), d.answers(202, "The time is up and the batch has not ended", batch), d.problems(401, 404, 503)), a.getBatch)
	huma.Register(h, d.operation("cancel-batch", http.MethodDelete, "/v1/batches/{id}", "Cancel a batch",
		"Ends what is queued of it at once and asks for the end of what runs. Canceling a canceled batch again changes nothing. A token without the scope read is told its id, status, counts and times.",
		d.answers(200, "The batch is canceled", batch), d.answers(202, "Some of its jobs run and were asked to stop", batch), d.problems(401, 404, 409, 503)), a.cancelBatch)
	huma.Register(h, d.operation("list-batches", http.MethodGet, "/v1/batches", "List batches",
		"Answers the tenant's batches, newest first, as long as they are kept. Where next_cursor is, there may be more.",
		d.problems(401, 422, 503)), a.listBatches)
	describeList(h.OpenAPI().Paths["/v1/batches"].Get)

	mux.HandleFunc("GET /v1/batches/{id}/results", a.batchResults)
	results := d.operation("list-batch-results", http.MethodGet, "/v1/batches/{id}/results", "Read the results of a batch",
		"Answers what has ended of the batch as JSON Lines, by index: {\"index\", \"id\", \"result\"}, or an error in the place of a result for a job that was rejected, or whose result is kept no longer or can't be read. "+
			"The token in a batch's results_url is enough; without it, the tenant's own is needed. An answer that breaks off can be gone on with at from.",
		d.problems(401, 403, 404, 422, 503))
	results.Responses["200"] = &huma.Response{Description: "A BatchResult a line", Content: map[string]*huma.MediaType{producer.LinesMediaType: {Schema: d.schema(job.BatchResult{})}}}
	results.Security = append(results.Security, map[string][]string{})
	results.Parameters = []*huma.Param{
		{Name: "id", In: "path", Required: true, Description: "The batch's id.", Schema: text()},
		{Name: "from", In: "query", Description: "The first index to answer; 0 by default.", Schema: &huma.Schema{Type: huma.TypeInteger}},
		{Name: "token", In: "query", Description: "Capability from a batch's results_url.", Schema: text()},
	}
	h.OpenAPI().AddOperation(&results)
}
