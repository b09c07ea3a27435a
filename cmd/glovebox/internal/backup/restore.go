package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/rdb"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// batchKeys and batchBytes bound what is sent to Redis at once.
	batchKeys  = 500
	batchBytes = 1 << 20
	// patience is what Redis may take for that, or for one value of any size: the time-outs of services, who have
	// small ones and go on without, would break a restore off half-way where the network is slow.
	patience = 5 * time.Minute
	// uploadEntry is what entries of garbage begin with that are uploads.
	uploadEntry = "upload:"
	// tryKey is where a restore tries whether Redis takes a value of the backup. It lapses by itself.
	tryKey = "gb:backup:try"
	tryTTL = time.Minute
)

// What keeps a restore from beginning.
var (
	// ErrNotEmpty means that there are records already.
	ErrNotEmpty = errors.New("there are records in this Redis")
	// ErrRunning means that an api or worker is connected.
	ErrRunning = errors.New("an api or worker is connected to this Redis")
	// ErrEmpty means that a backup has no records, so a restore would only delete.
	ErrEmpty = errors.New("this backup has no records")
	// ErrOlder means that Redis doesn't know the backup's values. Nothing was deleted.
	ErrOlder = errors.New("this Redis doesn't take what the backup has")
	// ErrFull means that Redis takes nothing more. Nothing was deleted.
	ErrFull = errors.New("this Redis is full (maxmemory)")
)

// Target is where a backup is restored to.
type Target struct {
	Redis   *redis.Client
	Objects *artifacts.Store
	// Replace deletes the records that are there, and objects that no record names.
	Replace bool
}

// Restored says what a restore did besides.
type Restored struct {
	// Begun means that what was there is deleted. A restore that fails then has to be done again, with Replace.
	Begun bool
	// LeftOut are objects of the backup that came after its records, so none names them.
	LeftOut int
	// Deleted are objects in the bucket that no record names.
	Deleted int
}

// Verify reads a backup to its end and says what it has. It fails with [ErrDamaged] or [ErrEmpty].
func Verify(r io.Reader) (Report, error) {
	var report Report
	var err error
	v := visitor{
		redis: func(h Head, r io.Reader) error {
			return eachKey(r, h.DB, func(rdb.Key) error { return nil }, &report.Records)
		},
		object: func(c artifacts.Copy, _ io.Reader) error { _, _, err := owner(c.Key); return err },
	}
	report.Head, report.Objects, report.SHA256, err = read(r, v)
	if err == nil && report.Records.Keys == 0 {
		err = ErrEmpty
	}
	return report, err
}

// Restore puts a backup in place. It was verified: file is read from its begin once more, and has to be the one
// of that SHA-256. The records come into the database of t, whichever they were in. Nobody may connect meanwhile who works with what is there: it is looked for again
// once what was there is deleted, and at the end, and found is ErrRunning.
func Restore(ctx context.Context, file io.Reader, sum string, t Target) (done Restored, err error) {
	t.Redis = t.Redis.WithTimeout(patience)
	if err := t.mayBegin(ctx); err != nil {
		return done, err
	}
	defer func() {
		if !done.Begun || ctx.Err() != nil || errors.Is(err, ErrRunning) {
			return
		}
		if running := t.alone(ctx); running != nil && err != nil {
			err = fmt.Errorf("%w; %w", running, err) // the one may be why the other is
		} else if running != nil {
			err = running
		}
	}()
	var n Count
	_, _, got, err := read(file, visitor{
		redis: func(h Head, r io.Reader) error { return t.putRecords(ctx, r, h.DB, &n, &done) },
		object: func(c artifacts.Copy, r io.Reader) error {
			known, err := t.known(ctx, c.Key)
			if err != nil || !known {
				done.LeftOut++
				return err
			}
			return t.Objects.PutCopy(ctx, c, r)
		},
	})
	if err != nil {
		return done, err
	}
	if got != sum {
		return done, fmt.Errorf("%w: it changed while it was read", ErrDamaged)
	}
	if t.Replace {
		if err := t.alone(ctx); err != nil { // what it stores now the records don't know
			return done, err
		}
		done.Deleted, err = t.deleteUnknown(ctx)
	}
	return done, err
}

// mayBegin looks at what is there.
func (t Target) mayBegin(ctx context.Context) error {
	if err := t.alone(ctx); err != nil {
		return err
	}
	if t.Replace {
		return nil
	}
	return t.eachPage(ctx, func([]string) error { return ErrNotEmpty })
}

// alone fails with ErrRunning, which says who, where an api or worker is connected.
func (t Target) alone(ctx context.Context) error {
	list, err := t.Redis.ClientList(ctx).Result()
	if err != nil {
		return fmt.Errorf("ask Redis who is connected: %w", err)
	}
	for line := range strings.Lines(list) {
		if isService(line) {
			c := client(line)
			return fmt.Errorf("%w: a client at %q, of the user %q, with the command %q", ErrRunning, c["addr"], c["user"], c["cmd"])
		}
	}
	// A Sentinel's connection hears of servers alone; one that bears the name of such, and hears of jobs, is none.
	for _, pattern := range []string{"gb:*", "asynq:*"} {
		channels, err := t.Redis.PubSubChannels(ctx, pattern).Result()
		if err != nil {
			return fmt.Errorf("ask Redis who is connected: %w", err)
		}
		if len(channels) > 0 {
			return fmt.Errorf("%w: it listens to the channel %q", ErrRunning, channels[0])
		}
	}
	return nil
}

// client is what a line of CLIENT LIST says.
func client(line string) map[string]string {
	said := map[string]string{}
	for field := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(field, "=")
		said[name] = value
	}
	return said
}

