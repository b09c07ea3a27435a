package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/internal/jobstream"
	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// linesMediaTypes are what JSON Lines goes by.
var linesMediaTypes = map[string]bool{producer.LinesMediaType: true, "application/jsonl": true, "application/x-jsonlines": true}

// submitBatch is a plain handler: huma would read the whole body first.
func (a *API) submitBatch(w http.ResponseWriter, r *http.Request) {
	c, err := a.admit(w, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	release, err := a.receipts.acquire(c.tenant)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	defer release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	control := http.NewResponseController(w)
	defer context.AfterFunc(a.draining, func() { //nolint:contextcheck // who sends goes on with another process, and may pause now
		cancel()
		_ = control.SetReadDeadline(time.Now())
	})()
	b, err := a.receive(w, r.WithContext(ctx), c)
	// What follows has its own time: the answer, and the rest of a body that nobody wants.
	// Where a deadline can't be set the connection is gone, and nobody is left to tell.
	end := time.Now().Add(answerTime)
	_ = control.SetWriteDeadline(end)
	if err != nil {
		if a.draining.Err() != nil { // a sender who pauses is answered before Serve gives up
			end = time.Now().Add(endingTime)
		}
		_ = control.SetReadDeadline(end)
		writeAnswered(w, a.batchProblem(r.Context(), err))
		return
	}
	w.Header().Set("Location", "/v1/batches/"+b.ID)
	writeJSON(w, http.StatusAccepted, b)
}

func (a *API) receive(w http.ResponseWriter, r *http.Request, c caller) (job.Batch, error) {
	if r.ContentLength > a.batchLimit {
		w.Header().Set("Connection", "close")
		return job.Batch{}, tooLarge(a.batchLimit + 1)
	}
	body := &heldBody{
		patientBody: patientBody{r: endingBody{http.MaxBytesReader(w, r.Body, a.batchLimit), a.draining}, control: http.NewResponseController(w), patience: a.bodyTime, most: 5 * a.bodyTime},
		ctx:         r.Context(), held: reservation{budget: a.bodies, tenant: c.tenant},
		work: reservation{budget: a.work}, // nobody's: it is held for moments
	}
	defer body.held.release()
	defer body.work.release()
	stream, err := openStream(r.Header.Get("Content-Type"), body, a.bodyLimit)
	if err != nil {
		return job.Batch{}, err
	}
	options, err := batchOptions(stream.Head, r.Header.Get("Idempotency-Key"))
	if err != nil {
		return job.Batch{}, err
	}
	goesOn := func(ctx context.Context) error { return a.goesOn(ctx, r, c) }
	return a.client.For(c.tenant).As(c.token).ReceiveBatch(r.Context(), producer.BatchOptions{BatchOptions: options}, goesOn, batchItems(stream, body))
}

func openStream(contentType string, body io.Reader, most int64) (*jobstream.Reader, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && linesMediaTypes[mediaType]:
		return jobstream.Lines(body, most)
	case err == nil && mediaType == "application/json":
		return jobstream.Object(body, most)
	}
	p := newProblem(job.CodeMediaType, "a batch is sent as JSON Lines or as one JSON object")
	p.Errors = job.Invalid{{Field: "Content-Type", Value: clip(contentType), Message: "is not known", Allowed: producer.LinesMediaType + ", application/json"}}
	return nil, p
}

// batchOptions reads what was said before the jobs, and the header that means the same.
func batchOptions(head []byte, key string) (o job.BatchOptions, err error) {
	if head != nil {
		if o, err = decode[job.BatchOptions]("application/json", head); err != nil {
			return o, err
		}
	}
	o.IdempotencyKey, err = idempotencyKey(o.IdempotencyKey, key)
	return o, err
}

