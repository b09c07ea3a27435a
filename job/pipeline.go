package job

import (
	"encoding/json"
)

// Bounds of a pipeline.
const (
	MaxPipelineBytes = 256 << 10 // of its definition, as JSON
	MaxSteps         = 64
	// MaxPointers is how many outputs a pipeline has, and how many parameters a step gives a template.
	MaxPointers = 64
	MaxStepName = 32
	// MaxEach is how many jobs one step may fan out to, and MaxRunJobs how many items all steps of a run may have.
	MaxEach    = 256
	MaxRunJobs = 1000
	// MaxWhenBytes bounds an expression.
	MaxWhenBytes = 2 << 10
	// MaxRetries and MaxRetryDelaySeconds bound what a step's retry may say.
	MaxRetries           = 10
	MaxRetryDelaySeconds = 3600
	// MaxOutputsBytes bounds OutputsFile.
	MaxOutputsBytes = 64 << 10
	// MaxStepOutputsBytes bounds the OutputsFiles of all jobs of a step together, and all items of a fan-out, as JSON.
	MaxStepOutputsBytes = 1 << 20
	// DefaultRunSeconds is the deadline of a pipeline that has none, MaxRunSeconds the latest one.
	DefaultRunSeconds = 3600
	MaxRunSeconds     = 24 * 3600
)

// EventPipelineCompleted is posted once, when every step of a run has ended.
const EventPipelineCompleted = "pipeline.completed"

// OutputsFile is the artifact of a job that later steps can point into: a JSON object.
const OutputsFile = "outputs.json"

// What the metadata of a job that is a step of a run say of it.
const (
	RunKey  = "glovebox.run"  // the run's id
	StepKey = "glovebox.step" // the step's name; of a fan-out with its index: parse[3]
)

// Pipeline is jobs that follow from each other: which steps there are, and what each needs.
type Pipeline struct {
	Name            string           `json:"pipeline,omitempty" doc:"A name to tell it from others: 1 to 64 lower-case letters, digits, - and _." example:"report"`
	Params          json.RawMessage  `json:"params,omitempty" doc:"The JSON Schema of the parameters, as a template's. Absent: there are none."`
	DeadlineSeconds int64            `json:"deadline_seconds,omitempty" minimum:"0" doc:"How long a run may take in all, 1 to 86400; 3600 by default. What has not ended then is canceled."`
	FailFast        bool             `json:"fail_fast,omitempty" doc:"Once a step has failed for good, cancel the others. By default those go on that don't need it."`
	Steps           map[string]Step  `json:"steps" doc:"The steps by name: 1 to 64, each name of up to 32 lower-case letters, digits and _, beginning with a letter."`
	Outputs         map[string]Value `json:"outputs,omitempty" doc:"What the run answers with: pointers such as /needs/chart/artifacts/plot.png, into any step."`
	Callback        *Callback        `json:"callback,omitempty" doc:"Where pipeline.completed is posted."`
}

// Step is a job of a pipeline, or as many of the same kind as Each has items: a [TemplateSpec], or a
// stored template with parameters.
type Step struct {
	TemplateSpec
	Files    []StepFile       `json:"files,omitempty" doc:"Files placed in the job's directory. With from it is an artifact, with artifacts all of a step."`
	Template string           `json:"template,omitempty" doc:"Instead of a job: the stored template to run, with its parameters in from." example:"report@3"`
	From     map[string]Value `json:"from,omitempty" doc:"With template: its parameters, each a text or {\"from\": pointer}."`

	Needs        []string `json:"needs,omitempty" doc:"Steps that must have ended before this one begins."`
	When         string   `json:"when,omitempty" doc:"Begin only if this is true (CEL), however the needs ended: needs.STEP.status, .count, .succeeded, .failed and .outputs, params. Absent: begin if all needs succeeded." example:"needs.parse.failed > 0"`
	Each         *Each    `json:"each,omitempty" doc:"One job for each item, to which /item and /index point: up to 256, of 1 MiB together as JSON."`
	Parallel     int      `json:"parallel,omitempty" minimum:"0" doc:"With each: how many of its jobs may be under way at once. Absent: all."`
	Retry        *Retry   `json:"retry,omitempty" doc:"Run a job again that did not succeed."`
	AllowFailure bool     `json:"allow_failure,omitempty" doc:"What needs this step takes a failure for a success, and so does the run. So it is where a job of it was canceled."`
}

// StepFile is a [TemplateFile], or stands for artifacts of steps before.
type StepFile struct {
	TemplateFile
	From      string `json:"from,omitempty" doc:"Instead of content: a pointer to an artifact, /needs/STEP/artifacts/NAME, or /item of a step for each artifact." example:"/item"`
	Artifacts string `json:"artifacts,omitempty" doc:"Instead of name and content: all artifacts of this step, which this one needs." example:"parse"`
	Match     string `json:"match,omitempty" doc:"With artifacts: those whose name matches, as path.Match of Go has it." example:"*.csv"`
	Under     string `json:"under,omitempty" doc:"With artifacts: the directory to place them in. Those of a fan-out get one of their own there, named by their index." example:"parts"`
}

// Each says what a step fans out over: a list, or the artifacts of a step.
type Each struct {
	From      string `json:"from,omitempty" doc:"A pointer to a list: /params/NAME, or /needs/STEP/outputs/NAME." example:"/params/cities"`
	Artifacts string `json:"artifacts,omitempty" doc:"Or: the step whose artifacts are the items, sorted by name." example:"fetch"`
	Match     string `json:"match,omitempty" doc:"With artifacts: those whose name matches, as path.Match of Go has it." example:"*.csv"`
}

// Retry says which jobs of a step are run again, and how often.
type Retry struct {
	Max          int      `json:"max" minimum:"1" doc:"How often at most, 1 to 10."`
	On           []Status `json:"on,omitempty" doc:"After which ends: failed, timed_out, out_of_memory, output_limit_exceeded, compile_failed, internal_error. Absent: failed, timed_out, internal_error."`
	DelaySeconds int64    `json:"delay_seconds,omitempty" minimum:"0" doc:"How long to wait before, up to 3600."`
}

// ValidStepName reports whether a step can have that name. It is one in expressions, too.
func ValidStepName(name string) bool {
	if name == "" || len(name) > MaxStepName || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return true
}
