// Package producertest gives tests of producers what stands behind them: a real
// Redis, a real S3 server, and a worker that a test plays by hand.
package producertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// BaseURL is what links in results start with.
const BaseURL = "https://glovebox.example"

// TokenKey signs the links of every Env.
func TokenKey() artifacts.TokenKey {
	return artifacts.TokenKey{ID: "1", Secret: bytes.Repeat([]byte{7}, 32)}
}

// Env is everything that a producer needs but a worker.
type Env struct {
	Redis   *gbtest.RedisServer
	S3      *gbtest.S3Server
	S3Spec  artifacts.Config
	Records *record.Store // as the api has them
	Worker  *record.Store // as a worker has them
	Raw     *redis.Client // for tests that look at keys, or play with them
	Objects *artifacts.Store
	Links   *direct.Links
	// WebhookKeys are the operator's.
	WebhookKeys *hookkeys.Keys
	// Client is of tenant "default".
	Client *direct.Client
}

// New starts an Env that ends with the test. base is what links start with,
// BaseURL if it is "".
func New(tb testing.TB, base string) *Env {
	tb.Helper()
	return on(tb, base, gbtest.Redis(tb))
}

// NewHanging starts an Env as New does, for tests that let its Redis hang: calls have the time-outs of production.
func NewHanging(tb testing.TB, base string) *Env {
	tb.Helper()
	server := gbtest.Redis(tb)
	server.Hangs = true
	return on(tb, base, server)
}