// batchItems decodes jobs one by one. One that is JSON of another shape than a job's is
// an item with faults.
func batchItems(stream *jobstream.Reader, body *heldBody) iter.Seq2[direct.BatchItem, error] {
	return func(yield func(direct.BatchItem, error) bool) {
		for {
			raw, err := stream.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			item := direct.BatchItem{JSON: raw.JSON}
			if err == nil {
				item.Done, err = body.handOn(int64(len(raw.JSON)))
			}
			if err == nil {
				item.Spec, item.Invalid, err = decodeItem(raw.JSON)
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

func decodeItem(text []byte) (job.Spec, job.Invalid, error) {
	spec, err := strictjson.Decode[job.Spec](text, "body")
	var invalid job.Invalid
	var malformed strictjson.Malformed
	if errors.As(err, &malformed) {
		invalid = job.Invalid{job.FieldError(malformed)}
	}
	if invalid != nil || errors.As(err, &invalid) {
		return job.Spec{}, invalid, nil
	}
	return spec, nil, err
}

// batchProblem says what became of a batch that was not received.
func (a *API) batchProblem(ctx context.Context, err error) error {
	var left *producer.BatchError
	cause := err
	if errors.As(err, &left) {
		cause = left.Err
	}
	answer := a.problem(ctx, a.streamProblem(cause))
	var p problem
	if left == nil || !errors.As(answer, &p) {
		return answer
	}
	whole := *p.Problem
	whole.Batch = &left.Batch
	if noteOf(ctx).caller.may(job.ScopeRead) != nil { // another may have submitted it, under that key
		left.Batch.ResultsURL = ""
	}
	whole.Detail += "; " + leftAs(left.Batch)
	var headers huma.HeadersError
	if errors.As(answer, &headers) {
		return huma.ErrorWithHeaders(problem{&whole}, headers.GetHeaders())
	}
	return problem{&whole}
}

// leftAs says what became of a batch that was not received to its end, and how its sender goes on.
func leftAs(b job.Batch) string {
	taken := fmt.Sprintf("%d jobs of batch %s were taken", b.Jobs, b.ID)
	switch {
	case b.CancelRequested:
		return taken + ", it is canceled"
	case b.SealedAt != nil: // by a request before this one: nothing can be added to it
		return fmt.Sprintf("batch %s under that key is complete, with %d jobs: another batch wants a new key", b.ID, b.Jobs)
	}
	return taken + ", send the same batch again with its idempotency key, within 15 minutes, to go on"
}

// streamProblem says what is wrong with a body as such.
func (a *API) streamProblem(err error) error {
	var syntax *jobstream.SyntaxError
	var tooMuch *http.MaxBytesError
	switch {
	case errors.As(err, &tooMuch):
		return tooLarge(a.batchLimit + 1)
	case errors.As(err, &syntax) && syntax.TooLarge:
		p := newProblem(job.CodeTooLarge, syntax.Where+" "+syntax.Message)
		p.Errors = job.Invalid{{Field: syntax.Where, Message: syntax.Message, Allowed: syntax.Allowed}}
		return p
	case errors.As(err, &syntax):
		p := malformed(syntax.Where + " " + syntax.Message)
		p.Errors = job.Invalid{{Field: syntax.Where, Message: syntax.Message, Allowed: syntax.Allowed}}
		return p
	case errors.Is(err, errImpatient):
		return newProblem(job.CodeTimeout, "the batch came too slowly")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("the body ended before its announced end")
	case errors.Is(err, errToken), errors.Is(err, direct.ErrTokenExpired):
		return newProblem(job.CodeUnauthorized, "the token was revoked, or has expired, while the batch came")
	case errors.Is(err, errShareFull), errors.Is(err, errMemoryFull):
		return memoryProblem(err)
	case errors.Is(err, context.Canceled) && a.draining.Err() != nil:
		return errEnding
	}
	return err
}

const (
	// bodyRate is how many bytes a second buy a sender of a large body more time.
	bodyRate = 32 << 10
	// answerTime is how long an answer, or one line of it, may take, resultsTime all lines.
	answerTime  = 30 * time.Second
	resultsTime = time.Hour
	// endingTime is how long the rest of a body may take that nobody wants, once the API drains.
	endingTime = time.Second
	// What a tenant may have under way at once in one process.
	maxReceipts = 64
	maxReadings = 16
)

type batchInput struct {
	ID string `path:"id" doc:"The batch's id."`
}

type getBatchInput struct {
	ID     string `path:"id" doc:"The batch's id."`
	Prefer string `header:"Prefer" doc:"wait=SECONDS holds the answer until the batch has ended or the time is up (RFC 7240)." example:"wait=30"`
}

type batchOutput struct {
	Status            int
	PreferenceApplied string `header:"Preference-Applied" doc:"The wait that was applied."`
	Body              job.Batch
}

func (a *API) getBatch(ctx context.Context, in *getBatchInput) (*batchOutput, error) {
	client := a.tenantClient(ctx)
	out := &batchOutput{Status: http.StatusOK}
	var err error
	if d := preferredWait(in.Prefer, a.maxWait); d > 0 {
		out.PreferenceApplied = fmt.Sprintf("wait=%d", int(d.Seconds()))
		out.Body, err = held(ctx, a, in.ID, d, client.WaitBatch, client.GetBatch)
	} else {
		out.Body, err = client.GetBatch(ctx, in.ID)
	}
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if out.PreferenceApplied != "" && !out.Body.Status.Final() {
		out.Status = http.StatusAccepted
	}
	return out, nil
}

func (a *API) cancelBatch(ctx context.Context, in *batchInput) (*batchOutput, error) {
	b, err := a.tenantClient(ctx).CancelBatch(ctx, in.ID)
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	if callerOf(ctx).may(job.ScopeRead) != nil { // another may have submitted it
		b.ResultsURL, b.Errors, b.Metadata = "", nil, nil
	}
	out := &batchOutput{Status: http.StatusOK, Body: b}
	if !b.Status.Final() {
		out.Status = http.StatusAccepted
	}
	return out, nil
}

type listBatchesInput struct {
	Limit  string `query:"limit"`
	Cursor string `query:"cursor"`
}

type listBatchesOutput struct {
	Body producer.BatchPage
}

func (a *API) listBatches(ctx context.Context, in *listBatchesInput) (*listBatchesOutput, error) {
	o, err := (&listInput{Limit: in.Limit, Cursor: in.Cursor}).options()
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	page, err := a.tenantClient(ctx).ListBatches(ctx, producer.BatchListOptions{Limit: o.Limit, Cursor: o.Cursor})
	if err != nil {
		return nil, a.problem(ctx, err)
	}
	return &listBatchesOutput{page}, nil
}

// batchResults sends results as JSON Lines, as they are read: an answer that is cut off
// has no proper end.
func (a *API) batchResults(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	c, err := a.reader(w, r, id, producer.Results)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	a.answerLasting(w, r, c, "results of a batch", producer.LinesMediaType, func(ctx context.Context, out *lasting) {
		from := 0
		if text := r.URL.Query().Get("from"); text != "" {
			if from, err = strconv.Atoi(text); err != nil || from < 0 {
				a.writeError(w, r, job.Invalid{{Field: "from", Value: clip(text), Message: "is no index", Allowed: fmt.Sprintf("0 to %d", job.MaxBatch)}})
				return
			}
		}
		sendAll(out, a.answering(ctx, c.tenant).BatchResults(ctx, id, from))
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = marshal(w, v) // the client may have left
}
