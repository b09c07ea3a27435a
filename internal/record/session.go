package record

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Session is a session's record.
type Session struct {
	ID, Tenant string
	State      job.SessionStatus
	// Settings have the runtime by its own name, and every limit.
	Settings job.SessionSettings
	Worker   string // "" until one holds it
	// Generation is the main interpreter's, 0 before the first execution.
	Generation int
	// Contexts are all, main first. That has no language here: it is the runtime's own.
	Contexts   []job.SessionContext
	Executions int64
	CPUMS      int64 // of its executions that have ended
	// Head is the digest of the last execution that is attested, and Attested how many are, as its worker says.
	Head     string
	Attested int64
	// Execution is the one that runs, or "".
	Execution               string
	Created, Expires        time.Time
	Ready, Active, Finished time.Time // zero until then
	EndReason, EndedBecause string
	// Callback is the URL that is told of its end, or "".
	Callback string
	// ForkOf is the session that it goes on from, "" for one that began by itself, and ForkedAt how many executions that had begun then. They have the same sequence.
	ForkOf   string
	ForkedAt int64
	// UntilMost is when it has to end whatever is asked for; zero: as any session.
	UntilMost time.Time
	// Over is the reason that a session ends for as soon as its worker has seen to it, or "".
	Over string
}

// OpenSession writes the record of a session, and gives it a task; or finds the one that its idempotency key began, which stands for asked: nil for the settings. The runtime is
// to be one's own name. It fails with a *job.Error beyond the tenant's quotas, with job.ErrConflict where the key's session was asked for otherwise, and with a *job.GoneError
// where it is no longer kept.
func (s *Store) OpenSession(ctx context.Context, tenant string, settings job.SessionSettings, asked []byte) (Session, error) {
	return s.openSessionOf(ctx, tenant, settings, asked, Session{})
}

// openSessionOf is OpenSession; of one that is to be forked from another, that is given.
func (s *Store) openSessionOf(ctx context.Context, tenant string, settings job.SessionSettings, asked []byte, of Session) (Session, error) {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return Session{}, fmt.Errorf("open session: %w", err)
	}
	overBudget := s.checkBudget(ctx, tenant, terms)
	if overBudget != nil && job.CodeOf(overBudget) != job.CodeBudgetExceeded {
		return Session{}, fmt.Errorf("open session: %w", overBudget)
	}
	key := hashKey(settings.IdempotencyKey)
	settings.IdempotencyKey = ""
	settings = settings.Filled()
	b, err := job.Marshal(settings)
	if err != nil {
		return Session{}, fmt.Errorf("encode session: %w", err)
	}
	if asked == nil {
		asked = b
	}
	if err := s.noteTenant(ctx, tenant); err != nil {
		return Session{}, fmt.Errorf("open session: %w", err)
	}
	if err := s.notePool(ctx, tenant, settings.Placement); err != nil {
		return Session{}, fmt.Errorf("open session: %w", err)
	}
	id, now := job.NewSessionID(tenant), s.now()
	expires := now.Add(time.Duration(settings.TTLSeconds) * time.Second)
	if !of.UntilMost.IsZero() && expires.After(of.UntilMost) {
		expires = of.UntilMost
	}
	most, mostRecorded := mostSessions(terms), s.mostRecorded(terms)
	fields := []any{"settings", b, "runtime", settings.Runtime, "expires", ms(expires), "idle", settings.IdleSeconds, "retention", s.Retention(terms).Milliseconds()}
	if b := settings.Budget; b != nil && b.Executions > 0 {
		fields = append(fields, "budget_executions", b.Executions)
	}
	if b := settings.Budget; b != nil && b.CPUMS > 0 {
		fields = append(fields, "budget_cpu_ms", b.CPUMS)
	}
	if !of.UntilMost.IsZero() {
		fields = append(fields, "until_most", ms(of.UntilMost))
	}
	size := sessionCost + textCost(len(b))
	if c := settings.CallbackOf(job.EventSessionEnded); c != nil {
		fields = append(fields, "callback", c.URL, "delivery", DeliveryID(sessionNews(id), job.EventSessionEnded, c.URL))
		size += callbackCost + 2*textCost(len(c.URL))
	}
	word, err := openSessionScript.Run(ctx, s.lasting, tenant, script.Args{
		"id": id, "now": now, "due": now.Add(sweepDelay), "key": key, "options": hashAsked(asked), "fork_of": of.ID, "most_waiting": job.MaxWaitingTurns, "over_budget": overBudget != nil, "most_sessions": most,
		"size": size, "most_recorded": mostRecorded,
	}, fields...).Text()
	gone, isGone := strings.CutPrefix(word, "gone ")
	switch {
	case err != nil:
		return Session{}, fmt.Errorf("open session: %w", err)
	case isGone:
		return Session{}, &job.GoneError{ID: gone}
	case word == "conflict":
		return Session{}, job.ErrConflict
	case word == "over_budget":
		return Session{}, overBudget
	case word == "sessions":
		return Session{}, &job.Error{Code: job.CodeQuotaExceeded, Message: fmt.Sprintf("the tenant's quota sessions (%d) has no room for another session until one has ended", most)}
	case word == "bytes_recorded":
		return Session{}, overRecorded(mostRecorded)
	case word == "ended":
		return Session{}, s.sessionEnded(ctx, of.ID)
	case word == "busy":
		return Session{}, job.ErrSessionBusy
	case word == "unforkable":
		return Session{}, job.ErrUnforkable
	}
	if word != id || of.ID != "" { // a fork has no task: the worker of the other one takes it
		return s.GetSession(ctx, word)
	}
	if err := s.Queue.Enqueue(ctx, queue.SessionTask(id, settings.Runtime, settings.Placement.String())); err != nil {
		s.log.Warn("session accepted, its task is left to the sweeper", "session_id", id, "error", err)
	}
	return s.GetSession(ctx, id)
}

