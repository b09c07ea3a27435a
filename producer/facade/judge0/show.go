package judge0

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// pollHold is how long a look at a submission that has not ended is held: clients look ten times a second, and know
// of its end the sooner.
const pollHold = 500 * time.Millisecond

// show answers one submission.
func show(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	v, err := viewOf(r.URL.Query())
	if err != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
		return
	}
	answer, err := look(r.Context(), c, r.PathValue("id"), v, pollHold)
	switch {
	case errors.Is(err, errNotText):
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
	case err != nil:
		fail(w, r, c, err)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

// showBatch answers several, in the order asked. What isn't there is null.
func showBatch(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	v, err := viewOf(r.URL.Query())
	if err != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
		return
	}
	asked := r.URL.Query().Get("tokens")
	if asked == "" {
		asked = r.Header.Get("tokens")
	}
	tokens := strings.FieldsFunc(asked, func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case len(tokens) == 0:
		writeJSON(w, http.StatusBadRequest, faultOf("there should be at least one submission in a batch"))
		return
	case len(tokens) > maxBatch:
		writeJSON(w, http.StatusBadRequest, faultOf(batchTooLarge))
		return
	}
	until := time.Now().Add(pollHold)
	answers := make([]map[string]any, len(tokens))
	for i, token := range tokens {
		answers[i], err = look(ctx, c, token, v, time.Until(until))
		switch {
		case errors.Is(err, errNotText):
			writeJSON(w, http.StatusBadRequest, faultOf(strings.Replace(errNotText.Error(), "this submission", "one or more submissions", 1)))
			return
		case errors.Is(err, job.ErrNotFound):
			answers[i] = nil
		case err != nil:
			fail(w, r, c, err)
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"submissions": answers})
}

// look returns a submission as it is, or once it has ended if that is within d. It fails with job.ErrNotFound, and
// errNotText.
func look(ctx context.Context, c *facade.Call, token string, v view, d time.Duration) (map[string]any, error) {
	id, ok := job.IDOfUUID(c.Tenant, token)
	if !ok {
		return nil, job.ErrNotFound
	}
	until := time.Now().Add(d)
	j, err := wait(ctx, c, id, until)
	if err != nil {
		return nil, err
	}
	if j.Metadata[languageKey] == "" {
		return nil, job.ErrNotFound
	}
	s, o := &submission{}, waiting(j, false)
	if j.Ended() || v.needsSent() {
		if s, err = kept(ctx, c, j.Metadata); errors.Is(err, errNotKept) {
			return nil, job.ErrNotFound
		} else if err != nil {
			return nil, err
		}
	}
	if j.Ended() {
		if o, err = s.outcome(ctx, c, j, v, until); err != nil {
			return nil, err
		}
	}
	name := ""
	if v.shows("language") {
		if name, err = languageName(ctx, c, s.LanguageID); err != nil {
			return nil, err
		}
	}
	return v.show(strings.ToLower(token), s, name, o)
}

// wait returns a job as it is at that time, or as soon as it has ended.
func wait(ctx context.Context, c *facade.Call, id string, until time.Time) (producer.Job, error) {
	if d := time.Until(until); d > 0 {
		return c.Host.Wait(ctx, id, d)
	}
	return c.Client.Get(ctx, id)
}

// outcome is that of all runs of a submission, the one of its token among them: of the first that is not accepted,
// or of the last.
func (s *submission) outcome(ctx context.Context, c *facade.Call, main producer.Job, v view, until time.Time) (outcome, error) {
	var runs []outcome
	for _, id := range append(s.Runs, main.ID) {
		j := main
		if id != main.ID {
			var err error
			if j, err = wait(ctx, c, id, until); err != nil {
				return outcome{}, fmt.Errorf("read run %s: %w", id, err)
			}
		}
		if !j.Ended() {
			return waiting(main, true), nil
		}
		o, err := s.judge(ctx, c, *j.Result, v.shows("stdout", "stderr"))
		if err != nil {
			return o, err
		}
		o.created = main.Timing.CreatedAt
		if runs = append(runs, o); o.status != accepted {
			break
		}
	}
	return average(runs), nil
}

// languageName is a language's, "" if there are no workers for it any more.
func languageName(ctx context.Context, c *facade.Call, id int) (string, error) {
	list, err := readCatalog(ctx, c)
	if err != nil {
		return "", err
	}
	o, ok := list.find(id)
	if !ok {
		return "", nil
	}
	return o.name(), nil
}
