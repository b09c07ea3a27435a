package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// NewTurn is what an execution has besides its spec.
type NewTurn struct {
	// Place is where it is executed. A context that is not there is made; a language has to be said for any but the main one.
	Place Place
	// Expect is the generation that its interpreter has to have; 0 for any.
	Expect int
	// Trace is where its trace goes on, as a traceparent, or "".
	Trace string
	// Hold has it wait for a decision, and those after it; nil for none.
	Hold *Held
	// Asked is what an idempotency key stands for: what was sent. Nil for the spec.
	Asked []byte
	// Watched says that somebody watches it from the start.
	Watched bool
	// At is when it is created, which its record then has. Defaults to now.
	At time.Time
}

// AddTurn creates an execution of a session: a job of that id, which is of the session's tenant. Its spec is in the record,
// so it has MaxInline bytes at most. It fails with job.ErrNoSession, job.ErrSessionEnded, job.ErrSessionBusy, or a *job.Error
// beyond the tenant's quotas. With an idempotency key the id is that of the key: then it fails with ErrExists where it is there already, and with job.ErrConflict where
// that has another spec.
func (s *Store) AddTurn(ctx context.Context, session, id string, spec job.Spec, n NewTurn) error {
	tenant, ok := job.TenantOfSession(session)
	if of, isJob := job.TenantOf(id); !ok || !isJob || of != tenant {
		return fmt.Errorf("execute %q: %w", id, job.ErrNoSession)
	}
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return fmt.Errorf("execute: %w", err)
	}
	if err := errors.Join(s.checkStored(ctx, tenant, terms.Quotas), s.checkBudget(ctx, tenant, terms)); err != nil {
		return err
	}
	text, err := MarshalExecution(spec, n.Place)
	if err != nil {
		return err
	}
	if len(text) > MaxInline {
		return job.Invalid{{Field: "code", Value: fmt.Sprintf("%d bytes as JSON with what else is sent", len(text)), Message: "is too large", Allowed: fmt.Sprintf("up to %d bytes", MaxInline)}}
	}
	metadata, err := job.Marshal(spec.Metadata)
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	fields := []any{
		"version", spec.Needs(), "runtime", spec.Runtime, "metadata", metadata, "retention", s.retentionOf(spec, terms).Milliseconds(), "spec", text,
	}
	if spec.Callback != nil {
		fields = append(fields, "callback", spec.Callback.URL)
	}
	if n.Trace != "" {
		fields = append(fields, "trace", n.Trace)
	}
	if n.Watched {
		fields = append(fields, "watched", ms(s.now().Add(watchLife)))
	}
	expect := ""
	if n.Expect > 0 {
		expect = strconv.Itoa(n.Expect)
		fields = append(fields, "expect", expect)
	}
	if n.Place.Context != "" {
		fields = append(fields, "context", n.Place.Context)
	}
	held, until, heldSize, err := heldFields(n.Hold)
	if err != nil {
		return err
	}
	fields = append(fields, held...)
	options := ""
	if spec.IdempotencyKey != "" {
		if options = hashAsked(text); n.Asked != nil {
			options = hashAsked(n.Asked)
		}
	}
	if n.At.IsZero() {
		n.At = s.now()
	}
	mostRecorded := s.mostRecorded(terms)
	word, err := turnScript.Run(ctx, s.lasting, tenant, script.Args{
		"session": session, "id": id, "now": n.At, "options": options, "most_waiting": job.MaxWaitingTurns,
		"context": cmp.Or(n.Place.Context, job.MainContext), "language": n.Place.Language, "expect": expect,
		"hold": until, "held_event": MessageID(id, job.EventHeld), "size": jobMemory(spec, text, metadata) + textCost(len(n.Trace)+len(options)) + heldSize, "most_recorded": mostRecorded,
	}, fields...).Text()
	if err != nil {
		return fmt.Errorf("execute: %w", err)
	}
	word, is, _ := strings.Cut(word, " ")
	switch word {
	case "ok":
		s.observer.Accepted(spec.Runtime, job.Normal)
		s.enqueueFirstDelivery(ctx, tenant, is)
		return nil
	case "exists":
		return ErrExists
	case "conflict":
		return job.ErrConflict
	case "busy":
		return job.ErrSessionBusy
	case "bytes_recorded":
		return overRecorded(mostRecorded)
	case "generation":
		generation, err := strconv.Atoi(is)
		if err != nil {
			return fmt.Errorf("execute: the script answered %q", is)
		}
		return &job.GenerationError{Context: cmp.Or(n.Place.Context, job.MainContext), Asked: n.Expect, Generation: generation}
	}
	return s.contextRefused(ctx, session, n.Place.Context, job.ContextSettings{Language: n.Place.Language}, strings.TrimSpace(word+" "+is))
}

