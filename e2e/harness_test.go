package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const bucket = "glovebox"

const patience = gbtest.Patience

// glovebox is a whole installation, on real components.
type glovebox struct {
	tb       testing.TB
	redis    *gbtest.RedisServer
	s3       *gbtest.S3Server
	podman   *gbtest.PodmanService
	api      *gbtest.Process
	worker   *gbtest.Process
	client   *producer.Client
	hook     *receiver
	url      string
	token    string
	instance string
	shared   []string // environment of api and workers, except for Redis
	dir      string
	began    time.Time
	mostWarm int // sandboxes that may wait

	addr, capabilityKey, webhookKey string
}

type options struct {
	apiEnv, workerEnv []string
	// s3Endpoint, given that of the server, returns what api and worker are told.
	s3Endpoint func(endpoint string) string
	// hookFails is how many requests the receiver answers 503 first.
	hookFails int
	noWorker  bool
	// redisHangs leaves api and worker the time-outs that they have in production.
	redisHangs bool
}

func TestMain(m *testing.M) {
	gbtest.ManyWait(0)
	os.Exit(m.Run())
}

func start(tb testing.TB, o options) *glovebox {
	tb.Helper()
	for _, component := range []string{"redis", "s3", "podman"} {
		gbtest.Require(tb, component)
	}
	g := &glovebox{
		tb: tb, redis: gbtest.Redis(tb), s3: gbtest.S3(tb), podman: gbtest.Podman(tb),
		token: rand.Text(), instance: strings.ToLower(rand.Text()), dir: tb.TempDir(), began: time.Now(),
	}
	g.redis.Hangs = o.redisHangs
	g.podman.RemoveAfter(tb, g.instance)
	g.webhookKey = hookkeys.New()
	keys, err := hookkeys.Parse(g.webhookKey)
	if err != nil {
		tb.Fatal(err)
	}
	hooks, err := keys.Pairs("default", record.Signing{Generation: 1}, time.Now())
	if err != nil {
		tb.Fatal(err)
	}
	g.hook = newReceiver(tb, hooks[0].Secret, o.hookFails)
	endpoint := g.s3.Endpoint
	if o.s3Endpoint != nil {
		endpoint = o.s3Endpoint(endpoint)
	}
	makeBucket(tb, g.s3)
	g.shared = []string{
		"GLOVEBOX_S3_ENDPOINT=" + endpoint, "GLOVEBOX_S3_REGION=" + g.s3.Region,
		"GLOVEBOX_S3_BUCKET=" + bucket, "GLOVEBOX_S3_ACCESS_KEY=" + g.s3.AccessKey, "GLOVEBOX_S3_SECRET_KEY=" + g.s3.SecretKey,
	}
	g.addr = gbtest.Addr(tb)
	g.url = "http://" + g.addr
	key := make([]byte, 32)
	rand.Read(key)
	g.capabilityKey = base64.StdEncoding.EncodeToString(key)
	g.startAPI(o.apiEnv...)
	if !o.noWorker {
		g.worker = g.startWorker(o.workerEnv...)
	}
	if g.client, err = producer.New(g.url, g.token); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { g.client.Close() })
	return g
}

// startAPI starts the api with its deliverer, always at the same address.
func (g *glovebox) startAPI(env ...string) *gbtest.Process {
	g.tb.Helper()
	g.api = gbtest.Start(g.tb, []string{binary(g.tb, "glovebox"), "api"}, g.apiEnv(g.addr, env...),
		func() bool { return status(g.tb, g.url+"/readyz") == http.StatusOK })
	return g.api
}

// apiEnv is the environment of an api at addr.
func (g *glovebox) apiEnv(addr string, env ...string) []string {
	return slices.Concat(g.shared, []string{
		"GLOVEBOX_REDIS_URL=" + g.redis.API(), "GLOVEBOX_API_ADDR=" + addr, "GLOVEBOX_PUBLIC_URL=" + g.url, "GLOVEBOX_TOKEN=" + g.token,
		"GLOVEBOX_WEBHOOK_KEY=" + g.webhookKey, "GLOVEBOX_CAPABILITY_KEY=" + g.capabilityKey,
		"GLOVEBOX_WEBHOOK_ALLOW=127.0.0.0/8:1-65535",
	}, env)
}

func (g *glovebox) startWorker(env ...string) *gbtest.Process {
	g.tb.Helper()
	return gbtest.Start(g.tb, []string{binary(g.tb, "glovebox-worker")}, g.workerEnv(env...), g.runtimesPublished)
}

func (g *glovebox) workerEnv(env ...string) []string {
	return slices.Concat(g.shared, []string{
		"GLOVEBOX_REDIS_URL=" + g.redis.Worker(), "GLOVEBOX_PODMAN_SOCKET=" + g.podman.Socket, "GLOVEBOX_AGENT=" + binary(g.tb, "glovebox-agent"),
		"GLOVEBOX_INSTANCE=" + g.instance, "GLOVEBOX_CONCURRENCY=2", "GLOVEBOX_WARM=0",
	}, env)
}

func (g *glovebox) runtimesPublished() bool {
	client, err := producer.New(g.url, g.token)
	if err != nil {
		g.tb.Fatal(err)
	}
	defer client.Close()
	list, err := client.Runtimes(g.tb.Context())
	return err == nil && len(list) > 0
}

func makeBucket(tb testing.TB, s *gbtest.S3Server) {
	tb.Helper()
	store, err := artifacts.Open(tb.Context(), artifacts.Config{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: bucket, AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: true,
	})
	if err != nil {
		tb.Fatal(err)
	}
	defer store.Close()
	if err := store.EnsureBucket(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// binary is one of ours, built for tests.
func binary(tb testing.TB, name string) string {
	tb.Helper()
	dir := os.Getenv("GLOVEBOX_TEST_BIN")
	if dir == "" {
		gbtest.Missing(tb, "podman", "GLOVEBOX_TEST_BIN names no directory of built binaries: run make test")
	}
	return filepath.Join(dir, name)
}

func status(tb testing.TB, url string) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// chart is a job with something to upload and something to print before that.
func (g *glovebox) chart() job.Spec {
	return job.Spec{
		Runtime: "bash", Source: "echo hello; for i in 1 2 3; do head -c 100000 /dev/urandom > file$i.bin; done",
		Callback: &job.Callback{URL: g.hook.url}, Limits: job.Limits{WallMS: 60_000, CPUMS: 60_000}, // how busy the machine is must not decide
	}
}

func (g *glovebox) submit(spec job.Spec) string {
	g.tb.Helper()
	j, err := g.client.Submit(g.tb.Context(), spec)
	if err != nil {
		g.tb.Fatal(err)
	}
	return j.ID
}

// wait returns the result of a job, once it has ended.
func (g *glovebox) wait(id string) job.Result {
	g.tb.Helper()
	ctx, cancel := context.WithTimeout(g.tb.Context(), patience)
	defer cancel()
	for {
		j, err := g.client.Wait(ctx, id)
		if err == nil {
			return *j.Result
		}
		if ctx.Err() != nil || errors.Is(err, job.ErrNotFound) {
			g.tb.Fatalf("no result within %s: %v", patience, err)
		}
		time.Sleep(50 * time.Millisecond) // the api is away: that is what the tests do to it
	}
}
