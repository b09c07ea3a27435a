package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// RunRetry is when a run is looked at again of which something could not be done, or whose looker died.
	RunRetry = 15 * time.Second
	// standstill is when a run is looked at in which nothing has ended, should an end have gone unnoticed.
	standstill = time.Minute

	stepField = "step:" // then the step's name: what was decided about it, as JSON
	whyField  = "why:"  // then the item: why its job could not be made
	// Refused is what an item is whose job could not be made.
	Refused job.Status = "refused"
)

// Errors of runs.
var (
	// ErrRunStale means that something has ended in a run since it was read.
	ErrRunStale = errors.New("the run has changed meanwhile")
	// ErrRunFull means that a run's record has no room for a verdict: its list is too large, or those of the steps before.
	ErrRunFull = errors.New("the run's record is full")
	// ErrRunLives is answered to a purge of a job that later steps of its run may read.
	ErrRunLives = &job.Error{Code: job.CodeNotEnded, Message: "the job is a step of a run that has not ended: cancel the run, and purge the job once that has ended"}
)

// Run is a run of a pipeline as it is stored.
type Run struct {
	ID, Tenant string
	// State is job.Running until it has ended.
	State job.Status
	// Name is the pipeline's, Template what it came from as name@revision; or "".
	Name, Template string
	// Pipeline is its definition as JSON, and Params what it was started with, its defaults filled in.
	Pipeline, Params []byte
	Metadata         map[string]string
	// Verdicts say what was decided about steps, as JSON.
	Verdicts map[string][]byte
	// Items are its jobs by step and index; of an index that has several tries the last.
	Items map[string]map[int]RunItem
	// RerunOf is the run that this one repeats, or "", and Kept are the steps that it takes over, by name. Their verdicts and
	// items are among those of the run.
	RerunOf string
	Kept    map[string]KeptStep
	// Cancel is why it ends early, "" if it doesn't.
	Cancel   string
	Deadline time.Time
	// Callback is the URL that is told, or "".
	Callback string
	// Trace is where the trace goes on that it was begun in, as a traceparent, or "".
	Trace string
	// By is the token that began it, with no scope missing: what it may read was looked at then. It has no id where nobody's did.
	By                job.Token
	Created, Finished time.Time // the latter zero until then
	Retention         time.Duration
	// Outputs are JSON, once it has ended, and Note is what else there is to say of its end, or "".
	Outputs []byte
	Note    string

	rev string // of Items and Cancel
}

// KeptStep is a step that a run takes over from an earlier one.
type KeptStep struct {
	// Run whose jobs these are: not always the one that is repeated, which may have taken them over, too.
	Run   string          `json:"run"`
	Items map[int]RunItem `json:"items"`
}

// RunItem is what is known of a job of a run.
type RunItem struct {
	Try int
	// Status is job.Queued until the job has ended, however it stands.
	Status job.Status
	// Why is why it could not be made, if it is Refused; "" beyond the first hundred of a run.
	Why string
}

// JobID is that of a job of the run, or of the run that it has taken the step over from.
func (r Run) JobID(step string, index, try int) string {
	return job.StepJobID(cmp.Or(r.Kept[step].Run, r.ID), step, index, try)
}

// Expires is when a run that has ended is kept no longer.
func (r Run) Expires() time.Time { return r.Finished.Add(r.Retention) }

// GetRun returns a run, or job.ErrNotFound.
func (s *Store) GetRun(ctx context.Context, id string) (Run, error) {
	tenant, ok := job.TenantOfRun(id)
	if !ok {
		return Run{}, job.ErrNotFound
	}
	// The items and their rev come first: what is read behind them may be newer than rev says, never older.
	pipe := s.rdb.Pipeline()
	items := pipe.HGetAll(ctx, runItemsKey(tenant, id))
	run := pipe.HGetAll(ctx, runKey(tenant, id))
	_, err := pipe.Exec(ctx)
	if items.Err() != nil && redis.HasErrorPrefix(items.Err(), "WRONGTYPE") {
		// A worker has made another type of it. Without it the run's jobs are looked for.
		if err := s.rdb.Del(ctx, runItemsKey(tenant, id)).Err(); err != nil {
			return Run{}, fmt.Errorf("read run: %w", err)
		}
		err = run.Err()
	}
	if err != nil {
		return Run{}, fmt.Errorf("read run: %w", err)
	}
	if len(run.Val()) == 0 {
		return Run{}, job.ErrNotFound
	}
	return parseRun(tenant, id, run.Val(), items.Val())
}

