package simulation

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/worker"
)

// bucket counts what workers ask of the bucket, and keeps nothing: a job's result is in its record, too.
type bucket struct{ puts, gets, lists atomic.Int64 }

var _ worker.Objects = (*bucket)(nil)

func (b *bucket) Upload(_ context.Context, key string, r io.Reader, _ artifacts.Options) (artifacts.Object, error) {
	b.puts.Add(1)
	n, err := io.Copy(io.Discard, r)
	return artifacts.Object{Key: key, Size: n}, err
}

func (b *bucket) PutBytes(_ context.Context, key, mediaType string, data []byte) (artifacts.Object, error) {
	b.puts.Add(1)
	return artifacts.Object{Key: key, Size: int64(len(data)), MediaType: mediaType}, nil
}

func (b *bucket) missing(key string) error {
	b.gets.Add(1)
	return fmt.Errorf("object %s: a simulated bucket keeps none", key)
}

func (b *bucket) Get(_ context.Context, key string) (io.ReadCloser, artifacts.Object, error) {
	return nil, artifacts.Object{}, b.missing(key)
}

func (b *bucket) Head(_ context.Context, key string) (artifacts.Object, error) {
	return artifacts.Object{}, b.missing(key)
}

func (b *bucket) GetBytes(_ context.Context, key string, _ int64) ([]byte, error) {
	return nil, b.missing(key)
}

func (b *bucket) Sweep(context.Context, string, func(string) bool) (artifacts.Swept, error) {
	b.lists.Add(1)
	return artifacts.Swept{}, nil
}

func (b *bucket) Ping(context.Context) error     { return nil }
func (b *bucket) TryWrite(context.Context) error { return nil }
