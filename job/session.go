package job

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Bounds of sessions.
const (
	// DefaultSessions is the quota sessions of tenants whose terms name none.
	DefaultSessions = 16
	// MaxWaitingTurns is how many executions of a session may wait for their turn.
	MaxWaitingTurns = 16
	// DefaultTTLSeconds is how long a session lives, unless it says otherwise, and MaxTTLSeconds the most.
	DefaultTTLSeconds = 3600
	MaxTTLSeconds     = 90 * 60 // a sandbox's clock in Podman has two hours
	// DefaultIdleSeconds is for how long a session may execute nothing.
	DefaultIdleSeconds = 600
)

// SessionStatus is where a session stands.
type SessionStatus string

// Every status of a session. Ended is final.
const (
	SessionQueued SessionStatus = "queued" // no worker has room for it yet, or its sandbox starts
	SessionReady  SessionStatus = "ready"  // nothing runs
	SessionBusy   SessionStatus = "busy"   // an execution runs
	SessionPaused SessionStatus = "paused" // nothing runs, and it is on its worker's disk: the next execution waits until it has memory again
	SessionEnded  SessionStatus = "ended"
)

// SessionStatuses returns every one.
func SessionStatuses() []SessionStatus {
	return []SessionStatus{SessionQueued, SessionReady, SessionBusy, SessionPaused, SessionEnded}
}

// Why a session ended.
const (
	EndDeleted    = "deleted"
	EndTTL        = "ttl"
	EndIdle       = "idle"
	EndBudget     = "budget"        // its executions have used what they may
	EndMemory     = "out_of_memory" // its sandbox is gone for it
	EndWorkerLost = "worker_lost"
	EndDrained    = "drained"        // its worker shut down
	EndStopped    = "tenant_stopped" // by the operator
	EndFailed     = "failed"         // it never started, or its sandbox was lost
	EndPause      = "pause_failed"   // it was paused, and could not go on
)

// SessionSettings are what is asked for: an interpreter, and what it may use.
type SessionSettings struct {
	Runtime string `json:"runtime" doc:"Name or alias of a runtime that has sessions, such as python, node, typescript, bash or multi." example:"python"`
	// Limits hold for each execution, but those of memory, processes and disk for the session as a whole.
	Limits Limits            `json:"limits,omitempty" doc:"An absent field has the runtime's default. Each execution has wall_ms, cpu_ms and output_kb anew; memory, processes and disk are the whole session's."`
	Env    map[string]string `json:"env,omitempty" doc:"Environment variables added to the runtime's own."`
	// Secrets are names, as a job's.
	Secrets []string `json:"secrets,omitempty" doc:"Names of secrets that the tenant has stored: each is an environment variable of that name in all executions, as its value was when the session began, and *** in what these print." example:"[\"API_TOKEN\"]"`
	// Placement is as a job's.
	Placement   Labels            `json:"placement,omitempty" doc:"Labels that the worker which holds the session has to have, as a job's." example:"{\"zone\":\"a\"}"`
	TTLSeconds  int64             `json:"ttl_seconds,omitempty" minimum:"0" doc:"How long the session lives, from when it is asked for: up to 5400, 3600 by default."`
	Budget      *SessionBudget    `json:"budget,omitempty" doc:"What all executions may use together. The session ends, with reason budget, once they have."`
	IdleSeconds int64             `json:"idle_seconds,omitempty" minimum:"0" doc:"It ends when it has executed nothing for so long: up to ttl_seconds, 600 by default."`
	Metadata    map[string]string `json:"metadata,omitempty" doc:"Carried through, unread."`
	// Callback is told of the session's end, and of the end of each execution that has no callback of its own.
	Callback *Callback `json:"callback,omitempty" doc:"Where session.ended is posted, and job.completed for each execution that has no callback of its own: both, unless events names one."`
	// IdempotencyKey names the session as that of a Spec names a job.
	IdempotencyKey string `json:"idempotency_key,omitempty" doc:"Up to 255 printable ASCII characters. For 24 hours, the same request under the same key is answered with the first one's session."`
}