func parseRun(tenant, id string, f, items map[string]string) (Run, error) {
	run := Run{
		ID: id, Tenant: tenant, State: job.Status(f["state"]), Name: f["name"], Template: f["template"], Pipeline: []byte(f["pipeline"]), Params: []byte(f["params"]), Cancel: f["cancel"],
		Callback: f["callback"], Trace: f["trace"], By: job.Token{ID: f["by"], Label: f["by_label"], Scopes: job.Scopes()}, Outputs: []byte(f["outputs"]), Note: f["note"], Verdicts: map[string][]byte{}, Items: map[string]map[int]RunItem{}, rev: items["rev"],
	}
	r := fields{of: "run " + id, f: f}
	if f["metadata"] != "" {
		r.fail("metadata", json.Unmarshal([]byte(f["metadata"]), &run.Metadata))
	}
	run.Created, run.Finished, run.Deadline = r.at("created"), r.at("finished"), r.at("deadline")
	run.Retention = time.Duration(r.number("retention")) * time.Millisecond
	for name, value := range f {
		if step, ok := strings.CutPrefix(name, stepField); ok {
			run.Verdicts[step] = []byte(value)
		}
	}
	if run.RerunOf = f["rerun_of"]; f["kept"] != "" {
		r.fail("kept", json.Unmarshal([]byte(f["kept"]), &run.Kept))
	}
	for step, kept := range run.Kept {
		run.Items[step] = kept.Items
	}
	for name, value := range items {
		step, number, ok := strings.Cut(name, ":")
		index, err := strconv.Atoi(number)
		if _, kept := run.Kept[step]; !ok || err != nil || kept {
			continue
		}
		item := RunItem{Why: f[whyField+name]}
		// A worker may have written it: what is none is a job that is waited for, and found lost. No run may stand still
		// for ever for it.
		if _, err := fmt.Sscanf(value, "%d %s", &item.Try, &item.Status); err != nil || item.Try < 1 {
			item.Try, item.Status = 1, job.Queued
		}
		if run.Items[step] == nil {
			run.Items[step] = map[int]RunItem{}
		}
		run.Items[step][index] = item
	}
	return run, r.err
}

// itemName is what an item is called in Redis.
func itemName(step string, index int) string { return step + ":" + strconv.Itoa(index) }

// AddToRun creates jobs of a run, whose ids are [job.StepJobID]. One that the run has, or had, is created
// no more: then its Err is nil, too. With job.ErrEnded the run is to have no more jobs. It fails as CreateMany does.
func (s *Store) AddToRun(ctx context.Context, r Run, jobs []NewJob) ([]Created, error) {
	created, err := s.createMany(ctx, r.Tenant, whole{run: r.ID, left: max(r.Deadline.Sub(s.now()), 0)}, jobs)
	for i := range created {
		if errors.Is(created[i].Err, ErrExists) {
			created[i].Err = nil
		}
	}
	return created, err
}

// StateOfRun is how a run stands, or job.ErrNotFound. Nothing else of it is read.
func (s *Store) StateOfRun(ctx context.Context, id string) (job.Status, error) {
	tenant, ok := job.TenantOfRun(id)
	if !ok {
		return "", job.ErrNotFound
	}
	return s.stateAt(ctx, runKey(tenant, id))
}

// CallbackOfRun is where a run's end is told, or "", or job.ErrNotFound. Nothing else of it is read.
func (s *Store) CallbackOfRun(ctx context.Context, id string) (string, error) {
	tenant, ok := job.TenantOfRun(id)
	if !ok {
		return "", job.ErrNotFound
	}
	f, err := s.rdb.HMGet(ctx, runKey(tenant, id), "state", "callback").Result()
	if err != nil {
		return "", fmt.Errorf("read callback of run: %w", err)
	}
	if f[0] == nil {
		return "", job.ErrNotFound
	}
	callback, _ := f[1].(string)
	return callback, nil
}

func (s *Store) stateAt(ctx context.Context, key string) (job.Status, error) {
	state, err := s.rdb.HGet(ctx, key, "state").Result()
	if errors.Is(err, redis.Nil) {
		return "", job.ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("read state: %w", err)
	}
	return job.Status(state), nil
}

// RunSize is what a run takes that is read, bytes. It fails with job.ErrNotFound. Items that no pipeline has are a worker's, and go:
// the run's jobs are looked for then.
func (s *Store) RunSize(ctx context.Context, id string) (int64, error) {
	tenant, ok := job.TenantOfRun(id)
	if !ok {
		return 0, job.ErrNotFound
	}
	pipe := s.rdb.Pipeline()
	charge, items := pipe.HGet(ctx, runKey(tenant, id), "charge"), pipe.HLen(ctx, runItemsKey(tenant, id))
	_, err := pipe.Exec(ctx)
	if errors.Is(charge.Err(), redis.Nil) {
		return 0, job.ErrNotFound
	}
	if n, itemsErr := items.Result(); redis.HasErrorPrefix(itemsErr, "WRONGTYPE") || n > job.MaxSteps*job.MaxEach+mostMarks {
		return runCost, s.rdb.Del(ctx, runItemsKey(tenant, id)).Err()
	}
	if err != nil {
		return 0, fmt.Errorf("measure run: %w", err)
	}
	size, err := charge.Int64()
	return size, err
}

