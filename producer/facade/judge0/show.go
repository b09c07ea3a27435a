package judge0

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	l := looker{c: c, view: v}
	answer, err := l.look(r.Context(), r.PathValue("id"), pollHold)
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
	v, err := viewOf(r.URL.Query())
	if err != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
		return
	}
	asked := r.URL.Query().Get("tokens")
	if asked == "" {
		asked = r.Header.Get("tokens")
	}
	tokens := strings.FieldsFunc(strings.ToLower(asked), func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case len(tokens) == 0:
		writeJSON(w, http.StatusBadRequest, faultOf("there should be at least one submission in a batch"))
		return
	case len(tokens) > maxBatch:
		writeJSON(w, http.StatusBadRequest, faultOf(batchTooLarge))
		return
	}
	several{
		tokens: tokens, view: v, hold: pollHold, nulls: true,
		notText: errNotTexts,
	}.answer(w, r, c)
}

// looker looks at submissions.
type looker struct {
	c         *facade.Call
	view      view
	languages catalog // as they were read, once they were needed
}

// look returns a submission as it is, or once it has ended if that is within d. It fails with job.ErrNotFound, and
// errNotText.
func (l *looker) look(ctx context.Context, token string, d time.Duration) (map[string]any, error) {
	c, v := l.c, l.view
	id, ok := job.IDOfUUID(c.Tenant, token)
	if !ok {
		return nil, job.ErrNotFound
	}
	until := time.Now().Add(d)
	j, err := wait(ctx, c, id, until)
	if err != nil {
		return nil, err
	}
	s, err := kept(j.Metadata)
	if err != nil {
		return nil, job.ErrNotFound
	}
	if v.shows(textFields...) {
		if err := s.readTexts(ctx, c, j.Metadata); err != nil {
			return nil, err
		}
	}
	o := waiting(j, false)
	if j.Ended() && v.shows(outcomeFields...) {
		if o, err = s.outcome(ctx, c, j, v, until); err != nil {
			return nil, err
		}
	}
	name := ""
	if v.shows("language") {
		if name, err = l.languageName(ctx, s.LanguageID); err != nil {
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
// or of the last. A run that was purged doesn't count, nor what is no run of it.
func (s *submission) outcome(ctx context.Context, c *facade.Call, main producer.Job, v view, until time.Time) (outcome, error) {
	var runs []outcome
	var last job.Result // the one that counts
	for _, id := range append(slices.Clone(s.Runs), main.ID) {
		j := main
		if id != main.ID {
			var err error
			if j, err = wait(ctx, c, id, until); errors.Is(err, job.ErrNotFound) || err == nil && !s.hasRun(j) {
				continue
			} else if err != nil {
				return outcome{}, fmt.Errorf("read run %s: %w", id, err)
			}
		}
		if !j.Ended() {
			return waiting(main, true), nil
		}
		o, err := s.judge(ctx, c, *j.Result)
		if err != nil {
			return o, err
		}
		o.created, last = main.Timing.CreatedAt, *j.Result
		if runs = append(runs, o); o.status != accepted {
			break
		}
	}
	all := average(runs)
	return all, all.read(ctx, c, last, v)
}

// hasRun reports whether a job whose id is among its runs was made for it.
func (s *submission) hasRun(j producer.Job) bool {
	return s.RunsOf != "" && j.Metadata[runKey] == s.RunsOf
}

// languageName is a language's, "" if there are no workers for it any more.
func (l *looker) languageName(ctx context.Context, id int) (string, error) {
	if l.languages == nil {
		list, err := readCatalog(ctx, l.c)
		if err != nil {
			return "", err
		}
		l.languages = list
	}
	o, ok := l.languages.find(id)
	if !ok {
		return "", nil
	}
	return o.name(), nil
}
