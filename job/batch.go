package job

import "time"

const (
	// MaxBatch is how many jobs a batch may have.
	MaxBatch = 10_000
	// MaxBatchErrors bounds Batch.Errors; Batch.Rejected counts all.
	MaxBatchErrors = 100
)

// EventBatchCompleted is posted once, when every job of a batch has ended.
const EventBatchCompleted = "batch.completed"

// BatchStatus is where a batch stands.
type BatchStatus string

// Every status of a batch. Completed and canceled are final.
const (
	BatchReceiving BatchStatus = "receiving" // its jobs are being submitted; those that are accepted run already
	BatchRunning   BatchStatus = "running"   // all of its jobs are there, and some have not ended
	BatchCompleted BatchStatus = "completed" // every job has ended, however it went
	BatchCanceled  BatchStatus = "canceled"  // the same, after somebody canceled it, or nobody sent the rest of it
)

// Final reports whether a batch in this status will never change again.
func (s BatchStatus) Final() bool { return s == BatchCompleted || s == BatchCanceled }

// BatchOptions is what is said of a batch as a whole.
type BatchOptions struct {
	// IdempotencyKey names the batch for whoever has to send it again: for 24 hours, the
	// same jobs under the same key are the same batch, and no job is made twice.
	IdempotencyKey string `json:"idempotency_key,omitempty" doc:"Up to 255 printable ASCII characters. For 24 hours, the same jobs under the same key are the same batch; other jobs are a conflict, and once the batch is no longer kept, the answer is 410 with its id. The header Idempotency-Key means the same."`
	// Callback is where batch.completed is posted. Jobs may have callbacks of their own.
	Callback *Callback `json:"callback,omitempty" doc:"Where batch.completed is posted, signed, once every job has ended."`
	// Metadata is carried through, unread.
	Metadata map[string]string `json:"metadata,omitempty" doc:"Carried through, unread."`
}

// Check returns what is wrong with the options as [Invalid], or nil.
func (o BatchOptions) Check() error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	if problem := checkKey(o.IdempotencyKey); problem != "" {
		add("idempotency_key", clip(o.IdempotencyKey), problem, "1 to 255 printable ASCII characters")
	}
	if o.Callback != nil {
		o.Callback.check(add, EventBatchCompleted)
	}
	checkMetadata(add, o.Metadata)
	errs = append(errs, OwnMetadata(o.Metadata)...)
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// Batch is many jobs that were submitted together, as it is now.
type Batch struct {
	ID     string      `json:"id" doc:"The batch's id." example:"default-b-mfrggzdfmztwq2lknnwg23tpoa"`
	Status BatchStatus `json:"status" enum:"receiving,running,completed,canceled" doc:"receiving: it is being submitted; running: all of it is there; completed: every job has ended, however it went; canceled: the same, after it was canceled."`
	// Total is how many jobs were sent so far: Jobs and Rejected.
	Total int `json:"total" doc:"Jobs that were sent so far, the rejected ones included."`
	// Jobs were accepted, and have ids.
	Jobs int `json:"jobs" doc:"Jobs that were accepted."`
	// Rejected were not, for what Errors say.
	Rejected int `json:"rejected" doc:"Jobs that are not valid, and will not run."`
	// Ended of the accepted jobs have come to a result, which Counts tells by status.
	Ended  int            `json:"ended" doc:"Accepted jobs that have ended."`
	Counts map[Status]int `json:"counts" doc:"Jobs that have ended, by status."`
	// CancelRequested says that jobs are being canceled, or were.
	CancelRequested bool       `json:"cancel_requested,omitempty" doc:"It was canceled: what has not ended is being stopped."`
	CreatedAt       time.Time  `json:"created_at"`
	SealedAt        *time.Time `json:"sealed_at,omitempty" doc:"When the last job of it had been received."`
	FinishedAt      *time.Time `json:"finished_at,omitempty" doc:"When the last job of it had ended."`
	// ResultsURL leads to all results, without a token, until it expires; set once the
	// batch has ended.
	ResultsURL string `json:"results_url,omitempty" doc:"All results as JSON Lines, without a token, until it expires; set once the batch has ended."`
	// Errors of rejected jobs, the first MaxBatchErrors of them.
	Errors   []ItemError       `json:"errors,omitempty" doc:"Why jobs were rejected, by index: the first 100."`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// ItemError is why one job of a batch was not accepted.
type ItemError struct {
	// Index of the job in the batch, from 0.
	Index   int     `json:"index" doc:"Which job of the batch, from 0."`
	Code    string  `json:"code" example:"invalid"`
	Message string  `json:"message"`
	Errors  Invalid `json:"errors,omitempty" doc:"Each field that is wrong, what it held and what is allowed."`
}

// BatchResult is what one job of a batch came to.
type BatchResult struct {
	// Index of the job in the batch, from 0.
	Index int `json:"index" doc:"Which job of the batch, from 0."`
	// ID of the job; "" if it was rejected.
	ID string `json:"id,omitempty" doc:"The job's id; absent if it was rejected."`
	// Result, or Error where there is none: the job was rejected, its result is kept no longer, or can't be read.
	Result *Result `json:"result,omitempty"`
	Error  *Error  `json:"error,omitempty" doc:"Instead of a result: the job was rejected (invalid), its result is kept no longer (not_found), or it can't be read (internal)."`
}
