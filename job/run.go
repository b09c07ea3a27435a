package job

import (
	"encoding/json"
	"time"
)

// PipelineRequest starts a pipeline.
type PipelineRequest struct {
	Pipeline Pipeline `json:"pipeline,omitzero" doc:"What to run."`
	// Template is what is run instead of Pipeline.
	Template string          `json:"template,omitempty" doc:"Instead of pipeline: a stored template that is one, its newest revision, or with name@3 the third." example:"report"`
	Params   json.RawMessage `json:"params,omitempty" doc:"The parameters, an object, up to 64 KiB. One that is left out has the schema's default."`
	// Metadata is the run's own; its jobs have that of their steps.
	Metadata map[string]string `json:"metadata,omitempty" doc:"Words of your own about the run, as a job's: filters of endpoints match them. Its jobs have that of their steps." example:"{\"project\":\"atlas\"}"`
	// IdempotencyKey names the run as that of a Spec names a job.
	IdempotencyKey string `json:"idempotency_key,omitempty" doc:"Up to 255 printable ASCII characters. For 24 hours, the same pipeline with the same parameters under the same key is answered with the first one's run." example:"push-1234"`
}

// Check returns what is wrong with the request as [Invalid], or nil. The pipeline is not looked at.
func (r PipelineRequest) Check() error {
	var errs Invalid
	errs = append(errs, keyFault(r.IdempotencyKey)...)
	errs = append(errs, RunMetadata(r.Metadata)...)
	errs = append(errs, OwnMetadata(r.Metadata)...)
	switch steps := len(r.Pipeline.Steps); {
	case r.Template == "" && steps == 0:
		errs = append(errs, FieldError{"pipeline", nil, "is missing, as is template", "a pipeline with steps, or the name of a template"})
	case r.Template != "" && steps > 0:
		errs = append(errs, FieldError{"template", clip(r.Template), "is given beside pipeline", "one of the two"})
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// RunMetadata returns what is wrong with the metadata of a run, or nil.
func RunMetadata(metadata map[string]string) (errs Invalid) {
	checkMetadata(func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}, metadata)
	return errs
}

// RerunRequest repeats a run.
type RerunRequest struct {
	From           string `json:"from,omitempty" doc:"A step that is run again beside those that did not succeed, with all that follow." example:"chart"`
	IdempotencyKey string `json:"idempotency_key,omitempty" doc:"Names the new run as that of a pipeline does."`
}

// Check returns what is wrong with the request as [Invalid], or nil. The step is not looked at.
func (r RerunRequest) Check() error {
	if errs := keyFault(r.IdempotencyKey); errs != nil {
		return errs
	}
	return nil
}

// Run is a run of a pipeline.
type Run struct {
	ID         string             `json:"id" example:"default-r-abcdefghijklmnopqrstuvwxyz"`
	RerunOf    string             `json:"rerun_of,omitempty" doc:"The run that this one repeats."`
	Pipeline   string             `json:"pipeline,omitempty" doc:"The pipeline's name." example:"report"`
	Template   string             `json:"template,omitempty" doc:"The template that it came from, name@revision." example:"report@3"`
	Status     Status             `json:"status" enum:"running,succeeded,failed,canceled"`
	Reason     string             `json:"reason,omitempty" enum:"canceled,deadline_exceeded,tenant_stopped,pipeline_refused" doc:"Why it was canceled; pipeline_refused: it failed, as a newer version no longer takes its pipeline."`
	Note       string             `json:"note,omitempty" doc:"What else there is to say of its end: what was wrong with the pipeline, or which outputs had no room."`
	Params     json.RawMessage    `json:"params,omitempty" doc:"What it was started with, defaults filled in."`
	Metadata   map[string]string  `json:"metadata,omitempty" doc:"As it was given; of a run that a hook or a schedule began also which, and the delivery or the time."`
	Steps      map[string]RunStep `json:"steps" doc:"Its steps by name."`
	Outputs    json.RawMessage    `json:"outputs,omitempty" doc:"What its outputs point at, as far as it is there; once it has ended. An artifact has a url, which needs no token until the run is forgotten."`
	CreatedAt  time.Time          `json:"created_at"`
	Deadline   time.Time          `json:"deadline" doc:"What has not ended then is canceled."`
	FinishedAt *time.Time         `json:"finished_at,omitempty"`
}

// RunSummary is what a list says of a run.
type RunSummary struct {
	ID         string            `json:"id" example:"default-r-abcdefghijklmnopqrstuvwxyz"`
	Pipeline   string            `json:"pipeline,omitempty" doc:"The pipeline's name." example:"report"`
	Template   string            `json:"template,omitempty" doc:"The template that it came from, name@revision."`
	Status     Status            `json:"status" enum:"running,succeeded,failed,canceled"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	CreatedAt  time.Time         `json:"created_at"`
	FinishedAt *time.Time        `json:"finished_at,omitempty"`
}

// RunStep is where a step of a run stands.
type RunStep struct {
	Status    string   `json:"status" enum:"waiting,running,succeeded,failed,skipped,canceled"`
	Why       string   `json:"why,omitempty" doc:"Why it was skipped, or nothing of it could be begun."`
	Needs     []string `json:"needs,omitempty"`
	KeptFrom  string   `json:"kept_from,omitempty" doc:"The run whose jobs these are, where a rerun has taken the step over."`
	Count     int      `json:"count" doc:"How many jobs it has, without those that were run again."`
	Succeeded int      `json:"succeeded"`
	Failed    int      `json:"failed"`
	Jobs      []RunJob `json:"jobs,omitempty" doc:"Those that were begun."`
}

// RunJob is a job of a step.
type RunJob struct {
	Index  int    `json:"index"`
	Try    int    `json:"try" doc:"Counts from 1. Of several tries the last is here."`
	ID     string `json:"job_id,omitempty"`
	Status string `json:"status" doc:"The job's status, queued until it has ended; refused if no job could be made."`
	Why    string `json:"why,omitempty" doc:"Why none could be made, of the first 100 such jobs of the run."`
}