// mostSessions is the quota sessions of a tenant with these terms.
func mostSessions(t job.Terms) int64 {
	if t.Quotas.Sessions > 0 {
		return t.Quotas.Sessions
	}
	return job.DefaultSessions
}

// GetSession returns the record of a session, or job.ErrNoSession.
func (s *Store) GetSession(ctx context.Context, id string) (Session, error) {
	x, _, err := s.readSession(ctx, id, nil)
	return x, err
}

// HeldSession is GetSession for a caller that takes memory before the record is read: hold is told how long the settings are, bytes,
// and nothing is read if it fails. Most of them is the environment.
func (s *Store) HeldSession(ctx context.Context, id string, hold func(settings int64) error) (Session, error) {
	x, _, err := s.readSession(ctx, id, hold)
	return x, err
}

// readSession also returns how long the settings are, bytes. hold may be nil.
func (s *Store) readSession(ctx context.Context, id string, hold func(settings int64) error) (x Session, settings int, err error) {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return Session{}, 0, job.ErrNoSession
	}
	if hold != nil {
		size, err := s.rdb.HStrLen(ctx, sessionKey(tenant, id), "settings").Result()
		if err != nil {
			return Session{}, 0, fmt.Errorf("measure session: %w", err)
		}
		if err := hold(size); err != nil {
			return Session{}, 0, err
		}
	}
	f, err := s.rdb.HGetAll(ctx, sessionKey(tenant, id)).Result()
	switch {
	case err != nil:
		return Session{}, 0, fmt.Errorf("read session: %w", err)
	case len(f) == 0:
		return Session{}, 0, job.ErrNoSession
	}
	x, err = parseSession(tenant, id, f)
	return x, len(f["settings"]), err
}

// ClaimSession makes worker the one that holds the session. It fails with job.ErrNoSession, job.ErrSessionEnded or ErrTaken.
func (s *Store) ClaimSession(ctx context.Context, id, worker string) (Session, error) {
	return s.claimSession(ctx, id, worker, false)
}

// ClaimForkable is ClaimSession by a worker that can fork the session.
func (s *Store) ClaimForkable(ctx context.Context, id, worker string) (Session, error) {
	return s.claimSession(ctx, id, worker, true)
}

func (s *Store) claimSession(ctx context.Context, id, worker string, forks bool) (Session, error) {
	tenant, ok := job.TenantOfSession(id)
	if !ok {
		return Session{}, job.ErrNoSession
	}
	answer, err := claimSessionScript.Run(ctx, s.rdb, tenant, script.Args{"id": id, "worker": worker, "forks": forks}).Slice()
	if err != nil {
		return Session{}, fmt.Errorf("claim session: %w", err)
	}
	return claimed(tenant, id, answer)
}

// claimed is what a script answers that makes a worker the one that holds a session.
func claimed(tenant, id string, answer []any) (Session, error) {
	switch answer[0] {
	case "ok":
		return parseSession(tenant, id, hash(answer[1]))
	case "missing":
		return Session{}, job.ErrNoSession
	case "ended":
		return Session{}, job.ErrSessionEnded
	case "taken":
		return Session{}, ErrTaken
	case "stale":
		return Session{}, ErrStale
	}
	return Session{}, fmt.Errorf("claim session: the script answered %v", answer[0])
}

// GiveBackSession takes a session from its worker, whose sandbox for it could not be started, so that another worker can have it. false says that it
// can't be had: it has begun, has ended, or is no longer that worker's.
func (s *Store) GiveBackSession(ctx context.Context, x Session, worker string) (bool, error) {
	word, err := giveBackScript.Run(ctx, s.rdb, x.Tenant, script.Args{"id": x.ID, "worker": worker, "due": s.now().Add(sweepDelay)}).Text()
	if err != nil {
		return false, fmt.Errorf("give session back: %w", err)
	}
	if word != "ok" {
		return false, nil
	}
	if err := s.Queue.Enqueue(ctx, queue.SessionTask(x.ID, x.Settings.Runtime, x.Settings.Placement.String())); err != nil {
		s.log.Warn("session given back, its task is left to the sweeper", "session_id", x.ID, "error", err)
	}
	return true, nil
}

