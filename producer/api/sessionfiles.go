package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/sessionfiles"
)

// fileRequest is a request about a session's files.
type fileRequest struct {
	w             http.ResponseWriter
	r             *http.Request
	client        *direct.Client
	tenant        string
	session, name string
}

// sessionFileRoutes are plain handlers: names hold slashes, and files are bytes.
func (a *API) sessionFileRoutes(mux *listedMux, doc *huma.OpenAPI, d documenter) {
	const below = "/v1/sessions/{id}/files"
	const one = below + "/{name}"
	const turn = " It is an execution of the session, in its turn: it waits until those before it have ended, resumes a session that is paused, is in the transcript, and counts as an execution. Where its turn doesn't come within the time that an answer may take, it is canceled (429, session_busy). "
	const links = "A link is never followed."
	id := &huma.Param{Name: "id", In: "path", Required: true, Description: "The session's id.", Schema: text()}
	name := &huma.Param{Name: "name", In: "path", Required: true, Description: "The file's name below the session's directory; it may hold slashes.", Schema: text()}
	query := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Description: description, Schema: text()}
	}
	add := func(method, pattern, path, operation, summary, description string, do func(context.Context, fileRequest) error, body *huma.RequestBody, answer map[string]*huma.Response, params ...*huma.Param) {
		mux.HandleFunc(method+" "+pattern, a.sessionFile(do))
		op := d.operation(operation, method, path, summary, description, answer, d.problems(401, 402, 404, 409, 410, 413, 422, 503))
		op.Parameters, op.RequestBody = append([]*huma.Param{id}, params...), body
		doc.AddOperation(&op)
	}
	add(http.MethodGet, below, below, "list-session-files", "List files of a session", "What a directory of the session holds, by name."+turn+links,
		a.listSessionFiles, nil, d.answers(200, "A page", d.schema(job.FileList{})),
		query("path", "Of the directory, below the session's own; that itself by default."), query("cursor", "The next_cursor of the page before."))
	add(http.MethodGet, below+"/{name...}", one, "read-session-file", "Read a file of a session",
		"Redirects to the bucket for a few minutes, which has the file as an artifact of the execution."+turn+"limits.artifact_mb of the session is the most that a file may have (413). "+links,
		a.readSessionFile, nil, d.answers(302, "The file is at Location", nil), name)
	add(http.MethodPut, below+"/{name...}", one, "write-session-file", "Write a file of a session, or make a directory",
		"Writes the body to a file, in the place of what has its name, and makes the directories above it. A larger file is uploaded first (POST /v1/uploads) and given to the session by execute."+turn+links,
		a.writeSessionFile, &huma.RequestBody{Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}, d.answers(204, "It is there", nil),
		name, query("directory", "true: make a directory of that name, and no file. There is no body then."))
	add(http.MethodDelete, below+"/{name...}", one, "delete-session-file", "Delete a file of a session", "Removes a file, a link itself, or a directory that is empty."+turn,
		a.deleteSessionFile, nil, d.answers(204, "It is gone", nil), name)
}

// forTurn is a context for as long as an answer may wait, from now on, for a session's turn.
func (a *API) forTurn(ctx context.Context) (waiting context.Context, done func()) {
	waiting, cancel := context.WithTimeout(ctx, a.maxWait)
	stop := context.AfterFunc(a.draining, cancel) // it ends the wait, beside the request's
	return waiting, func() { stop(); cancel() }
}

// sessionFile answers what do does.
func (a *API) sessionFile(do func(context.Context, fileRequest) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := a.admit(w, r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		client := a.answering(r.Context(), c.tenant).WithoutHolds()
		q := fileRequest{w, r, client, c.tenant, r.PathValue("id"), r.PathValue("name")}
		_, err = client.Session(r.Context(), q.session)         // before a body is read, or uploaded
		if err == nil && strings.HasPrefix(r.Pattern, "GET ") { // HEAD, too: an execution, whose result is read
			err = c.may(job.ScopeRead)
		}
		if problem := job.CheckName(q.name); err == nil && strings.HasSuffix(r.Pattern, "{name...}") && problem != "" {
			err = job.Invalid{{Field: "name", Value: clip(q.name), Message: problem, Allowed: "a name below the session's directory"}}
		}
		if err == nil {
			err = do(r.Context(), q)
			if errors.Is(err, context.Canceled) && r.Context().Err() == nil {
				err = &job.Error{Code: job.CodeUnavailable, Message: "the api ends"}
			}
		}
		if err != nil {
			a.writeError(w, r, err)
		}
	}
}

func (a *API) listSessionFiles(ctx context.Context, q fileRequest) error {
	query := q.r.URL.Query()
	if dir := query.Get("path"); dir != "" && job.CheckName(dir) != "" {
		return job.Invalid{{Field: "path", Value: clip(dir), Message: job.CheckName(dir), Allowed: "a name below the session's directory, or none"}}
	}
	ctx, done := a.forTurn(ctx)
	defer done()
	list, err := sessionfiles.List(ctx, q.client, q.session, query.Get("path"), query.Get("cursor"))
	if err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(q.w).Encode(list) // the client may have left
	return nil
}

func (a *API) readSessionFile(ctx context.Context, q fileRequest) error {
	waiting, done := a.forTurn(ctx)
	defer done()
	id, _, err := sessionfiles.Read(waiting, q.client, q.session, q.name)
	if err != nil {
		return err
	}
	f, err := q.client.Locate(ctx, id, producer.ArtifactPath(q.name))
	if err != nil {
		return err
	}
	target, err := q.client.Presign(ctx, f, a.life)
	if err != nil {
		return fmt.Errorf("presign: %w", err)
	}
	q.w.Header().Set("Referrer-Policy", "no-referrer")
	q.w.Header().Set("Location", target)
	q.w.WriteHeader(http.StatusFound)
	return nil
}

func (a *API) writeSessionFile(ctx context.Context, q fileRequest) error {
	var err error
	switch directory := q.r.URL.Query().Get("directory"); directory {
	case "true":
		waiting, done := a.forTurn(ctx)
		defer done()
		err = sessionfiles.MakeDirectory(waiting, q.client, q.session, q.name)
	case "", "false":
		err = a.putSessionFile(ctx, q)
	default:
		err = job.Invalid{{Field: "directory", Value: clip(directory), Message: "is not known", Allowed: "true or false"}}
	}
	if err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// putSessionFile writes the body to the file. What the body takes is given back before the session's turn is waited for.
func (a *API) putSessionFile(ctx context.Context, q fileRequest) error {
	content, done, err := a.bodyText(ctx, sentBody{q.w, q.r, a.bodyLimit}, q.tenant)
	if err != nil {
		return err
	}
	defer done()
	file, err := q.client.InputFile(ctx, q.name, content)
	if err != nil {
		return err
	}
	if file.Upload != "" {
		done()
	}
	waiting, stop := a.forTurn(ctx)
	defer stop()
	return sessionfiles.Put(waiting, q.client, q.session, file)
}

func (a *API) deleteSessionFile(ctx context.Context, q fileRequest) error {
	ctx, done := a.forTurn(ctx)
	defer done()
	if err := sessionfiles.Delete(ctx, q.client, q.session, q.name); err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}
