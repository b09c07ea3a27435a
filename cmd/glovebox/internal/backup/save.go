package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/rdb"
	"github.com/glovebox-run/glovebox/internal/record"
)

// prefix is what all objects of tenants begin with. Those that are the bucket's own each api writes anew.
const prefix = "tenants/"

// Report is what a backup has.
type Report struct {
	Head    Head
	Records Count
	Objects int
	// Skipped are objects below tenants/ that are not Glovebox's, so they are not in it.
	Skipped int
	// SHA256 by which the backup is known.
	SHA256 string
}

// Save writes a backup of what the Redis at o and the bucket have: the records of one moment, and
// then the objects, none of which is deleted meanwhile that a record of that moment names.
func Save(ctx context.Context, o *redis.Options, client *redis.Client, objects *artifacts.Store, w io.Writer, version string) (r Report, err error) {
	hold, ctx, err := record.TakeHold(ctx, client)
	if err != nil {
		return r, err
	}
	defer func() {
		if cause := context.Cause(ctx); cause != nil && err != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		err = errors.Join(err, hold.Release(context.WithoutCancel(ctx)))
	}()
	server, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return r, fmt.Errorf("ask Redis for its version: %w", err)
	}
	said := server["Server"]
	r.Head = Head{Format: format, MadeAt: time.Now().UTC(), Version: version, Redis: said["redis_version"], Valkey: said["valkey_version"], DB: o.DB}
	out, err := newWriter(w, r.Head)
	if err != nil {
		return r, err
	}
	if r.Records, err = saveRedis(ctx, o, out); err != nil {
		return r, err
	}
	for key, err := range objects.List(ctx, prefix) {
		if _, _, strange := owner(key); err == nil && strange != nil {
			r.Skipped++
			continue
		}
		if err == nil {
			err = saveObject(ctx, objects, key, out)
		}
		if err != nil {
			return r, err
		}
	}
	r.Objects = out.objects
	r.SHA256, err = out.close()
	return r, err
}

// saveRedis copies the snapshot, and reads it as it does: what couldn't be restored is no backup.
func saveRedis(ctx context.Context, o *redis.Options, out *writer) (n Count, err error) {
	s, err := rdb.Fetch(ctx, o)
	if err != nil {
		return n, err
	}
	defer s.Close()
	if err := out.begin(redisName, s.Size, nil); err != nil {
		return n, err
	}
	in, pipe := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		_, err := s.WriteTo(io.MultiWriter(out.tar, pipe))
		copied <- err
		pipe.CloseWithError(err)
	}()
	err = eachKey(in, o.DB, func(rdb.Key) error { return nil }, &n)
	in.CloseWithError(errors.New("the snapshot can't be read"))
	if copyErr := <-copied; err == nil {
		err = copyErr
	}
	return n, err
}

// saveObject copies an object. One that is gone by now was no record's when the backup began.
func saveObject(ctx context.Context, objects *artifacts.Store, key string, out *writer) error {
	body, c, err := objects.OpenCopy(ctx, key)
	if errors.Is(err, artifacts.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer body.Close()
	if err := out.object(c); err != nil {
		return err
	}
	if n, err := io.Copy(out.tar, body); err != nil || n != c.Size {
		return fmt.Errorf("read object %q: %d bytes of %d: %w", key, n, c.Size, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}
