package judge0

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

const (
	// maxListed is how many of a tenant's newest submissions lists and statistics know, and maxPages how
	// many pages of its newest jobs they look for them in: others' may be many.
	maxListed = 1000
	maxPages  = 10
	// defaultPage and maxPage are how many submissions a page has.
	defaultPage = 20
	maxPage     = 100
)

// listed is what lists and statistics need of a submission.
type listed struct {
	id, language string
	status       job.Status
	created      time.Time
}

// submissions are the tenant's newest, the newest first. Of their records, which take memory, no more is kept.
func submissions(ctx context.Context, c *facade.Call, statuses ...job.Status) ([]listed, error) {
	var found []listed
	options := producer.ListOptions{Limit: producer.MaxPage, Status: statuses}
	for range maxPages {
		giveBack := c.Host.Passing()
		page, err := c.Client.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Jobs {
			if language := r.Metadata[languageKey]; language != "" {
				found = append(found, listed{r.ID, language, r.Status, r.Timing.CreatedAt})
			}
		}
		giveBack()
		if options.Cursor = page.Next; page.Next == "" || len(found) >= maxListed {
			break
		}
	}
	return found[:min(len(found), maxListed)], nil
}

// pageMeta says where a page is among others.
type pageMeta struct {
	Current int  `json:"current_page"`
	Next    *int `json:"next_page"`
	Prev    *int `json:"prev_page"`
	Pages   int  `json:"total_pages"`
	Count   int  `json:"total_count"`
}

// list answers a page of the tenant's submissions.
func list(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	query := r.URL.Query()
	v, err := viewOf(query)
	if err != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
		return
	}
	var size int
	page, err := positive(query, "page", 1)
	if err == nil {
		size, err = positive(query, "per_page", defaultPage)
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
		return
	}
	size = min(size, maxPage)
	all, err := submissions(r.Context(), c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	meta := pageMeta{Current: page, Count: len(all), Pages: (len(all) + size - 1) / size}
	if page < meta.Pages {
		next := page + 1
		meta.Next = &next
	}
	if prev := page - 1; prev >= 1 {
		meta.Prev = &prev
	}
	first := min(min(page-1, maxListed)*size, len(all)) // so many pages on there is nothing
	var tokens []string
	for _, e := range all[first:min(first+size, len(all))] {
		token, _ := job.UUIDOf(e.id)
		tokens = append(tokens, token)
	}
	several{tokens: tokens, view: v, notText: errNotTexts, meta: meta}.answer(w, r, c)
}

// positive reads a number of pages or of what is on one.
func positive(query url.Values, name string, otherwise int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, facade.BadRequest("invalid " + name + ": " + job.Clip(text, 40))
	}
	return n, nil
}

