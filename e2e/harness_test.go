package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/webhook"
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

// objects lists the keys in the bucket, unfinished uploads included.
func (g *glovebox) objects() []string {
	g.tb.Helper()
	var keys []string
	root := filepath.Join(g.s3.Dir, bucket)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it is being swept
		}
		if err != nil {
			return err
		}
		key, err := filepath.Rel(root, path)
		// An unfinished upload is a directory, be there parts in it or not.
		upload := d.IsDir() && strings.HasPrefix(key, ".sgwtmp/multipart/") && strings.Count(key, "/") == 3
		if (!d.IsDir() || upload) && key != "glovebox-private" { // EnsureBucket's own
			keys = append(keys, key)
		}
		return err
	})
	if err != nil {
		g.tb.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// containers lists what this installation has in Podman, except for warm sandboxes and the
// containers that wait for another, as long as there are no more of them than may be.
func (g *glovebox) containers() []string {
	g.tb.Helper()
	var names, warm, spare []string
	for _, c := range g.ours() {
		switch {
		case c.Labels["run.glovebox.job"] != "warm":
			names = append(names, c.Names...)
		case c.ended():
			spare = append(spare, c.Names...)
		default:
			warm = append(warm, c.Names...)
		}
	}
	if len(warm) > g.mostWarm {
		names = append(names, warm...)
	}
	if len(spare) > 2*g.mostWarm {
		names = append(names, spare...)
	}
	return names
}

// alive lists those that have a sandbox.
func (g *glovebox) alive() []container {
	return slices.DeleteFunc(g.ours(), container.ended)
}

// ours lists all that this installation has in Podman.
func (g *glovebox) ours() []container {
	return g.inPodman("&filters=" + escape(fmt.Sprintf(`{"label":["run.glovebox.instance=%s"]}`, g.instance)))
}

type container struct {
	ID     string `json:"Id"`
	Names  []string
	State  string
	Labels map[string]string
}

// ended reports whether its sandbox has: Podman calls it stopped until it has cleaned up.
func (c container) ended() bool { return c.State == "stopped" || c.State == "exited" }

// inPodman lists the containers of the Podman user, those of other tests too.
func (g *glovebox) inPodman(query string) []container {
	g.tb.Helper()
	client := &http.Client{Transport: unixTransport(g.podman.Socket)}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(g.tb.Context(), http.MethodGet, "http://podman/v4.0.0/libpod/containers/json?all=true"+query, http.NoBody)
	if err != nil {
		g.tb.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		g.tb.Fatal(err)
	}
	defer res.Body.Close()
	var list []container
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		g.tb.Fatal(err)
	}
	return list
}

// nothingLeft waits until Podman has no container of ours and S3 nothing but the
// winner's objects of these jobs.
func (g *glovebox) nothingLeft(results ...job.Result) {
	g.tb.Helper()
	want := map[string]bool{}
	for _, r := range results {
		for _, a := range r.Artifacts {
			want[a.Name] = true
		}
	}
	var problem string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		problem = ""
		if c := g.containers(); len(c) > 0 {
			problem = fmt.Sprintf("containers are left: %v", c)
			continue
		}
		epochs := map[string]bool{}
		for _, key := range g.objects() {
			parts := strings.Split(key, "/") // tenants/default/jobs/<id>/<epoch>/…
			if len(parts) < 6 || parts[0] != "tenants" {
				problem += fmt.Sprintf("an object that no record points to: %s\n", key)
				continue
			}
			epochs[parts[3]+"/"+parts[4]] = true
			if name := parts[len(parts)-1]; name != "result.json" && parts[5] != "artifacts" {
				problem += fmt.Sprintf("an object that no record points to: %s\n", key)
			}
		}
		if len(epochs) != len(results) {
			problem += fmt.Sprintf("objects of epochs %v for %d results\n", epochs, len(results))
		}
		if problem == "" {
			return
		}
	}
	g.tb.Error(problem)
}

// receiver is a webhook endpoint that verifies what it gets.
type receiver struct {
	url string

	mu      sync.Mutex
	secrets []webhook.Verifier
	fails   int
	got     []message
	calls   int
	came    chan struct{}
}

