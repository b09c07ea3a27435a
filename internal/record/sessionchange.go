package record

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// readChanges reads what of a session's settings can change, and has fields of its own for it.
func (x *Session) readChanges(r *fields) {
	if idle := r.number("idle"); idle > 0 {
		x.Settings.IdleSeconds = idle
	}
	if lives := x.Expires.Sub(x.Created); lives > 0 {
		x.Settings.TTLSeconds = int64((lives + time.Second - 1) / time.Second)
	}
	if text := r.f["metadata"]; text != "" {
		x.Settings.Metadata = nil
		r.fail("metadata", json.Unmarshal([]byte(text), &x.Settings.Metadata))
	}
}

// ChangeSession changes how long a session lives, how long it may be idle, and its metadata, and tells its worker. It fails with job.ErrNoSession, with a *job.Error
// where it has ended, or is about to, or beyond the tenant's quotas, and with job.Invalid beyond what it can be given.
func (s *Store) ChangeSession(ctx context.Context, id string, change job.SessionChange) (Session, error) {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return Session{}, job.ErrNoSession
	}
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return Session{}, fmt.Errorf("change session: %w", err)
	}
	ttl, idle, metadata := "", "", []byte{}
	if change.TTLSeconds != nil {
		ttl = strconv.FormatInt(*change.TTLSeconds*1000, 10)
	}
	if change.IdleSeconds != nil {
		idle = strconv.FormatInt(*change.IdleSeconds, 10)
	}
	if change.Metadata != nil {
		if metadata, err = job.Marshal(*change.Metadata); err != nil {
			return Session{}, fmt.Errorf("encode metadata: %w", err)
		}
	}
	word, err := changeSessionScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": id, "now": s.now(), "ttl": ttl, "most_ttl": job.MaxTTLSeconds * time.Second, "idle": idle, "metadata": metadata, "most_recorded": s.mostRecorded(terms),
	}).Text()
	if err != nil {
		return Session{}, fmt.Errorf("change session: %w", err)
	}
	word, most, _ := strings.Cut(word, " ")
	switch word {
	case "ok":
		return s.GetSession(ctx, id)
	case "ttl":
		return Session{}, job.Invalid{{
			Field: "ttl_seconds", Value: *change.TTLSeconds, Message: fmt.Sprintf("is more than a session can live, which is %d from its begin", job.MaxTTLSeconds), Allowed: "up to " + most + ", from now",
		}}
	case "idle":
		return Session{}, job.Invalid{{Field: "idle_seconds", Value: *change.IdleSeconds, Message: "is out of range", Allowed: "1 to " + most + ", the ttl_seconds"}}
	case "missing":
		return Session{}, job.ErrNoSession
	case "ended":
		return Session{}, s.sessionEnded(ctx, id)
	case "bytes_recorded":
		return Session{}, overRecorded(s.mostRecorded(terms))
	}
	return Session{}, fmt.Errorf("change session: the script answered %q", word)
}

// SessionTime is for how long a session lives.
type SessionTime struct {
	Expires time.Time
	Idle    time.Duration // for how long it may execute nothing
	// Over is why it ends, job.EndTTL, job.EndIdle or job.EndBudget, or "": nothing can give it more time, nor anything to execute, since it was said.
	Over string
	// Generation is that of the interpreter that executes what comes next in the context that was asked for; 0 where it is no more, or none was.
	Generation int
}

// SessionTime tells the worker that holds the session, which has executed nothing for so long, until when it lives. It fails with job.ErrNoSession or job.ErrSessionEnded where the worker holds
// it no longer. Of a context, it says the generation.
func (s *Store) SessionTime(ctx context.Context, id, worker, of string, idleFor time.Duration) (SessionTime, error) {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return SessionTime{}, job.ErrNoSession
	}
	answer, err := sessionTimeScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "worker": worker, "now": s.now(), "idle_for": idleFor, "context": of}).StringSlice()
	if err != nil {
		return SessionTime{}, fmt.Errorf("read session's time: %w", err)
	}
	switch answer[0] {
	case "missing":
		return SessionTime{}, job.ErrNoSession
	case "ended":
		return SessionTime{}, job.ErrSessionEnded
	case "over":
		return SessionTime{Over: answer[1]}, nil
	}
	expires, err := strconv.ParseInt(answer[1], 10, 64)
	if err != nil {
		return SessionTime{}, fmt.Errorf("read session's time: %w: %w", ErrUnreadable, err)
	}
	idle, err := strconv.ParseInt(answer[2], 10, 64)
	if err != nil {
		return SessionTime{}, fmt.Errorf("read session's time: %w: %w", ErrUnreadable, err)
	}
	generation, err := strconv.Atoi(answer[3])
	if err != nil {
		return SessionTime{}, fmt.Errorf("read session's time: %w: %w", ErrUnreadable, err)
	}
	return SessionTime{Expires: time.UnixMilli(expires).UTC(), Idle: time.Duration(idle) * time.Second, Generation: generation}, nil
}