// serviceCommands are what apis and workers wait for work with, and take it by. A person who looks
// around sends others.
var serviceCommands = []string{"blpop", "brpop", "subscribe", "psubscribe", "evalsha"}

// isService reports whether a line of CLIENT LIST is an api or a worker: by the name of its user, or,
// where all have one user, by what it asked for last.
func isService(line string) bool {
	c := client(line)
	if c["user"] == "glovebox-api" || strings.HasPrefix(c["user"], "glovebox-worker") {
		return true
	}
	return slices.Contains(serviceCommands, c["cmd"]) && !isSentinel(c)
}

// isSentinel reports whether a client is the connection by which a Sentinel hears of the others: each keeps one to
// every server that it watches.
func isSentinel(c map[string]string) bool {
	return c["cmd"] == "subscribe" && strings.HasPrefix(c["name"], "sentinel-") && strings.HasSuffix(c["name"], "-pubsub")
}

// eachPage does something with the keys of Glovebox that are there, many at a time.
func (t Target) eachPage(ctx context.Context, do func(keys []string) error) error {
	for _, pattern := range []string{"gb:*", "asynq:*"} {
		for cursor := uint64(0); ; {
			keys, next, err := t.Redis.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return fmt.Errorf("look for what is there: %w", err)
			}
			if len(keys) > 0 {
				if err := do(keys); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// clear deletes the records that are there, once Redis has taken a value of the backup: an older one
// takes none.
func (t Target) clear(ctx context.Context, dump []byte, done *Restored) error {
	err := t.Redis.RestoreReplace(ctx, tryKey, tryTTL, string(dump)).Err()
	switch {
	case redis.HasErrorPrefix(err, "Bad data format"), redis.HasErrorPrefix(err, "DUMP payload version"):
		return fmt.Errorf("%w: %w", ErrOlder, err)
	case redis.HasErrorPrefix(err, "OOM"):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case err != nil:
		return fmt.Errorf("try whether Redis takes a value of the backup: %w", err)
	}
	done.Begun = true
	err = t.eachPage(ctx, func(keys []string) error { return t.Redis.Unlink(ctx, keys...).Err() })
	if err != nil {
		return fmt.Errorf("delete what is there: %w", err)
	}
	return t.alone(ctx)
}

func (t Target) putRecords(ctx context.Context, r io.Reader, db int, n *Count, done *Restored) error {
	cleared := false
	pipe := t.Redis.Pipeline()
	bytes := 0
	send := func() error {
		_, err := pipe.Exec(ctx)
		bytes = 0
		if err != nil {
			return fmt.Errorf("put records back: %w", err)
		}
		return nil
	}
	err := eachKey(r, db, func(k rdb.Key) error {
		if !cleared { // the first value shows what Redis takes: all are of one version
			if err := t.clear(ctx, k.Dump, done); err != nil {
				return err
			}
			cleared = true
		}
		args := []any{"RESTORE", k.Name, 0, string(k.Dump)}
		if !k.Expires.IsZero() {
			if !k.Expires.After(time.Now()) {
				return nil
			}
			args = []any{"RESTORE", k.Name, k.Expires.UnixMilli(), string(k.Dump), "ABSTTL"}
		}
		pipe.Do(ctx, args...)
		if bytes += len(k.Dump); pipe.Len() < batchKeys && bytes < batchBytes {
			return nil
		}
		return send()
	}, n)
	if err != nil || pipe.Len() == 0 {
		return err
	}
	return send()
}

// owner is whose an object is, as the tenant's garbage lists it: a job's id, or an upload. It fails
// with ErrDamaged for what is no object of Glovebox's.
func owner(key string) (tenant, entry string, err error) {
	rest, ok := strings.CutPrefix(key, prefix)
	tenant, rest, found := strings.Cut(rest, "/")
	kind, rest, more := strings.Cut(rest, "/")
	if len(key) > maxKey || !ok || !found || !more || !job.ValidTenant(tenant) {
		return "", "", fmt.Errorf("%w: %.200q is no object of a tenant's", ErrDamaged, key)
	}
	switch kind {
	case "jobs":
		id, name, _ := strings.Cut(rest, "/")
		if _, err := artifacts.JobKeys(tenant, id); err == nil && name != "" && !strings.HasSuffix(name, "/") { // no folder's marker
			return tenant, id, nil
		}
	case "inputs":
		if _, err := artifacts.UploadKey(tenant, rest); err == nil {
			return tenant, uploadEntry + rest, nil
		}
	}
	return "", "", fmt.Errorf("%w: %.200q is no object of a job's, nor an upload", ErrDamaged, key)
}

// known reports whether the records know whose an object is: what they don't know nobody would ever delete.
func (t Target) known(ctx context.Context, key string) (bool, error) {
	tenant, entry, err := owner(key)
	if err != nil {
		return false, err
	}
	pipe := t.Redis.Pipeline()
	there := pipe.Exists(ctx, "gb:{"+tenant+"}:job:"+entry, "gb:{"+tenant+"}:session:"+entry)
	garbage := pipe.ZScore(ctx, "gb:{"+tenant+"}:garbage", entry)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("ask whose object %q is: %w", key, err)
	}
	return there.Val() > 0 || garbage.Err() == nil, nil
}

// deleteUnknown deletes what is in the bucket of jobs and uploads that the records don't know.
func (t Target) deleteUnknown(ctx context.Context) (int, error) {
	var errs []error
	swept, err := t.Objects.Sweep(ctx, prefix, func(key string) bool {
		known, err := t.known(ctx, key)
		if err != nil && !errors.Is(err, ErrDamaged) { // not Glovebox's: it stays
			errs = append(errs, err)
		}
		return known || err != nil
	})
	return swept.Objects, errors.Join(append(errs, err)...)
}