type message struct {
	ID          string
	Result      job.Result // of a job, or
	Batch       job.Batch
	Run         job.Run
	Session     job.Session
	At          time.Time
	Traceparent string
}

func newReceiver(tb testing.TB, secret webhook.Secret, fails int) *receiver {
	tb.Helper()
	r := &receiver{secrets: []webhook.Verifier{secret}, fails: fails, came: make(chan struct{}, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
		if err != nil {
			tb.Errorf("receive: %v", err)
		}
		r.mu.Lock()
		secrets := r.secrets
		r.mu.Unlock()
		if err := webhook.Verify(req.Header, body, secrets, 5*time.Minute, time.Now()); err != nil {
			tb.Errorf("a message came that does not verify: %v", err)
		}
		var event struct {
			Type string
			Data json.RawMessage
		}
		m := message{ID: req.Header.Get("webhook-id"), Traceparent: req.Header.Get("Traceparent"), At: time.Now()}
		err = json.Unmarshal(body, &event)
		switch {
		case err == nil && event.Type == job.EventCompleted:
			err = json.Unmarshal(event.Data, &m.Result)
		case err == nil && event.Type == job.EventBatchCompleted:
			err = json.Unmarshal(event.Data, &m.Batch)
		case err == nil && event.Type == job.EventPipelineCompleted:
			err = json.Unmarshal(event.Data, &m.Run)
		case err == nil && event.Type == job.EventSessionEnded:
			err = json.Unmarshal(event.Data, &m.Session)
		case err == nil:
			err = errors.New("it is neither of a job nor of a batch nor of a run nor of a session")
		}
		if err != nil {
			tb.Errorf("a message came that can't be read: %v: %s", err, body)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls++
		r.got = append(r.got, m)
		if r.calls <= r.fails {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		select {
		case r.came <- struct{}{}:
		default: // whoever waits has plenty to look at
		}
	}))
	tb.Cleanup(server.Close)
	r.url = server.URL + "/hook"
	return r
}

// trust has the receiver take messages that are signed with an endpoint's secret, too.
func (r *receiver) trust(tb testing.TB, secret string) {
	tb.Helper()
	s, err := webhook.ParseSecret(secret)
	if err != nil {
		tb.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, s)
}

// messages waits for n calls, and returns all that came.
func (r *receiver) messages(tb testing.TB, n int, within time.Duration) []message {
	tb.Helper()
	timeout := time.After(within)
	for {
		r.mu.Lock()
		got := slices.Clone(r.got)
		r.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-r.came:
		case <-timeout:
			tb.Fatalf("%d messages came within %s, want %d", len(got), within, n)
		}
	}
}

// of waits for the first message of a job's, and returns all that came.
func (r *receiver) of(tb testing.TB, id string) (all []message) {
	tb.Helper()
	for n := 1; ; n++ {
		all = slices.DeleteFunc(r.messages(tb, n, patience), func(m message) bool { return m.Result.ID != id })
		if len(all) > 0 {
			return all
		}
	}
}

// file returns the path of a fail point's file, which api and worker can make.
func (g *glovebox) file(name string) string { return filepath.Join(g.dir, name) }

// reached waits until a process has come to its fail point.
func (g *glovebox) reached(name string) {
	g.tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(g.file(name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			g.tb.Fatalf("nobody reached fail point %s within %s", name, patience)
		}
	}
}

// goOn lets processes go on that paused at these fail points.
func (g *glovebox) goOn(names ...string) {
	g.tb.Helper()
	for _, name := range names {
		if err := os.Remove(g.file(name)); err != nil {
			g.tb.Fatal(err)
		}
	}
}

// goOnWithout kills what can come back, lets processes go on that paused, so that they meet it away, and brings it back.
func (g *glovebox) goOnWithout(away killer, names ...string) {
	g.tb.Helper()
	away.Kill()
	g.goOn(names...)
	time.Sleep(500 * time.Millisecond)
	away.Restart()
}

func (g *glovebox) failpoint(action, name string) string {
	return "GLOVEBOX_FAILPOINT=" + action + ":" + name + ":" + g.file(name)
}

// diesByItself waits until a process has killed itself at its fail point.
func diesByItself(tb testing.TB, p *gbtest.Process) {
	tb.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		tb.Fatalf("the process did not die; its output:\n%s", p.Output())
	}
}
