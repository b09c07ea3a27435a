package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

const (
	// writeTime is how long a client may take for one event before it is sent away. It
	// comes back with the ID of the last event that it has.
	writeTime = 30 * time.Second
	// comeBack is when a browser whose connection ended tries again, in milliseconds.
	comeBack = 1000
	// lookInterval is how often what lasts looks the token up again.
	lookInterval = time.Second
)

// events streams what happens to a job as server-sent events. It is a plain handler: what
// goes wrong before the first event is a problem with a status of its own.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	c, err := a.admit(w, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	release, err := a.watchers.acquire(c.tenant)
	if err != nil {
		a.writeError(w, r, err)
		return
	}
	defer release()
	if err := a.watch(w, r, c, r.PathValue("id"), r.Header.Get("Last-Event-ID")); err != nil {
		a.writeError(w, r, err)
	}
}

// watch answers with what happens to a job after the event of that ID. It fails only where nothing is answered yet.
func (a *API) watch(w http.ResponseWriter, r *http.Request, c caller, id, after string) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.draining, cancel)() //nolint:contextcheck // it ends the watch, beside ctx

	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	told := make(chan happening)
	watch.Go(func() {
		defer close(told)
		for e, err := range a.answering(ctx, c.tenant).Watch(ctx, id, after) {
			select {
			case told <- happening{e, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	first, more := <-told
	switch {
	case a.draining.Err() != nil:
		return errEnding
	case !more: // the client had the last event: a browser that is told so comes back no more
		w.WriteHeader(http.StatusNoContent)
	case first.err != nil:
		return first.err
	default:
		if err := a.stream(ctx, w, r, c, first.event, told); err != nil && ctx.Err() == nil {
			a.log.InfoContext(ctx, "a watch was cut off", "request_id", requestID(ctx), "error", err)
		}
	}
	return nil
}

// happening is what a Watch yields.
type happening struct {
	event producer.Event
	err   error
}

// stream sends events until there are no more, the client leaves, or it may not watch any
// more.
func (a *API) stream(ctx context.Context, w http.ResponseWriter, r *http.Request, c caller, first producer.Event, told <-chan happening) error {
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("X-Accel-Buffering", "no") // what nginx would keep back
	out := eventWriter{w, http.NewResponseController(w)}
	err := out.write(fmt.Appendf(nil, "retry: %d\n\n", comeBack))
	if err != nil || r.Method == http.MethodHead {
		return err
	}
	send, err := sse(first)
	if err == nil {
		err = out.write(send)
	}
	beat := time.NewTicker(a.heartbeat)
	defer beat.Stop()
	looked := time.Now()
	for err == nil {
		send = []byte(": still here\n\n")
		select {
		case next, more := <-told:
			switch {
			case !more:
				return nil
			case next.err != nil:
				return next.err
			}
			if send, err = sse(next.event); err != nil {
				return err
			}
		case <-beat.C:
		}
		if time.Since(looked) >= a.look {
			if err := a.goesOn(ctx, r, c); err != nil {
				return err
			}
			looked = time.Now()
		}
		err = out.write(send)
	}
	return err
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w    http.ResponseWriter
	ctrl *http.ResponseController
}

// sse is an event as it is sent.
func sse(e producer.Event) ([]byte, error) {
	data, err := e.MarshalData()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if e.ID != "" {
		fmt.Fprintf(&b, "id: %s\n", e.ID)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Type, data)
	return b.Bytes(), nil
}

// write has a deadline of its own: that of the server is for answers that end.
func (o eventWriter) write(p []byte) error {
	if err := o.ctrl.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	if _, err := o.w.Write(p); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return o.ctrl.Flush()
}

// eventRoute registers and documents the stream of events.
func (a *API) eventRoute(mux *listedMux, doc *huma.OpenAPI, d documenter) {
	mux.HandleFunc("GET /v1/jobs/{id}/events", a.events)
	op := d.operation("watch-job", http.MethodGet, "/v1/jobs/{id}/events", "Watch a job",
		"Streams what happens to the job as server-sent events, up to its result, which is the last. The data of each is JSON in one line: "+
			"status (StatusEvent; the first of each connection, and whenever it changes), stdout and stderr (OutputEvent), compiled (Compile: the compile step has ended, if there is one), artifact (Artifact, without url), display (Shown: a result of a session's execution, as it ends), "+
			"gap (GapEvent: events were dropped; the result has all output) and result (what GET /v1/jobs/{id} answers). More types may come. "+
			"A client whose connection ends before the result comes back with Last-Event-ID, as browsers do by themselves, and goes on after that event. "+
			"When the job's worker is lost, status is queued again and output begins anew, at offset 0. Comments are sent every 15 seconds.",
		d.answers(204, "The client has had the result: there is nothing more", nil), d.problems(401, 404, 422, 503))
	op.Responses["200"] = &huma.Response{Description: "Events until the job has ended", Content: map[string]*huma.MediaType{eventStream: d.events()}}
	op.Parameters = []*huma.Param{
		{Name: "id", In: "path", Required: true, Description: "The job's id.", Schema: text()},
		{Name: "Last-Event-ID", In: "header", Description: "The id of the last event that was received; events after it are sent.", Schema: text()},
	}
	doc.AddOperation(&op)
}

// events is a stream of them.
func (d documenter) events() *huma.MediaType {
	var kinds []any
	for _, kind := range []struct {
		event producer.EventType
		data  *huma.Schema
	}{
		{producer.EventStatus, d.schema(producer.StatusEvent{})},
		{producer.EventStdout, d.schema(producer.OutputEvent{})},
		{producer.EventStderr, d.schema(producer.OutputEvent{})},
		{producer.EventArtifact, d.schema(job.Artifact{})},
		{producer.EventDisplay, d.schema(job.Shown{})},
		{producer.EventCompiled, d.schema(job.Compile{})},
		{producer.EventGap, d.schema(producer.GapEvent{})},
		{producer.EventResult, d.result},
	} {
		kinds = append(kinds, &huma.Schema{
			Type: huma.TypeObject, Required: []string{"event", "data"},
			Properties: map[string]*huma.Schema{
				"id": text(), "event": {Type: huma.TypeString, Extensions: map[string]any{"const": string(kind.event)}}, "data": kind.data,
			},
		})
	}
	return &huma.MediaType{Schema: &huma.Schema{ // as there is no better way in OpenAPI 3.1 to say what a stream consists of
		Title: "Server-sent events", Description: "Each item is an event as the HTML standard writes it: lines of text, the data as JSON.",
		Type: huma.TypeArray, Items: &huma.Schema{Extensions: map[string]any{"oneOf": kinds}},
	}}
}