// ParseSessionPosition reads a Position of this tenant's list of sessions.
func ParseSessionPosition(tenant, s string) (Position, bool) {
	millis, id, ok := strings.Cut(s, ":")
	of, isID := job.TenantOfSession(id)
	digits := strings.Trim(millis, "0123456789") == ""
	return Position(s), ok && isID && of == tenant && digits && len(millis) == millisDigits
}

// SessionPosition is where a list of sessions goes on after this one.
func SessionPosition(created time.Time, id string) Position { return position(created, id) }

// sessionsRead is how long the settings are, together, of sessions that a list reads at once, bytes; those of one alone may be longer.
const sessionsRead = 1 << 20

// ListSessions returns sessions of a tenant without their environments, newest first, and where the next page goes on: "" at the end. With states, those that
// are in one of them: a page looks at 500 at most then, so it can hold fewer than the limit, or none, and not be the last one. hold is told how long the
// settings are that are read next, bytes: those before are let go by then. Nothing more is read if it fails.
func (s *Store) ListSessions(ctx context.Context, tenant string, after Position, limit int, hold func(settings int64) error, states ...job.SessionStatus) (list []Session, next Position, err error) {
	if len(states) == 0 {
		return s.someSessions(ctx, tenant, after, limit, hold)
	}
	for looked := 0; looked < listMost; looked += listChunk {
		some, next, err := s.someSessions(ctx, tenant, after, listChunk, hold)
		if err != nil {
			return nil, "", err
		}
		for _, x := range some {
			if !slices.Contains(states, x.State) {
				continue
			}
			if list = append(list, x); len(list) == limit {
				return list, SessionPosition(x.Created, x.ID), nil
			}
		}
		if after = next; after == "" {
			break
		}
	}
	return list, after, nil
}

// someSessions returns those among so many of a tenant's list that are there.
func (s *Store) someSessions(ctx context.Context, tenant string, after Position, limit int, hold func(settings int64) error) (list []Session, next Position, err error) {
	if !job.ValidTenant(tenant) {
		return nil, "", nil
	}
	most := "+"
	if after != "" {
		most = "(" + string(after)
	}
	entries, err := s.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: sessionsKey(tenant), ByLex: true, Rev: true, Start: most, Stop: "-", Count: int64(limit)}).Result()
	if err != nil {
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	sizes, err := redisconn.Ask(ctx, s.rdb, entries, func(pipe redis.Pipeliner, e string) *redis.IntCmd {
		return pipe.HStrLen(ctx, sessionKey(tenant, Position(e).id()), "settings")
	})
	if err != nil {
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	for from := 0; from < len(entries); {
		to, size := from+1, sizes[from].Val()
		for to < len(entries) && size+sizes[to].Val() <= sessionsRead {
			size += sizes[to].Val()
			to++
		}
		if err := hold(size); err != nil {
			return nil, "", err
		}
		if list, err = s.readSessions(ctx, tenant, entries[from:to], list); err != nil {
			return nil, "", err
		}
		from = to
	}
	if len(entries) == limit {
		next = Position(entries[limit-1])
	}
	return list, next, nil
}

// readSessions adds those among the entries of a tenant's list that are there, without their environments.
func (s *Store) readSessions(ctx context.Context, tenant string, entries []string, list []Session) ([]Session, error) {
	answers, err := redisconn.Ask(ctx, s.rdb, entries, func(pipe redis.Pipeliner, e string) *redis.MapStringStringCmd {
		return pipe.HGetAll(ctx, sessionKey(tenant, Position(e).id()))
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	for i, a := range answers {
		if len(a.Val()) == 0 {
			continue // it has expired
		}
		one, err := parseSession(tenant, Position(entries[i]).id(), a.Val())
		if err != nil {
			s.unreadable.PassOver("a session", err)
			continue
		}
		one.Settings.Env = nil
		list = append(list, one)
	}
	return list, nil
}

func parseSession(tenant, id string, f map[string]string) (Session, error) {
	x := Session{
		ID: id, Tenant: tenant, State: job.SessionStatus(f["state"]), Worker: f["worker"], Execution: f["turn"],
		EndReason: f["reason"], EndedBecause: f["message"], Over: f["over"], Callback: f["callback"], ForkOf: f["fork_of"],
	}
	r := fields{of: "session " + id, f: f}
	x.Generation, x.Executions = int(r.number("generation")), r.number("executions")
	x.CPUMS, x.Attested = r.number("cpu_ms"), r.number("attested")
	x.ForkedAt, x.UntilMost = r.number("forked_at"), r.at("until_most")
	if head := f["head"]; job.IsSHA256(head) {
		x.Head = head
	}
	x.Created, x.Expires, x.Ready, x.Active, x.Finished = r.at("created"), r.at("expires"), r.at("ready"), r.at("active"), r.at("finished")
	r.fail("settings", json.Unmarshal([]byte(f["settings"]), &x.Settings))
	x.readChanges(&r)
	x.readContexts(&r)
	return x, r.err
}

// hash is what HGETALL answered in a script.
func hash(answer any) map[string]string {
	pairs, _ := answer.([]any)
	fields := make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		fields[name], _ = pairs[i+1].(string)
	}
	return fields
}