// mostMarks is more than the marks among the items of a run: rev and over.
const mostMarks = 16

// DecideStep notes what was decided about a step, unless somebody has. verdict is encoded as JSON. It fails with ErrRunFull where the
// record has no room for it; a verdict of less than a KiB always has.
func (s *Store) DecideStep(ctx context.Context, r Run, step string, verdict any) error {
	b, err := json.Marshal(verdict)
	if err != nil {
		return fmt.Errorf("encode verdict: %w", err)
	}
	return s.noteRun(ctx, r, stepField+step, b, "", 0)
}

// RefuseItem notes that a job of a run can't be made, and of the first hundred why.
func (s *Store) RefuseItem(ctx context.Context, r Run, step string, index, try int, why string) error {
	item := itemName(step, index)
	return s.noteRun(ctx, r, whyField+item, []byte(job.Clip(why, 500)), item, try)
}

func (s *Store) noteRun(ctx context.Context, r Run, field string, value []byte, item string, try int) error {
	terms, err := s.terms(ctx, r.Tenant)
	if err != nil {
		return fmt.Errorf("note %s of run: %w", field, err)
	}
	most := s.mostRecorded(terms)
	word, err := noteRunScript.Run(ctx, s.rdb, r.Tenant, script.Args{"id": r.ID, "field": field, "value": value, "item": item, "try": try, "most_recorded": most}).Text()
	if err != nil {
		return fmt.Errorf("note %s of run: %w", field, err)
	}
	switch word {
	case "bytes_recorded":
		return overRecorded(most)
	case "run_full":
		return ErrRunFull
	}
	return nil
}

// RunJobStates returns the states of jobs of a run, "" for one that has no record.
func (s *Store) RunJobStates(ctx context.Context, r Run, ids []string) ([]job.Status, error) {
	states := make([]job.Status, len(ids))
	if len(ids) == 0 {
		return states, nil
	}
	pipe := s.rdb.Pipeline()
	all := make([]*redis.StringCmd, len(ids))
	for i, id := range ids {
		all[i] = pipe.HGet(ctx, jobKey(r.Tenant, id), "state")
	}
	if err := redisconn.Unanswered(pipe.Exec(ctx)); err != nil {
		return nil, fmt.Errorf("read jobs of run: %w", err)
	}
	for i, a := range all {
		// What can't be read is not gone, unless a worker has made another type of it.
		if err := a.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, fmt.Errorf("read job %s of run: %w", ids[i], err)
		}
		states[i] = job.Status(a.Val())
	}
	return states, nil
}

// runHead is what a list reads of a run.
var runHead = []string{"state", "name", "template", "created", "finished", "deadline", "retention", "cancel", "metadata"}

// RunHead returns what a list has of a run, or job.ErrNotFound.
func (s *Store) RunHead(ctx context.Context, id string) (Run, error) {
	tenant, ok := job.TenantOfRun(id)
	if !ok {
		return Run{}, job.ErrNotFound
	}
	head, err := s.rdb.HMGet(ctx, runKey(tenant, id), runHead...).Result()
	if err != nil {
		return Run{}, fmt.Errorf("read run: %w", err)
	}
	f := runFields(head)
	if f["state"] == "" {
		return Run{}, job.ErrNotFound
	}
	return parseRun(tenant, id, f, nil)
}

// runFields are the fields of a run's head that are there.
func runFields(head []any) map[string]string {
	f := map[string]string{}
	for i, v := range head {
		if text, ok := v.(string); ok {
			f[runHead[i]] = text
		}
	}
	return f
}

// ListRuns returns a tenant's runs, the newest first, without their definitions and items, and where the next page goes
// on: "" at the end. after is where the page before ended, or "". A page can hold fewer than most and not be the last.
func (s *Store) ListRuns(ctx context.Context, tenant string, after Position, most int) (list []Run, next Position, err error) {
	from := "+"
	if after != "" {
		from = "(" + string(after)
	}
	entries, err := s.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: runsKey(tenant), ByLex: true, Rev: true, Start: from, Stop: "-", Count: int64(most)}).Result()
	if err != nil {
		return nil, "", fmt.Errorf("list runs: %w", err)
	}
	if len(entries) == most {
		next = Position(entries[most-1])
	}
	pipe := s.rdb.Pipeline()
	heads := make([]*redis.SliceCmd, len(entries))
	for i, e := range entries {
		heads[i] = pipe.HMGet(ctx, runKey(tenant, Position(e).id()), runHead...)
	}
	if len(entries) > 0 {
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, "", fmt.Errorf("list runs: %w", err)
		}
	}
	for i, e := range entries {
		f := runFields(heads[i].Val())
		if f["state"] == "" {
			continue // it has expired, and is forgotten soon
		}
		run, err := parseRun(tenant, Position(e).id(), f, nil)
		if err != nil {
			return nil, "", err
		}
		list = append(list, run)
	}
	return list, next, nil
}
