package record

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Get returns the record of a job, or job.ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (Record, error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return Record{}, job.ErrNotFound
	}
	pipe := s.rdb.Pipeline()
	read := s.readJob(ctx, pipe, tenant, id)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && !redisconn.WrongType(err) {
		return Record{}, fmt.Errorf("read job: %w", err)
	}
	return read.job()
}

// StateOf is how a job stands, or job.ErrNotFound. Nothing else of it is read.
func (s *Store) StateOf(ctx context.Context, id string) (job.Status, error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return "", job.ErrNotFound
	}
	return s.stateAt(ctx, jobKey(tenant, id))
}

// jobRead is a record that is being read.
type jobRead struct {
	tenant, id string
	fields     *redis.MapStringStringCmd
	result     *redis.StringCmd
}

func (s *Store) readJob(ctx context.Context, pipe redis.Pipeliner, tenant, id string) jobRead {
	return jobRead{tenant, id, pipe.HGetAll(ctx, jobKey(tenant, id)), pipe.Get(ctx, resultKey(tenant, id))}
}

// job is the record, or job.ErrNotFound, once the pipeline was executed. It fails with ErrUnreadable for one that is spoiled.
func (r jobRead) job() (Record, error) {
	for _, err := range []error{r.fields.Err(), r.result.Err()} {
		switch {
		case err == nil, errors.Is(err, redis.Nil):
		case redisconn.WrongType(err): // a worker has made another type of it
			return Record{}, fmt.Errorf("read job: %w: %w", ErrUnreadable, err)
		default:
			return Record{}, fmt.Errorf("read job: %w", err)
		}
	}
	if len(r.fields.Val()) == 0 {
		return Record{}, job.ErrNotFound
	}
	j, err := parseJob(r.tenant, r.id, r.fields.Val())
	if text := r.result.Val(); text != "" && j.State.Final() {
		j.Result = []byte(text)
	}
	return j, err
}

// Start is StartOn of a worker without labels that offers runtimes and images of these names, without any: all.
func (s *Store) Start(ctx context.Context, id string, epoch int, worker string, offered ...string) (Record, error) {
	return s.StartOn(ctx, id, epoch, Starter{ID: worker, Offers: offered})
}

// Starter is a worker that is to run a job.
type Starter struct {
	ID string
	// Offers are names of runtimes and images; without any it offers all.
	Offers []string
	// Labels are what it is, and Only the keys of those that a job has to name to run there.
	Labels job.Labels
	Only   []string
}

// StartOn makes the worker the one that runs this epoch of the job. It fails with job.ErrNotFound, ErrStale, job.ErrEnded,
// ErrTaken, ErrNewer, ErrMisplaced or a *NotOfferedError; then nothing has changed.
func (s *Store) StartOn(ctx context.Context, id string, epoch int, w Starter) (Record, error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return Record{}, job.ErrNotFound
	}
	names := make([]any, len(w.Offers))
	for i, name := range w.Offers {
		names[i] = name
	}
	answer, err := startScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": id, "epoch": epoch, "worker": w.ID, "now": s.now(), "version": job.SpecVersion,
		"labels": "," + w.Labels.String() + ",", "only": strings.Join(w.Only, ","),
	}, names...).Slice()
	if err != nil {
		return Record{}, fmt.Errorf("start job: %w", err)
	}
	if answer[0] == "not offered" {
		name, _ := answer[1].(string) // nil where the record has neither runtime nor image
		priority, _ := answer[2].(string)
		placement, _ := answer[3].(string)
		return Record{}, &NotOfferedError{Name: name, Priority: job.Priority(priority), Placement: placement}
	}
	if err := refused(answer[0].(string)); err != nil {
		return Record{}, err
	}
	pairs := answer[1].([]any)
	fields := make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		fields[pairs[i].(string)] = pairs[i+1].(string)
	}
	j, err := parseJob(tenant, id, fields)
	if err == nil {
		s.observer.Started(j)
	}
	return j, err
}

func refused(word string) error {
	switch word {
	case "ok":
		return nil
	case "missing":
		return job.ErrNotFound
	case "stale":
		return ErrStale
	case "ended":
		return job.ErrEnded
	case "taken":
		return ErrTaken
	case "newer":
		return ErrNewer
	case "misplaced":
		return ErrMisplaced
	}
	return fmt.Errorf("the script answered %q", word)
}