// FindTurn looks for the execution of that id, which an idempotency key began. It fails with job.ErrNotFound where there is none, and with
// job.ErrConflict where something else was asked for.
func (s *Store) FindTurn(ctx context.Context, id string, asked []byte) error {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return job.ErrNotFound
	}
	options, err := s.rdb.HGet(ctx, jobKey(tenant, id), "options").Result()
	switch {
	case errors.Is(err, redis.Nil):
		return job.ErrNotFound
	case err != nil:
		return fmt.Errorf("look for execution: %w", err)
	case options != hashAsked(asked):
		return job.ErrConflict
	}
	if err := s.Confirm(ctx); err != nil {
		return fmt.Errorf("look for execution: %w", err)
	}
	return nil
}

// sessionEnded is job.ErrSessionEnded with the reason.
func (s *Store) sessionEnded(ctx context.Context, id string) error {
	x, err := s.GetSession(ctx, id)
	if err != nil {
		return err
	}
	if x.State != job.SessionEnded { // its worker makes sure of it
		x.EndReason, x.EndedBecause = cmp.Or(x.Over, job.EndTTL), "its time is over"
		if x.Over == job.EndBudget {
			x.EndedBecause = "its budget is spent"
		}
	}
	return &job.Error{Code: job.CodeSessionEnded, Message: fmt.Sprintf("the session has ended (%s): %s; start another", x.EndReason, x.EndedBecause)}
}

// ErrNoTurn means that no execution of a session waits.
var ErrNoTurn = errors.New("no execution waits")

// ErrSpent means that a session's executions have used what they may: nothing of it begins any more.
var ErrSpent = errors.New("the session's budget is spent")

// ErrTurnHeld means that the next execution of a session waits for a decision.
var ErrTurnHeld = errors.New("the next execution is held")

// ErrUnended means that the record of the execution that a session's worker took last says that it runs: Redis has lost its end.
var ErrUnended = errors.New("the execution before has no end in its record")

// ErrNoSlot means that an execution of a session waits for a slot.
var ErrNoSlot = errors.New("an execution waits for a slot")

// Rest is how a session waits for its next execution.
type Rest struct {
	// Slot says that its worker has a slot for one.
	Slot bool
	// Paused says that it is on its worker's disk.
	Paused bool
}

// TakeTurn gives the worker that holds the session its next execution, which runs from now on. done is the one that it took
// before and that has ended, or "", and lost are the contexts whose interpreters ended with that, and their generations. Without a slot it gives again what the worker has taken, and no other. It fails with ErrNoTurn, ErrTurnHeld, ErrNoSlot, ErrSpent, ErrUnended,
// and with job.ErrNoSession or job.ErrSessionEnded where the worker holds the session no longer.
func (s *Store) TakeTurn(ctx context.Context, id, worker, done string, lost map[string]int, rest Rest) (Record, error) {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return Record{}, job.ErrNoSession
	}
	var ended strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		fmt.Fprintf(&ended, "%s:%d ", name, lost[name])
	}
	answer, err := takeTurnScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": id, "worker": worker, "now": s.now(), "done": done, "lost": ended.String(), "slot": rest.Slot, "paused": rest.Paused,
	}).Slice()
	if err != nil {
		return Record{}, fmt.Errorf("take execution: %w", err)
	}
	switch answer[0] {
	case "turn":
		taken, _ := answer[1].(string)
		j, err := parseJob(tenant, taken, hash(answer[2]))
		err = errors.Join(err, j.readTaken(answer[3], answer[4]))
		if err == nil {
			s.observer.Started(j)
		}
		return j, err
	case "fork":
		fork, _ := answer[1].(string)
		return Record{}, &ForkError{fork}
	case "none":
		return Record{}, ErrNoTurn
	case "unended":
		return Record{}, ErrUnended
	case "waits":
		return Record{}, ErrNoSlot
	case "spent":
		return Record{}, ErrSpent
	case "held":
		return Record{}, ErrTurnHeld
	case "missing":
		return Record{}, job.ErrNoSession
	case "ended":
		return Record{}, job.ErrSessionEnded
	}
	return Record{}, fmt.Errorf("take execution: the script answered %v", answer[0])
}
