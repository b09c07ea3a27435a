package producer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/glovebox-run/glovebox/job"
)

// Jobs is what a producer can do. Safe for concurrent use.
type Jobs interface {
	Batches
	// Submit accepts a job durably: once it returns, the job will come to a result.
	// It fails with job.Invalid where the spec is wrong, and with a *job.Error of code
	// quota_exceeded where the tenant's queue is full; then nothing is enqueued. With the
	// IdempotencyKey of an earlier spec it returns the job of that, as it is by now,
	// job.ErrConflict where the two differ, or a *job.GoneError where the job is no longer kept.
	Submit(ctx context.Context, spec job.Spec) (Job, error)
	// Get returns the job as it is now, or job.ErrNotFound.
	Get(ctx context.Context, id string) (Job, error)
	// Wait returns the job once it has ended. When ctx ends before that, Wait fails
	// with ctx's error; the job goes on.
	Wait(ctx context.Context, id string) (Job, error)
	// Watch tells what happens to the job while it happens: its status, what it prints
	// and makes, and last its result; then the sequence ends. It begins with what the job
	// printed before, as far as that is kept, or, with the ID of an event, after that one.
	// An error is the last, too: job.ErrNotFound, or ctx's.
	Watch(ctx context.Context, id, after string) iter.Seq2[Event, error]
	// Cancel ends a queued job at once, and asks for the end of a running one: then
	// the job that it returns has not ended yet. Cancelling a canceled job again
	// changes nothing; a job that ended otherwise is job.ErrEnded.
	Cancel(ctx context.Context, id string) (Job, error)
	// Purge deletes everything that is kept of a job that has ended: its record, result
	// and files, and a delivery that is pending. Once it returns, there is no such job; a
	// bucket that is away loses its files when it is back. A job that has not ended is
	// job.ErrNotEnded.
	Purge(ctx context.Context, id string) error
	// Open reads what a job made: Stdout, Stderr or ArtifactPath(name). It fails with
	// job.ErrNotFound for what isn't there (yet). The caller closes the Download.
	Open(ctx context.Context, id, path string) (*Download, error)
	// PrepareUpload says where to put content of that SHA-256, in hex, and size, so that
	// jobs can name it as a file (job.File.Upload): [UploadFile] does the rest. It is kept
	// for a day, or for as long as jobs are, after it was prepared or submitted with last.
	// It fails with job.Invalid, and with a *job.Error of code quota_exceeded.
	PrepareUpload(ctx context.Context, sha256 string, size int64) (Upload, error)
	// List returns a page of the tenant's jobs, newest first. It fails with job.Invalid
	// where an option is wrong. Pages that Next leads to go on where the one before
	// ended, whatever jobs come meanwhile.
	List(ctx context.Context, o ListOptions) (JobPage, error)
	// Runtimes lists the languages that workers have published, by name.
	Runtimes(ctx context.Context) ([]Runtime, error)
	// Images lists the images of one's own that the operator allows and workers have.
	Images(ctx context.Context) ([]Image, error)
}

// Job is a job as it is now: its record, and once it has ended its result.
type Job struct {
	job.Record
	// Result is nil until the job has ended.
	Result *job.Result
}

// Ended reports whether there is a result.
func (j Job) Ended() bool { return j.Result != nil }

// MarshalJSON writes what GET /v1/jobs/{id} answers: the result, or until there is
// one the record.
func (j Job) MarshalJSON() ([]byte, error) {
	if j.Result != nil {
		return json.Marshal(j.Result)
	}
	return json.Marshal(j.Record)
}

// UnmarshalJSON reads what MarshalJSON wrote. A record made from a result has no
// priority.
func (j *Job) UnmarshalJSON(b []byte) error {
	*j = Job{}
	if err := json.Unmarshal(b, &j.Record); err != nil {
		return err
	}
	if j.ID == "" || j.Status == "" {
		return errors.New("neither a job's record nor a result: id or status is missing")
	}
	if !j.Status.Final() {
		return nil
	}
	j.Result = new(job.Result)
	return json.Unmarshal(b, j.Result)
}

// Runtime is a language that jobs can name.
type Runtime struct {
	Name        string   `json:"name" doc:"What a job's runtime names." example:"python"`
	Version     string   `json:"version" doc:"Version of the language." example:"3.13"`
	Aliases     []string `json:"aliases" doc:"Other names for it." nullable:"false"`
	Image       string   `json:"image" doc:"The container image that jobs run in."`
	ImageDigest string   `json:"image_digest" doc:"Digest of that image."`
	// Limits are the defaults of jobs on this runtime.
	Limits job.Limits `json:"limits" doc:"Defaults of jobs on this runtime."`
	Warm   int        `json:"warm" doc:"Sandboxes that wait started."`
}

// Image is an image that jobs can bring, instead of a runtime.
type Image struct {
	Image string `json:"image" doc:"What a job's image names." example:"registry.example.com/team/tool@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`
}

// Download is a file that a job made.
type Download struct {
	io.ReadCloser
	// Name as the job wrote it, with slashes.
	Name string
	// Size in bytes, or -1 where it is not known.
	Size      int64
	MediaType string
}