// Ending is how a job ends.
type Ending struct {
	Status job.Status
	// From is the state that the job is to be in; "" for any.
	From job.Status
	// Result as JSON, at most MaxInline bytes, else nil: then ResultRef must be set.
	Result []byte
	// ResultRef is the S3 key of result.json, or "" when none was written.
	ResultRef string
	// InputRef is the S3 key of what an execution of a session was given; "" has the record keep that.
	InputRef string
	// Rested says that it was an execution whose session is ready for the next, with all its state. After any other the session's next TakeTurn says so.
	Rested bool
	// Head says that it was an execution that is attested: the digest that stands for all of its session up to it. Attested is how many these are.
	Head     string
	Attested int64
	// Stored is how many bytes of objects the job keeps, result.json among them.
	Stored int64
	// Dirty asks the sweeper to look for objects that no record points to.
	Dirty bool
	// Metered is what counts for its tenant's usage, if it ran.
	Metered *Metered
}

// Metered is what a job used.
type Metered struct {
	CPUMS, MiBMS int64
	Nano         int64 // its cost
}

// Meter prices the result of a job that ran in so much memory, and returns what counts for its tenant.
func (s *Store) Meter(r *job.Result, memoryMB int64) *Metered {
	m := &Metered{CPUMS: max(r.Usage.CPUMS, 0), MiBMS: max(memoryMB*r.Usage.WallMS, 0)}
	if s.prices != nil {
		m.Nano = s.prices.Cost(r.Usage, memoryMB)
		cost := job.NewCost(m.Nano)
		r.Cost = &cost
	}
	return m
}

// MaxInline is how large a spec or result may be to live in the record itself.
const MaxInline = 64 << 10

// End ends the job in the epoch and for the worker that j names: its result, its delivery and the
// waiters' wake-up are one step. It fails with job.ErrNotFound, ErrStale or job.ErrEnded;
// then another result is the job's, or will be.
func (s *Store) End(ctx context.Context, j Record, e Ending) error {
	answered := endScript.Run(ctx, s.lasting, j.Tenant, s.finishArgs(ctx, j, e, script.Args{"epoch": j.Epoch, "worker": j.Worker, "from": string(e.From)}))
	answer, err := answered.Slice()
	if err != nil {
		s.afterUnconfirmed(ctx, j, e.Status, answered)
		return fmt.Errorf("end job: %w", err)
	}
	if err := refused(answer[0].(string)); err != nil {
		return err
	}
	s.afterEnd(ctx, j, e.Status, answer)
	return nil
}

// Cancel ends a queued job with the given result, and asks the worker of a running
// one to stop. It returns job.Canceled or job.Running, or job.ErrNotFound or job.ErrEnded.
func (s *Store) Cancel(ctx context.Context, id string, result []byte) (job.Status, error) {
	j, err := s.Get(ctx, id)
	if err != nil {
		return "", err
	}
	ending := Ending{Status: job.Canceled, Result: result}
	answered := cancelScript.Run(ctx, s.lasting, j.Tenant, s.finishArgs(ctx, j, ending, script.Args{"reason": 1}))
	answer, err := answered.Slice()
	if err != nil {
		s.afterUnconfirmed(ctx, j, job.Canceled, answered)
		return "", fmt.Errorf("cancel job: %w", err)
	}
	word := answer[0].(string)
	if word == "running" {
		return job.Running, nil
	}
	if err := refused(word); err != nil {
		return "", err
	}
	s.afterEnd(ctx, j, job.Canceled, answer)
	return job.Canceled, nil
}

// finishArgs are the arguments that the scripts end and cancel share, and more.
func (s *Store) finishArgs(ctx context.Context, j Record, e Ending, more script.Args) script.Args {
	now := s.now()
	a := script.Args{
		"id": j.ID, "now": now, "status": string(e.Status),
		"result": e.Result, "result_ref": e.ResultRef, "input_ref": e.InputRef, "rested": e.Rested, "head": e.Head, "attested": e.Attested, "result_life": s.resultLife, "stored": e.Stored, "dirty": e.Dirty,
		"default_retention": s.retention,
		"delivery":          DeliveryID(j.ID, job.EventCompleted, j.Callback), "event": job.EventCompleted, "message": MessageID(j.ID, job.EventCompleted),
		"window": int64(0), "due": now.Add(sweepDelay), "lend_most": s.lendMost,
	}
	if j.Session == "" { // an execution has no place in the window, so none becomes free
		a["window"] = s.windowOrNone(ctx, j.Tenant)
	}
	m := Metered{}
	if e.Metered != nil {
		m = *e.Metered
	}
	month, budget := job.MonthOf(now), job.Budget{}
	if m.Nano > 0 {
		terms, err := s.terms(ctx, j.Tenant)
		if err != nil { // what it cost counts in any case; the next end tells
			s.log.Warn("a budget could not be read", "tenant", j.Tenant, "error", err)
		}
		budget = terms.Budget
	}
	of := budgetSubject(j.Tenant, month, budget)
	a["month"], a["budget"], a["warn_at"], a["budget_of"] = month, budget.Nano, budget.WarnAt(), of
	a["warning"], a["exceeded"] = MessageID(of, job.EventBudgetWarning), MessageID(of, job.EventBudgetExceeded)
	a["ran"], a["cpu_ms"], a["mib_ms"], a["nano"] = e.Metered != nil, m.CPUMS, m.MiBMS, m.Nano
	maps.Copy(a, more)
	return a
}

