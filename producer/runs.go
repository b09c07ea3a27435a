package producer

import (
	"context"

	"github.com/glovebox-run/glovebox/job"
)

// Runs is what a tenant does with pipelines. Safe for concurrent use.
type Runs interface {
	// StartRun starts a pipeline. It fails with job.Invalid, which has all faults, or job.ErrConflict.
	StartRun(ctx context.Context, r job.PipelineRequest) (job.Run, error)
	// Run returns a run, or job.ErrNotFound.
	Run(ctx context.Context, id string) (job.Run, error)
	// WaitRun returns a run once it has ended.
	WaitRun(ctx context.Context, id string) (job.Run, error)
	// CancelRun begins to end a run: no job of it is made any more, and those that have not ended are
	// canceled. It fails with job.ErrNotFound or job.ErrEnded.
	CancelRun(ctx context.Context, id string) (job.Run, error)
	// GraphRun draws a run as mermaid, dot or text.
	GraphRun(ctx context.Context, id, format string) (string, error)
	// ListRuns lists the ids of the 100 newest runs, the newest first.
	ListRuns(ctx context.Context) ([]string, error)
}