// SessionChange is what of a session can change; what is nil stays as it is.
type SessionChange struct {
	TTLSeconds  *int64             `json:"ttl_seconds,omitempty" minimum:"1" doc:"How much longer the session lives, from now. It can live 5400 seconds in all, from when it was asked for: what is more is refused with the most there is."`
	IdleSeconds *int64             `json:"idle_seconds,omitempty" minimum:"1" doc:"It ends when it has executed nothing for so long: up to what it lives in all."`
	Metadata    *map[string]string `json:"metadata,omitempty" doc:"In the place of all that it has; {} for none."`
}

// Check returns what is wrong with the change of any session as [Invalid], or nil.
func (c SessionChange) Check() error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	for _, f := range []struct {
		name  string
		value *int64
	}{{"ttl_seconds", c.TTLSeconds}, {"idle_seconds", c.IdleSeconds}} {
		if f.value != nil && (*f.value < 1 || *f.value > MaxTTLSeconds) {
			add(f.name, *f.value, "is out of range", fmt.Sprintf("1 to %d", MaxTTLSeconds))
		}
	}
	if c.Metadata != nil {
		checkMetadata(add, *c.Metadata)
		errs = append(errs, OwnMetadata(*c.Metadata)...)
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// SessionBudget is what all executions of a session may use together; 0 is no bound. The execution that uses up the rest goes on to its own end.
type SessionBudget struct {
	CPUMS      int64 `json:"cpu_ms,omitempty" minimum:"0" doc:"CPU time, ms. The execution that uses up the rest goes on to its own end."`
	Executions int64 `json:"executions,omitempty" minimum:"0" doc:"How many may begin."`
}

// SessionFork is what a session has of its own that is forked from another: all else is that one's.
type SessionFork struct {
	TTLSeconds     int64             `json:"ttl_seconds,omitempty" minimum:"0" doc:"How long the fork lives, from when it is asked for: up to 5400, 3600 by default. One that has secrets ends no later than 5400 seconds after the session that was given them was asked for."`
	IdleSeconds    int64             `json:"idle_seconds,omitempty" minimum:"0" doc:"It ends when it has executed nothing for so long: up to ttl_seconds, 600 by default."`
	Budget         *SessionBudget    `json:"budget,omitempty" doc:"What the fork's own executions may use together. The other session's are not counted."`
	Metadata       map[string]string `json:"metadata,omitempty" doc:"Carried through, unread."`
	Callback       *Callback         `json:"callback,omitempty" doc:"Where session.ended is posted, and job.completed for each execution that has no callback of its own. The other session's is not the fork's."`
	IdempotencyKey string            `json:"idempotency_key,omitempty" doc:"As that of a new session."`
}

// Settings are those of the fork of a session with these settings.
func (f SessionFork) Settings(of SessionSettings) SessionSettings {
	of.TTLSeconds, of.IdleSeconds, of.Budget, of.Metadata, of.Callback, of.IdempotencyKey = f.TTLSeconds, f.IdleSeconds, f.Budget, f.Metadata, f.Callback, f.IdempotencyKey
	return of
}

// SessionExecution is code for a session to execute.
type SessionExecution struct {
	Code string `json:"code,omitempty" doc:"Goes on from what the session has executed before. It may be left out where there are files." example:"x = 1; print(x)"`
	// Context is whose interpreter executes it, and Language what that is to speak.
	Context  string `json:"context,omitempty" doc:"Whose interpreter executes it: main, the session's first one, by default. A context that the session hasn't is made. Up to 8, each with a state of its own, share the session's files." example:"main"`
	Language string `json:"language,omitempty" doc:"The language of a context that is not there yet, one of the runtime's: its own by default. Of one that is there it has to be the same. files, without a context, is every session's: its code is a command about files." example:"javascript"`
	// ExpectGeneration is the generation that the context's interpreter has to have.
	ExpectGeneration int `json:"expect_generation,omitempty" minimum:"0" doc:"Refuses it (409, generation_changed) where the context's interpreter has another generation: its state was lost, or it was restarted. An execution that waited is canceled with that code. 1 for a context's first."`
	// Files are put there before the code is executed, in the place of what has their names.
	Files    []File            `json:"files,omitempty" doc:"Files placed in the session's directory before the code is executed, in the place of those of their names: text, bytes, an upload, or an artifact of a job. They are no artifacts of the execution unless the code changes them."`
	WallMS   int64             `json:"wall_ms,omitempty" minimum:"0" doc:"How long it may take; the session's wall_ms is the default and the most."`
	Callback *Callback         `json:"callback,omitempty" doc:"Where the signed result is posted; the session's callback by default."`
	Metadata map[string]string `json:"metadata,omitempty" doc:"Carried through to the result, unread."`
	// IdempotencyKey names the execution in its session.
	IdempotencyKey string `json:"idempotency_key,omitempty" doc:"Up to 255 printable ASCII characters. While its record is kept, the same request under the same key in the same session is answered with the first one's execution, and nothing is executed twice."`
}

// Session is a session as it is now.
type Session struct {
	ID      string        `json:"id" example:"default-s-mfrggzdfmztwq2lknnwg23tpoa"`
	Status  SessionStatus `json:"status" enum:"queued,ready,busy,paused,ended"`
	Runtime string        `json:"runtime" example:"python"`
	Limits  Limits        `json:"limits"`
	// Placement are the labels that its worker has to have.
	Placement Labels `json:"placement,omitempty" doc:"Labels that its worker has to have."`
	// Generation counts its main interpreters: one more after each that was lost or restarted.
	Generation int   `json:"generation" doc:"Counts the interpreters of its main context, 0 before the first execution: one that was lost or restarted is one more."`
	Executions int64 `json:"executions" doc:"How many have begun; of a fork, with those that the other session had executed before."`
	// ForkOf is the session that it goes on from, and ForkedAt how many executions of that one it goes on from.
	ForkOf   string `json:"fork_of,omitempty" doc:"The session that it was forked from."`
	ForkedAt int64  `json:"forked_at,omitempty" doc:"The sequence of that session's last execution before the fork."`
	// Head stands for all that it has executed and is attested.
	Head        string            `json:"head,omitempty" doc:"The digest of the last execution that is attested, which stands for all before it: glovebox verify --session --head refuses a transcript that ends before it. Absent without a signing key."`
	Attested    int64             `json:"attested,omitempty" doc:"How many of its executions are attested, up to head."`
	Secrets     []string          `json:"secrets,omitempty" doc:"Names of the secrets that it has: never what they are."`
	Execution   string            `json:"execution_id,omitempty" doc:"The one that runs; it is a job."`
	CPUMS       int64             `json:"cpu_ms" doc:"CPU time of its executions that have ended, ms."`
	Budget      *SessionBudget    `json:"budget,omitempty" doc:"What they may use together."`
	TTLSeconds  int64             `json:"ttl_seconds" doc:"From created_at to expires_at."`
	IdleSeconds int64             `json:"idle_seconds"`
	CreatedAt   time.Time         `json:"created_at"`
	ReadyAt     *time.Time        `json:"ready_at,omitempty"`
	ActiveAt    *time.Time        `json:"last_active_at,omitempty" doc:"When the last execution began or ended."`
	ExpiresAt   time.Time         `json:"expires_at"`
	EndedAt     *time.Time        `json:"ended_at,omitempty"`
	End         *SessionEnd       `json:"end,omitempty" doc:"Why it ended."`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// SessionEnd is why a session ended.
type SessionEnd struct {
	Reason  string `json:"reason" enum:"deleted,ttl,idle,budget,out_of_memory,worker_lost,drained,tenant_stopped,failed,pause_failed"`
	Message string `json:"message"`
}

// ExecutionState is where an execution stands in its session.
type ExecutionState struct {
	ID         string `json:"id" doc:"The session's."`
	Sequence   int64  `json:"sequence" doc:"1 for its first execution."`
	Context    string `json:"context,omitempty" doc:"Whose interpreter executed it; absent for main."`
	Language   string `json:"language,omitempty" doc:"That context's; absent for main."`
	Generation int    `json:"generation" doc:"Which of the context's interpreters executed it."`
	State      string `json:"state" enum:"kept,lost" doc:"lost: the interpreter, or the session, ended with this execution. The files stay while the session lives."`
	// LostContexts are others whose interpreters ended with it.
	LostContexts []string `json:"lost_contexts,omitempty" doc:"Other contexts whose state was lost with this execution: their interpreters ended while it ran, or were ended with it."`
}

// What became of a session's state with an execution.
const (
	StateKept = "kept"
	StateLost = "lost"
)

// Filled returns the settings with the defaults where they say nothing.
func (s SessionSettings) Filled() SessionSettings {
	if s.TTLSeconds == 0 {
		s.TTLSeconds = DefaultTTLSeconds
	}
	if s.IdleSeconds == 0 {
		s.IdleSeconds = min(DefaultIdleSeconds, s.TTLSeconds)
	}
	return s
}

// Check returns what is wrong with the settings as [Invalid], or nil. What a job has, too, is checked as a job's: see Spec.
func (s SessionSettings) Check() error {
	var errs Invalid
	if s.TTLSeconds < 0 || s.TTLSeconds > MaxTTLSeconds {
		errs = append(errs, FieldError{"ttl_seconds", s.TTLSeconds, "is out of range", fmt.Sprintf("1 to %d", MaxTTLSeconds)})
	} else if most := s.Filled().TTLSeconds; s.IdleSeconds < 0 || s.IdleSeconds > most {
		errs = append(errs, FieldError{"idle_seconds", s.IdleSeconds, "is out of range", fmt.Sprintf("1 to %d, the ttl_seconds", most)})
	}
	if b := s.Budget; b != nil {
		if b.CPUMS < 0 {
			errs = append(errs, FieldError{"budget.cpu_ms", b.CPUMS, "is negative", "1 and up, 0 for any"})
		}
		if b.Executions < 0 {
			errs = append(errs, FieldError{"budget.executions", b.Executions, "is negative", "1 and up, 0 for any"})
		}
	}
	if s.Callback != nil {
		s.Callback.check(func(field string, value any, message, allowed string) {
			errs = append(errs, FieldError{field, value, message, allowed})
		}, EventCompleted, EventSessionEnded)
	}
	errs = append(errs, OwnMetadata(s.Metadata)...)
	errs = append(errs, keyFault(s.IdempotencyKey)...)
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// CallbackOf is the callback that is told of an event about the session, or nil.
func (s SessionSettings) CallbackOf(event string) *Callback {
	if s.Callback == nil || len(s.Callback.Events) > 0 && !slices.Contains(s.Callback.Events, event) {
		return nil
	}
	return &Callback{URL: s.Callback.URL}
}

// Spec returns a job with the session's settings that executes code.
func (s SessionSettings) Spec(e SessionExecution) Spec {
	limits := s.Limits
	if e.WallMS != 0 {
		limits.WallMS = e.WallMS
	}
	callback := e.Callback
	if callback == nil {
		callback = s.CallbackOf(EventCompleted)
	}
	return Spec{Runtime: s.Runtime, Source: e.Code, Files: e.Files, Limits: limits, Env: s.Env, Secrets: s.Secrets, Callback: callback, Metadata: e.Metadata, IdempotencyKey: e.IdempotencyKey}
}

// Check returns what is wrong with the execution in a session whose executions may take most ms, as [Invalid], or nil.
// What a job has, too, is checked as a job's.
func (e SessionExecution) Check(most int64) error {
	var errs Invalid
	if e.Code == "" && len(e.Files) == 0 || strings.ContainsRune(e.Code, 0) {
		errs = append(errs, FieldError{"code", clip(e.Code), "is empty or has a NUL", "code of the session's language"})
	}
	if e.Language == FilesLanguage && e.Code != "" {
		if _, err := ParseFileCommand(e.Code); err != nil {
			var invalid Invalid
			errors.As(err, &invalid)
			errs = append(errs, invalid...)
		}
	}
	if e.WallMS < 0 || most > 0 && e.WallMS > most {
		errs = append(errs, FieldError{"wall_ms", e.WallMS, "is out of range", fmt.Sprintf("1 to %d, the session's", most)})
	}
	if e.Context != "" && !ValidContext(e.Context) {
		errs = append(errs, FieldError{"context", clip(e.Context), "is no name of a context", contextNames})
	}
	if e.ExpectGeneration < 0 || e.ExpectGeneration > math.MaxInt32 {
		errs = append(errs, FieldError{"expect_generation", e.ExpectGeneration, "is out of range", "1 and up, 0 for any"})
	}
	errs = append(errs, OwnMetadata(e.Metadata)...)
	errs = append(errs, keyFault(e.IdempotencyKey)...)
	if len(errs) == 0 {
		return nil
	}
	return errs
}