// afterEnd gives a task to what the end of the job made due: those of its tenant's jobs
// that it released, its delivery, and that of a batch which ended with it. What can't be enqueued is the sweeper's work.
func (s *Store) afterEnd(ctx context.Context, j Record, status job.Status, answer []any) {
	s.observer.Ended(j.Runtime, status)
	list, _ := answer[1].([]any)
	if err := s.enqueueReleased(ctx, list); err != nil {
		s.log.Warn("jobs released, their tasks are left to the sweeper", "tenant", j.Tenant, "error", err)
	}
	for _, made := range answer[2].([]any) {
		s.enqueueFirstDelivery(ctx, j.Tenant, made.(string))
	}
}

// afterUnconfirmed is afterEnd for an end that too few replicas have confirmed: the caller's next try finds it
// done, and is told nothing of what it made due.
func (s *Store) afterUnconfirmed(ctx context.Context, j Record, status job.Status, answered *redis.Cmd) {
	answer, ok := answered.Val().([]any)
	if errors.Is(answered.Err(), redisconn.ErrUnconfirmed) && ok && len(answer) > 2 && answer[0] == "ok" {
		s.afterEnd(ctx, j, status, answer)
	}
}

// enqueueFirstDelivery takes what a script says of the deliveries that it made, if it made
// some: of each its id, and whether it is one of the backlog.
func (s *Store) enqueueFirstDelivery(ctx context.Context, tenant, made string) {
	var tasks []queue.Task
	for _, one := range strings.FieldsFunc(made, func(r rune) bool { return r == ',' }) {
		did, of, _ := strings.Cut(one, " ")
		tasks = append(tasks, queue.DeliverTask(tenant, did, queue.Turn{Attempt: 1}, of == "backlog", time.Time{}))
	}
	if err := s.Queue.EnqueueAll(ctx, tasks); err != nil {
		s.log.Warn("deliveries made, their tasks are left to the sweeper", "tenant", tenant, "deliveries", made, "error", err)
	}
}

// Cost is what it costs a job to be handed back to the queue.
type Cost string

const (
	// CostAttempt is for whatever may be the job's own doing: a worker that is lost, a
	// run that fails on us.
	CostAttempt Cost = "attempt"
	// CostNothing is for a worker that shuts down.
	CostNothing Cost = "nothing"
	// CostOutage is for what the worker needs and does not have. It costs nothing for a
	// day from the first time on, then an attempt, so that no job goes round for ever. A job
	// that starts more than outageGap after its last outage has a day anew.
	CostOutage Cost = "outage"
)

const (
	// outagePatience is how long outages cost a job nothing.
	outagePatience = 24 * time.Hour
	// outageGap is the longest time from an outage to a start whose outage belongs to the same day. A worker asks for a delay of 5 minutes
	// at most, and the queue may take hours besides. How long the job runs doesn't count: else one that ran for longer, and had each run
	// end in an outage, would go round for ever.
	outageGap = 6 * time.Hour
)

// Requeue takes the job from worker and gives it back to the queue in a new epoch,
// to be taken after delay. It answers canceled or exhausted, and does nothing, where the
// caller has to end the job instead.
func (s *Store) Requeue(ctx context.Context, id string, epoch int, worker string, cost Cost, delay time.Duration) (Requeued, error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return "", job.ErrNotFound
	}
	now := s.now()
	answer, err := requeueScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": id, "epoch": epoch, "worker": worker, "now": now, "due": now.Add(delay + sweepDelay), "cost": string(cost), "most_attempts": s.maxAttempts,
	}).Slice()
	if err != nil {
		return "", fmt.Errorf("requeue job: %w", err)
	}
	word := Requeued(answer[0].(string))
	if word != RequeueOK {
		return word, nil
	}
	s.observer.Requeued(cost)
	into, _ := answer[1].(int64)
	priority, _ := answer[2].(string) // nil where the record has none: that must not end the process
	placement, _ := answer[3].(string)
	if err := s.Queue.Enqueue(ctx, queue.RunTask(id, int(into), job.Priority(priority), now.Add(delay)).InPool(placement)); err != nil {
		s.log.Warn("job requeued, its task is left to the sweeper", "job_id", id, "error", err)
	}
	return word, nil
}

// Requeued is what Requeue came to.
type Requeued string

// The answers of Requeue.
const (
	RequeueOK        Requeued = "ok"
	RequeueStale     Requeued = "stale"     // it is another's by now, or has ended
	RequeueCanceled  Requeued = "canceled"  // cancel was asked: end it as canceled
	RequeueExhausted Requeued = "exhausted" // no attempts left: end it as internal_error
)
