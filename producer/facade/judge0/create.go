package judge0

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// created is what is answered of a submission that was accepted.
type created struct {
	Token string `json:"token"`
}

// create takes one submission.
func create(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	body, done, err := c.Host.Body(ctx)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	sent, err := bodyParams(r.Header.Get("Content-Type"), body)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
		return
	}
	query := r.URL.Query()
	for name, value := range queryParams(query) { // as Rails has it: either will do
		if _, ok := sent[name]; !ok {
			sent[name] = value
		}
	}
	for _, name := range []string{"base64_encoded", "fields", "wait"} {
		query.Set(name, sent[name])
	}
	view, viewErr := viewOf(query)
	wait := isTrue(query.Get("wait"))
	if viewErr != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(viewErr.Error()))
		return
	}
	t, err := newTaker(ctx, c, view.encoded)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	token, wrong, err := t.submit(ctx, sent)
	done() // a wait holds nothing of the body
	switch {
	case err != nil:
		fail(w, r, c, err)
	case wrong != nil:
		writeJSON(w, http.StatusUnprocessableEntity, wrong)
	case wait:
		showCreated(w, r, c, token, view)
	default:
		writeJSON(w, http.StatusCreated, created{token})
	}
}

// showCreated waits until a submission has ended, and answers it. Where it can't be shown the token is answered all the
// same: who does not get it sends the submission again.
func showCreated(w http.ResponseWriter, r *http.Request, c *facade.Call, token string, v view) {
	l := looker{c: c, view: v}
	answer, err := l.look(r.Context(), token, c.Host.MaxWait())
	switch {
	case errors.Is(err, errNotText):
		answer = map[string]any{"token": token, "error": err.Error()}
	case err != nil:
		answer = map[string]any{"token": token, "error": c.Host.Problem(r.Context(), err).Detail}
	}
	writeJSON(w, http.StatusCreated, answer)
}

// taker takes the submissions of a request.
type taker struct {
	c         *facade.Call
	encoded   bool
	languages catalog
	most      bounds
	left      int64  // jobs that it may still make: a submission takes one for each of its runs
	noted     string // the newest submission's job, which the audit log has as the request's
}

func newTaker(ctx context.Context, c *facade.Call, encoded bool) (*taker, error) {
	languages, err := readCatalog(ctx, c)
	if err != nil {
		return nil, err
	}
	most, err := c.Client.TenantMaximums(ctx)
	if err != nil {
		return nil, err
	}
	return &taker{c: c, encoded: encoded, languages: languages, most: boundsOf(most), left: maxBatch}, nil
}

// submit makes a submission the jobs that run it, and returns its token, or what is wrong with it.
func (t *taker) submit(ctx context.Context, p params) (token string, wrong faults, err error) {
	c := t.c
	s, wrong := readSubmission(p, t.encoded, t.languages, t.most)
	if len(wrong) > 0 {
		return "", wrong, nil
	}
	if s.NumberOfRuns > t.left {
		return "", faults{"number_of_runs": {fmt.Sprintf("all runs of a batch should be less than or equal to %d", maxBatch)}}, nil
	}
	var bad facade.BadRequest
	done, err := s.unpackHeld(ctx, c)
	if errors.As(err, &bad) {
		return "", faults{"additional_files": {err.Error()}}, nil
	} else if err != nil {
		return "", nil, err
	}
	defer done()
	language, _ := t.languages.find(s.LanguageID)
	spec, err := s.spec(language, t.languages)
	if err != nil {
		return "", faults{"additional_files": {err.Error()}}, nil
	}
	id, err := s.run(ctx, c, spec)
	var invalid job.Invalid
	switch {
	case errors.As(err, &invalid):
		return "", translate(invalid), nil
	case errors.As(err, &bad):
		return "", faults{"base": {bad.Error()}}, nil
	case err != nil:
		return "", nil, err
	}
	t.left -= s.NumberOfRuns
	if t.noted != "" {
		c.Host.Did(facade.Submitted, t.noted)
	}
	t.noted = id
	c.Host.Note(id)
	token, ok := job.UUIDOf(id)
	if !ok {
		return "", nil, fmt.Errorf("job %s has no UUID", id)
	}
	return token, nil, nil
}

// run submits a job for each run, the one of the token last: once that is there, all are.
func (s *submission) run(ctx context.Context, c *facade.Call, spec job.Spec) (id string, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, id := range s.Runs {
			_, _ = c.Client.Cancel(context.WithoutCancel(ctx), id) // what runs all the same is nobody's to see
		}
	}()
	if s.NumberOfRuns > 1 {
		s.RunsOf = rand.Text()
		if err := s.foresee(ctx, c, spec); err != nil {
			return "", err
		}
		if err := share(ctx, c, &spec); err != nil {
			return "", err
		}
	}
	for range s.NumberOfRuns - 1 {
		spec.Metadata = map[string]string{runKey: s.RunsOf}
		j, err := c.Client.Submit(ctx, spec)
		if err != nil {
			return "", err
		}
		c.Host.Did(facade.Submitted, j.ID)
		s.Runs = append(s.Runs, j.ID)
	}
	if spec.Metadata, err = s.keep(ctx, c); err != nil {
		return "", err
	}
	spec.Callback = s.callback()
	j, err := c.Client.Submit(ctx, spec)
	return j.ID, err
}