func on(tb testing.TB, base string, server *gbtest.RedisServer) *Env {
	tb.Helper()
	w := &Env{Redis: server, S3: gbtest.S3(tb)}
	w.S3Spec = artifacts.Config{
		Endpoint: w.S3.Endpoint, Region: w.S3.Region, Bucket: "glovebox",
		AccessKey: w.S3.AccessKey, SecretKey: w.S3.SecretKey, PathStyle: true,
	}
	var err error
	must := func() {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.Records, err = record.Open(tb.Context(), record.Config{URL: w.Redis.API(), Log: log})
	must()
	tb.Cleanup(func() { w.Records.Close() })
	w.Worker, err = record.Open(tb.Context(), record.Config{URL: w.Redis.Worker(), Log: log})
	must()
	tb.Cleanup(func() { w.Worker.Close() })
	raw, err := redis.ParseURL(w.Redis.URL())
	must()
	w.Raw = redis.NewClient(raw)
	tb.Cleanup(func() { w.Raw.Close() })
	w.Objects, err = artifacts.Open(tb.Context(), w.S3Spec)
	must()
	tb.Cleanup(w.Objects.Close)
	err = w.Objects.EnsureBucket(tb.Context())
	must()
	tokens, err2 := artifacts.NewTokens(TokenKey())
	err = err2
	must()
	if base == "" {
		base = BaseURL
	}
	w.Links, err = direct.NewLinks(base, tokens)
	must()
	w.WebhookKeys, err = hookkeys.Parse(hookkeys.New())
	must()
	w.Client, err = direct.New(direct.Config{Links: w.Links, WebhookKeys: w.WebhookKeys, Log: log}, w.Records, w.Objects)
	must()
	tb.Cleanup(func() {
		if err := w.Client.Close(); err != nil {
			tb.Errorf("close client: %v", err)
		}
	})
	return w
}

// Runtimes publishes python and bash, as a worker would.
func (w *Env) Runtimes(tb testing.TB) {
	tb.Helper()
	err := w.Worker.Fleet.PublishRuntimes(tb.Context(), []fleet.Runtime{
		{Name: "python", Version: "3.13", Aliases: []string{"python3"}, File: "main.py", Image: "glovebox/python", ImageDigest: "sha256:00", Limits: job.DefaultLimits, Sessions: true, Languages: []string{"python", "javascript"}},
		{Name: "bash", Version: "5.2", File: "main.sh", Image: "glovebox/bash", ImageDigest: "sha256:01", Limits: job.DefaultLimits},
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// Secrets publishes a key for secrets, as a worker would, and returns it.
func (w *Env) Secrets(tb testing.TB) *secrets.Keys {
	tb.Helper()
	keys, err := secrets.ParseKeys(secrets.NewKey())
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.Worker.Fleet.PublishSecretsKey(tb.Context(), keys.Public()); err != nil {
		tb.Fatal(err)
	}
	return keys
}

// Image is one that [Env.Images] publishes.
const Image = "registry.example.com/team/tool@sha256:00000000000000000000000000000000000000000000000000000000000000aa"

// Images publishes an image that jobs may bring, as a worker would.
func (w *Env) Images(tb testing.TB) {
	tb.Helper()
	if err := w.Worker.Fleet.PublishImages(tb.Context(), []string{Image}); err != nil {
		tb.Fatal(err)
	}
}

// Start takes the job in its first epoch, as a worker would.
func (w *Env) Start(tb testing.TB, id string) record.Record {
	tb.Helper()
	j, err := w.Worker.Start(tb.Context(), id, 1, "worker-1")
	if err != nil {
		tb.Fatalf("start job: %v", err)
	}
	return j
}

// End ends a started job as a worker would: with a result in the bucket, its long
// outputs and its artifacts. change may be nil.
func (w *Env) End(tb testing.TB, j record.Record, files map[string]string, change func(*job.Result)) job.Result {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context()) // who waits for the result has it before this worker is answered, and may end the test
	now := time.Now().UTC().Truncate(time.Millisecond)
	zero := 0
	r := job.Result{
		ID: j.ID, Status: job.Succeeded, ExitCode: &zero, Stdout: "hello\n", Artifacts: []job.Artifact{},
		Runtime: job.Runtime{Name: j.Runtime},
		Timing:  job.Timing{CreatedAt: j.Created, StartedAt: &j.Started, FinishedAt: &now},
		Problem: j.Problem, Metadata: j.Metadata, Attempt: j.Attempts, Worker: "worker-1",
	}
	keys, err := artifacts.JobKeys(j.Tenant, j.ID)
	if err != nil {
		tb.Fatal(err)
	}
	for name, content := range files {
		o, err := w.Objects.Upload(ctx, keys.Artifact(int64(j.Epoch), name), bytes.NewReader([]byte(content)), artifacts.Options{Limit: 1 << 20, Name: name})
		if err != nil {
			tb.Fatal(err)
		}
		r.Artifacts = append(r.Artifacts, job.Artifact{
			Name: name, Size: o.Size, MediaType: o.MediaType, SHA256: o.SHA256, Kind: o.Kind, URL: producer.ArtifactPath(name),
		})
	}
	if change != nil {
		change(&r)
	}
	b, err := json.Marshal(r)
	if err != nil {
		tb.Fatal(err)
	}
	e := record.Ending{Status: r.Status, ResultRef: keys.Result(int64(j.Epoch)), Stored: int64(len(b))}
	for _, a := range r.Artifacts {
		e.Stored += a.Size
	}
	if _, err := w.Objects.PutBytes(ctx, e.ResultRef, "application/json", b); err != nil {
		tb.Fatal(err)
	}
	if j.Problem != "" && j.Spec != nil {
		submission, err := job.Marshal(j.Spec.Submission())
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Objects.PutBytes(ctx, keys.Submission(int64(j.Epoch)), "application/json", submission); err != nil {
			tb.Fatal(err)
		}
		e.Stored += int64(len(submission))
	}
	if len(b) <= record.MaxInline {
		e.Result = b
	}
	if err := w.Worker.End(ctx, j, e); err != nil {
		tb.Fatalf("end job: %v", err)
	}
	return r
}

// Printed ends a job that waits, and that has printed this to each of the streams, which the bucket has.
func (w *Env) Printed(tb testing.TB, id string, output []byte, streams ...string) job.Result {
	tb.Helper()
	j := w.Start(tb, id)
	keys, err := artifacts.JobKeys(j.Tenant, id)
	if err != nil {
		tb.Fatal(err)
	}
	stored := map[string]string{producer.Stdout: keys.Stdout(int64(j.Epoch)), producer.Stderr: keys.Stderr(int64(j.Epoch))}
	for _, stream := range streams {
		if _, err := w.Objects.PutBytes(tb.Context(), stored[stream], "text/plain", output); err != nil {
			tb.Fatal(err)
		}
	}
	return w.End(tb, j, nil, func(r *job.Result) {
		r.Stdout = ""
		for _, stream := range streams {
			if stream == producer.Stdout {
				r.StdoutURL = stream
			} else {
				r.StderrURL = stream
			}
		}
	})
}

// ClientAt is a client of the same records whose bucket is at another endpoint: a proxy to it, or nothing.
func (w *Env) ClientAt(tb testing.TB, endpoint string) *direct.Client {
	tb.Helper()
	spec := w.S3Spec
	spec.Endpoint = endpoint
	objects, err := artifacts.Open(tb.Context(), spec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(objects.Close)
	client, err := direct.New(direct.Config{Links: w.Links, WebhookKeys: w.WebhookKeys}, w.Records, objects)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { client.Close() })
	return client
}

// Kept are the objects in the bucket whose keys start with prefix, and their sizes.
func (w *Env) Kept(tb testing.TB, prefix string) map[string]int64 {
	tb.Helper()
	root := filepath.Join(w.S3.Dir, w.S3Spec.Bucket)
	found := map[string]int64{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		key, err := filepath.Rel(root, path)
		if err == nil && strings.HasPrefix(key, prefix) {
			found[key] = info.Size()
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return found
}
