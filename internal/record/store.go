package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/await"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// What a transition answers when it can't be made.
var (
	ErrStale = errors.New("the job has moved on to a later epoch")
	ErrTaken = errors.New("the job is run already in this epoch")
	ErrNewer = errors.New("the job is of a newer spec version than this worker knows")
	// ErrMisplaced is for a task that came to a worker whose labels are not those that its job wants: the sweeper gives it another.
	ErrMisplaced = errors.New("the job is for workers with other labels")
)

// Config says where the records live and how long.
type Config struct {
	// URL of Redis, of one server or of Sentinels: see redisconn.Parse.
	URL string
	// Replicas is how many replicas of Redis have to have a job, its end or an attempt at a delivery before that
	// is confirmed to anybody. Defaults to 0.
	Replicas int
	// Retention is how long a job is kept after its end, at most, and unless it or its
	// tenant asks for less; the same for every process of a deployment. Defaults to 7 days.
	Retention time.Duration
	// ResultLife is how long a result that is in the bucket, too, stays in Redis.
	// Defaults to 1 hour.
	ResultLife time.Duration
	// RecordBytes is how many bytes of Redis the records of a tenant may take whose terms
	// don't say. Defaults to DefaultRecordBytes.
	RecordBytes int64
	// MaxAttempts is how often a job may lose its worker before it ends as
	// internal_error. Defaults to 3.
	MaxAttempts int
	// Prices are what jobs cost. Defaults to nil: then nothing.
	Prices *job.Prices
	// Observer is told of what the Store did. Defaults to nobody.
	Observer Observer
	// Log defaults to discarding.
	Log *slog.Logger
}

// Store is the records of all tenants. Safe for concurrent use.
type Store struct {
	// Queue has the tasks by which processes hear of records.
	Queue *queue.Client
	// Fleet is the workers, as they say.
	Fleet *fleet.Fleet

	rdb         *redis.Client
	lasting     redis.Scripter // rdb, for what replicas confirm
	replicas    int
	retention   time.Duration
	resultLife  time.Duration
	recordBytes int64
	lendMost    int64
	maxAttempts int
	prices      *job.Prices
	observer    Observer
	log         *slog.Logger
	now         func() time.Time
	keptLabels  keptCache
	tenants     tenantCache
	settings    settingsCache
	uses        tokenUses
	audit       auditBuffer
	swept       sweptTenants
	capacity    capacity
	uptime      uptime
	unreadable  redisconn.Unreadable
	group       groupCommit
}

// Open connects to Redis and checks that it answers. It fails with await.ErrSettings where
// no waiting helps. The caller closes the Store.
func Open(ctx context.Context, c Config) (*Store, error) {
	rdb, err := redisconn.Open(ctx, c.URL)
	if err != nil {
		return nil, err
	}
	s := &Store{
		rdb:     rdb,
		lasting: redisconn.Replicated(rdb, c.Replicas), replicas: c.Replicas,
		retention: c.Retention, resultLife: c.ResultLife, lendMost: lendMost, recordBytes: c.RecordBytes, maxAttempts: c.MaxAttempts, prices: c.Prices, observer: c.Observer, log: c.Log, now: time.Now,
		audit: auditBuffer{closed: make(chan struct{})},
		group: groupCommit{waiting: map[string][]*waitingJob{}},
	}
	rdb.AddHook(outage{s})
	if s.retention == 0 {
		s.retention = 7 * 24 * time.Hour
	}
	if s.resultLife == 0 {
		s.resultLife = time.Hour
	}
	if s.recordBytes == 0 {
		s.recordBytes = DefaultRecordBytes
	}
	if s.maxAttempts == 0 {
		s.maxAttempts = 3
	}
	if s.observer == nil {
		s.observer = unobserved{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.unreadable.Log = s.log
	now := func() time.Time { return s.now() }
	s.Queue = queue.New(rdb, now, s.log)
	s.Fleet = fleet.New(rdb, s.retention, now, s.log)
	return s, nil
}

// Close releases the connections.
func (s *Store) Close() error {
	s.uses.writing.Wait()
	s.audit.close()
	return s.rdb.Close()
}

// Redis is the client the store uses.
func (s *Store) Redis() redis.UniversalClient { return s.rdb }

// Ping fails when Redis can't take a write that lasts: when it is away, still
// loading, out of memory, may evict records, or misses replicas that are to confirm them.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.writes(ctx); err != nil {
		return err
	}
	if err := s.Confirm(ctx); err != nil {
		return fmt.Errorf("write to Redis: %w", redisconn.Refusal(err))
	}
	memory, err := s.rdb.InfoMap(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("read Redis's maxmemory-policy: %w", err)
	}
	if p := memory["Memory"]["maxmemory_policy"]; p != "" && p != "noeviction" {
		return fmt.Errorf("%w: the maxmemory-policy of Redis is %q, want noeviction: it may drop accepted jobs", await.ErrSettings, p)
	}
	return nil
}

// Confirm fails unless the replicas that are to have what is accepted have all that was written up to
// now. It is for what a read has found, which a try before may have written without them.
func (s *Store) Confirm(ctx context.Context) error {
	return redisconn.Confirm(ctx, s.rdb, s.replicas)
}

// writes reports whether Redis takes a write. One that is full, or has lost its disk or its
// replicas, answers reads alone: nobody's beats then count against who can't write them.
func (s *Store) writes(ctx context.Context) error {
	if err := s.rdb.Set(ctx, "gb:ping", "1", time.Minute).Err(); err != nil {
		s.uptime.stop()
		return fmt.Errorf("write to Redis: %w", redisconn.Refusal(err))
	}
	return nil
}

func ms(t time.Time) int64 { return t.UnixMilli() }