// foresee fails as the last of several jobs would, before the first is submitted.
func (s *submission) foresee(ctx context.Context, c *facade.Call, spec job.Spec) error {
	spec.Callback = s.callback()
	if _, err := c.Client.LimitsOf(ctx, spec); err != nil {
		return err
	}
	planned := *s
	for range s.NumberOfRuns { // one more than there will be: not all ids are as short once they are compressed
		planned.Runs = append(planned.Runs, job.NewID(c.Tenant))
	}
	_, err := planned.keep(ctx, c)
	return err
}

// callback is that of the job of the token.
func (s *submission) callback() *job.Callback {
	if s.Callback == nil {
		return nil
	}
	return &job.Callback{URL: *s.Callback}
}

// shareFrom is how large files of a spec are, in bytes, that several jobs have in common, rather than each its own.
const shareFrom = 64 << 10

// share makes a spec's files uploads, so that however many jobs run it they are stored once.
func share(ctx context.Context, c *facade.Call, spec *job.Spec) error {
	for i, f := range spec.Files {
		if len(f.ContentBase64) < shareFrom {
			continue
		}
		content, err := f.Bytes()
		if err != nil {
			return err
		}
		sum, err := c.Client.PutUpload(ctx, content)
		if err != nil {
			return err
		}
		spec.Files[i] = job.File{Name: f.Name, Upload: sum}
	}
	return nil
}

// fieldOf are Judge0's names for fields of a job.
var fieldOf = map[string]string{
	"limits.wall_ms": "wall_time_limit", "limits.cpu_ms": "cpu_time_limit", "limits.memory_mb": "memory_limit", "limits.stack_mb": "stack_limit",
	"limits.processes": "max_processes_and_or_threads", "limits.output_kb": "max_file_size",
	"limits.source_kb": "source_code", "source": "source_code", "entrypoint": "additional_files", "runtime": "language_id",
	"callback.url": "callback_url", "commands.compile": "compiler_options", "commands.run": "command_line_arguments",
}

// translate says in Judge0's words what Glovebox finds wrong: mostly that the tenant's terms allow less.
func translate(invalid job.Invalid) faults {
	wrong := faults{}
	for _, f := range invalid {
		name, ok := fieldOf[f.Field]
		switch {
		case ok:
		case strings.HasPrefix(f.Field, "files"):
			name = "additional_files"
		case strings.HasPrefix(f.Field, "stdin"):
			name = "stdin"
		default:
			name = "base"
		}
		wrong.add(name, "%s; allowed: %s", f.Message, f.Allowed)
	}
	return wrong
}

// createBatch takes several. Each is answered for itself.
func createBatch(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	body, done, err := c.Host.Body(ctx)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	defer done()
	var batch struct {
		Submissions []json.RawMessage `json:"submissions"`
		Encoded     json.RawMessage   `json:"base64_encoded"`
	}
	if err := errors.Join(facade.CheckEntries(body, maxBodyEntries), facade.CheckText(body)); err != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
		return
	}
	err = json.Unmarshal(body, &batch)
	switch {
	case err != nil:
		writeJSON(w, http.StatusBadRequest, faultOf(errBody.Error()))
		return
	case len(batch.Submissions) == 0:
		writeJSON(w, http.StatusBadRequest, faultOf("there should be at least one submission in a batch"))
		return
	case len(batch.Submissions) > maxBatch:
		writeJSON(w, http.StatusBadRequest, faultOf(batchTooLarge))
		return
	}
	encoded := isTrue(r.URL.Query().Get("base64_encoded"))
	if text, ok := facade.Scalar(batch.Encoded); ok {
		encoded = isTrue(text)
	}
	// Many jobs take long to store, and what a body has while it is decoded all tenants have together. The tenant's own takes its place.
	if _, err := c.Host.Work(ctx, int64(len(body))); err != nil {
		fail(w, r, c, err)
		return
	}
	done()
	t, err := newTaker(ctx, c, encoded)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	answers := make([]any, 0, len(batch.Submissions))
	status := http.StatusUnprocessableEntity
	for _, raw := range batch.Submissions {
		p, err := jsonParams(raw)
		if err != nil {
			p = params{}
		}
		token, wrong, err := t.submit(ctx, p)
		switch {
		case err != nil && status == http.StatusCreated: // tokens were given out: they must not get lost
			answers = append(answers, faultOf(c.Host.Problem(ctx, err).Detail))
			continue
		case err != nil:
			fail(w, r, c, err)
			return
		case wrong != nil:
			answers = append(answers, wrong)
			continue
		}
		status = http.StatusCreated
		answers = append(answers, created{token})
	}
	writeJSON(w, status, answers)
}

var batchTooLarge = fmt.Sprintf("number of submissions in a batch should be less than or equal to %d", maxBatch)
