package replay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Client has the sessions: [producer.Client], say.
type Client interface {
	producer.Jobs
	producer.Sessions
	producer.Files
}

// Options say what is replayed.
type Options struct {
	// UpTo is the sequence of the last execution to replay; 0 for all.
	UpTo int64
	// Settings are those of the new session, of the session's own; nil for the same.
	Settings func(job.SessionSettings) job.SessionSettings
	// Began is told of the new session before anything is executed in it; nil for nobody.
	Began func(job.Session)
	// Each is told of each step once it is done; nil for nobody.
	Each func(Step)
}

// Step is an execution, and what became of it in the new session.
type Step struct {
	Sequence int64 `json:"sequence"`
	// Was and Is are the executions: the recorded one, and the new one, "" where it was not executed again.
	Was string `json:"was"`
	Is  string `json:"is,omitempty"`
	// Same reports whether they came to the same. Else Differs names the parts that differ: status, exit_code, stdout, stderr, results, exception, artifacts, state.
	Same    bool     `json:"same"`
	Differs []string `json:"differs,omitempty"`
	// Skipped is why it was not executed again, or "".
	Skipped string `json:"skipped,omitempty"`
}

// recorded is an execution to replay.
type recorded struct {
	id       string
	sequence int64
	input    job.ExecutionInput
	outcome  *outcome // nil: none is known, as it was lost
	// anew says that the context's interpreter was restarted before it.
	anew bool
}

// ErrIncomplete means that executions are no longer kept on which later ones go on.
var ErrIncomplete = errors.New("the session's executions are not all kept")

// Run starts a session with the settings of session id, or what o makes of them, has it execute in their order the code and files that this executed, each once, and compares what came of
// them. It fails with ErrIncomplete, before anything is started, where one is no longer kept, and as StartSession and ExecuteInSession do: where files of an
// execution are gone, say. The new session is the caller's to end.
func Run(ctx context.Context, c Client, id string, o Options) (x job.Session, steps []Step, err error) {
	settings, all, err := read(ctx, c, id, o.UpTo)
	if err != nil {
		return job.Session{}, nil, err
	}
	if o.Settings != nil {
		settings = o.Settings(settings)
	}
	contexts, err := c.SessionContexts(ctx, id)
	if err != nil {
		return job.Session{}, nil, err
	}
	if x, err = c.StartSession(ctx, settings); err != nil {
		return job.Session{}, nil, fmt.Errorf("start session: %w", err)
	}
	if o.Began != nil {
		o.Began(x)
	}
	for _, one := range contexts { // others are made as they are first named
		if one.Directory == "" {
			continue
		}
		if _, err := c.MakeContext(ctx, x.ID, one.Name, job.ContextSettings{Language: one.Language, Directory: one.Directory}); err != nil {
			return x, nil, fmt.Errorf("make context %s: %w", one.Name, err)
		}
	}
	for _, r := range all {
		step, err := again(ctx, c, x.ID, r)
		if err != nil {
			return x, steps, fmt.Errorf("replay execution %d (%s): %w", r.sequence, r.id, err)
		}
		steps = append(steps, step)
		if o.Each != nil {
			o.Each(step)
		}
	}
	return x, steps, nil
}

// read is the settings of a session, and what it has executed, up to that sequence. Nothing is started before all of it is known.
func read(ctx context.Context, c Client, id string, upTo int64) (settings job.SessionSettings, all []recorded, err error) {
	was, err := c.Session(ctx, id)
	if err != nil {
		return settings, nil, err
	}
	settings = job.SessionSettings{
		Runtime: was.Runtime, Limits: was.Limits, TTLSeconds: was.TTLSeconds, IdleSeconds: was.IdleSeconds, Metadata: was.Metadata, Placement: was.Placement,
		IdempotencyKey: rand.Text(), // so that the request can be repeated
	}
	next := map[string]int{} // the generation with which a context goes on
	for e, err := range c.Transcript(ctx, id) {
		if err != nil {
			return settings, nil, fmt.Errorf("read transcript: %w", err)
		}
		if e.Input == nil { // those that were never begun come last
			continue
		}
		r := recorded{id: e.ID, sequence: int64(len(all)) + 1, input: *e.Input}
		if upTo > 0 && r.sequence > upTo {
			break
		}
		if e.Session != nil {
			if e.Session.Sequence != r.sequence {
				return settings, nil, fmt.Errorf("%w: number %d is missing", ErrIncomplete, r.sequence)
			}
			at := e.Session
			r.anew = next[at.Context] > 0 && at.Generation > next[at.Context]
			next[at.Context] = at.Generation
			if at.State == job.StateLost {
				next[at.Context]++
			}
			for _, name := range at.LostContexts {
				if name == job.MainContext {
					name = ""
				}
				next[name]++
			}
			if r.outcome, err = outcomeOf(ctx, c, e.Result); err != nil {
				return settings, nil, fmt.Errorf("read execution %s: %w", e.ID, err)
			}
		}
		settings.Env, settings.Secrets = e.Input.Env, e.Input.Secrets
		all = append(all, r)
	}
	if upTo > int64(len(all)) {
		return settings, nil, fmt.Errorf("%w: there are %d up to number %d", ErrIncomplete, len(all), upTo)
	}
	return settings, all, nil
}

// again executes once more what was recorded.
func again(ctx context.Context, c Client, session string, r recorded) (Step, error) {
	step := Step{Sequence: r.sequence, Was: r.id}
	if r.outcome == nil {
		step.Skipped = "it came to no end of its own: it was refused, or lost with its session"
		return step, nil
	}
	if r.anew {
		if _, err := c.RestartSession(ctx, session, job.Restart{Context: r.input.Context}); err != nil {
			return step, fmt.Errorf("restart as before it: %w", err)
		}
	}
	j, err := c.ExecuteInSession(ctx, session, job.SessionExecution{
		Code: r.input.Code, Context: r.input.Context, Language: r.input.Language, Files: r.input.Files, WallMS: r.input.WallMS, IdempotencyKey: rand.Text(),
	})
	if err != nil {
		return step, err
	}
	step.Is = j.ID
	if j, err = c.Wait(ctx, j.ID); err != nil {
		return step, err
	}
	is, err := outcomeOf(ctx, c, *j.Result)
	if err != nil {
		return step, err
	}
	step.Differs = r.outcome.differs(*is)
	step.Same = len(step.Differs) == 0
	return step, nil
}