// remove deletes a submission that has ended, and answers what it was.
func remove(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	if err := c.Host.May(job.ScopeRead); err != nil { // what is deleted is answered
		fail(w, r, c, err)
		return
	}
	v, err := viewOf(r.URL.Query())
	v.encoded = true
	if err != nil {
		writeJSON(w, http.StatusBadRequest, faultOf(err.Error()))
		return
	}
	token := r.PathValue("id")
	l := looker{c: c, view: v}
	l.view.fields = append(slices.Clone(v.fields), "status_id")
	answer, err := l.look(ctx, token, 0)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	id, _ := job.IDOfUUID(c.Tenant, token)
	c.Host.Note(id)
	if status, _ := answer["status_id"].(int); status <= processing {
		now := statusOf(status)
		writeJSON(w, http.StatusBadRequest, faultOf("submission cannot be deleted because its status is "+strconv.Itoa(now.ID)+" ("+now.Description+")"))
		return
	}
	if !v.shows("status_id") {
		delete(answer, "status_id")
	}
	if err := purge(ctx, c, id); err != nil {
		fail(w, r, c, err)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

// purge deletes all jobs of a submission, that of its token last.
func purge(ctx context.Context, c *facade.Call, id string) error {
	j, err := c.Client.Get(ctx, id)
	if err != nil {
		return err
	}
	if s, err := kept(j.Metadata); err == nil {
		for _, run := range s.Runs {
			if err := s.purgeRun(ctx, c, run); err != nil {
				return err
			}
		}
	}
	return c.Client.Purge(ctx, id)
}

// purgeRun deletes a run, unless that job is none of the submission's.
func (s *submission) purgeRun(ctx context.Context, c *facade.Call, id string) error {
	j, err := c.Client.Get(ctx, id)
	if err == nil && s.hasRun(j) {
		err = c.Client.Purge(ctx, id)
	}
	if errors.Is(err, job.ErrNotEnded) { // its result is nobody's, and goes with its retention
		_, err = c.Client.Cancel(ctx, id)
	}
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrEnded) {
		return nil
	}
	return err
}

// workers answers what there is to run submissions. What waits and what works is the tenant's own.
func workers(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	slots, err := c.Client.Slots(ctx)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	open, err := submissions(ctx, c, job.Held, job.Queued, job.Running)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	var working int64
	for _, e := range open {
		if e.status == job.Running {
			working++
		}
	}
	writeJSON(w, http.StatusOK, []map[string]any{{
		"queue": "default", "size": int64(len(open)) - working, "available": slots, "idle": max(slots-working, 0), "working": working, "paused": 0, "failed": 0,
	}})
}

// systemInfo says what programs run on. Judge0 answers what lscpu and free print of its own machine, which
// is nobody's business.
func systemInfo(w http.ResponseWriter, _ *http.Request, c *facade.Call) {
	most := c.Client.Maximums()
	writeJSON(w, http.StatusOK, map[string]any{
		"Architecture": map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH], "CPU(s)": decimal(most.CPUs),
		"Mem": strconv.FormatInt(most.MemoryMB, 10) + "Mi",
	})
}

// countOf is how many submissions a language or a status has.
type countOf struct {
	Language *languageEntry `json:"language,omitempty"`
	Status   *named         `json:"status,omitempty"`
	Count    int            `json:"count"`
}

// roughly is the status of a job whose result is not read: wrong answers count as accepted, and what ended
// a program is not told apart.
var roughly = map[job.Status]int{
	job.Held: inQueue, job.Queued: inQueue, job.Running: processing, job.Succeeded: accepted, job.Failed: runtimeNZEC, job.TimedOut: timeLimit, job.OutOfMemory: runtimeOther,
	job.OutputLimitExceeded: runtimeSIGXFSZ, job.CompileFailed: compilationError, job.Canceled: internalError, job.InternalError: internalError,
}

// statistics counts the tenant's newest submissions.
func statistics(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	all, err := submissions(ctx, c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	languages, err := readCatalog(ctx, c)
	if err != nil {
		fail(w, r, c, err)
		return
	}
	now := time.Now().UTC()
	byLanguage, byStatus, byDay := map[int]int{}, map[int]int{}, map[string]int{}
	for _, e := range all {
		if id, err := strconv.Atoi(e.language); err == nil {
			byLanguage[id]++
		}
		byStatus[roughly[e.status]]++
		byDay[e.created.UTC().Format(time.DateOnly)]++
	}
	languageCounts, statusCounts := []countOf{}, []countOf{}
	for _, e := range languages.entries() {
		if n := byLanguage[e.ID]; n > 0 {
			languageCounts = append(languageCounts, countOf{Language: &e.languageEntry, Count: n})
		}
	}
	for _, s := range statuses {
		if n := byStatus[s.ID]; n > 0 {
			statusCounts = append(statusCounts, countOf{Status: &s, Count: n})
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"created_at": moment(&now), "cached_until": moment(&now),
		"submissions": map[string]any{"total": len(all), "today": byDay[now.Format(time.DateOnly)], "last_30_days": byDay},
		"languages":   languageCounts, "statuses": statusCounts,
	})
}
