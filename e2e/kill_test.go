package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// steps of a job inside the worker.
var workerSteps = []string{
	failpoint.BeforeStart, failpoint.Running, failpoint.Uploading, failpoint.ResultWritten, failpoint.RecordEnded,
}

// proveOnce checks what holds after anything was killed: one stored result, one
// message id, nothing left over.
func (g *glovebox) proveOnce(id string) job.Result {
	g.tb.Helper()
	return g.proveEach(id)[0]
}

// proveEach is proveOnce for all jobs that there were.
func (g *glovebox) proveEach(ids ...string) (results []job.Result) {
	g.tb.Helper()
	for _, id := range ids {
		r := g.wait(id)
		if r.Status != job.Succeeded || r.Stdout != "hello\n" || len(r.Artifacts) != 3 {
			g.tb.Errorf("got %s, stdout %q, %d artifacts; error %v", r.Status, r.Stdout, len(r.Artifacts), r.Error)
		}
		results = append(results, r)
	}
	for _, r := range results {
		messages := g.hook.of(g.tb, r.ID)
		for _, m := range messages {
			if m.ID != messages[0].ID {
				g.tb.Errorf("job %s was told of under two ids: %s, %s", r.ID, messages[0].ID, m.ID)
			}
			if m.Result.Attempt != r.Attempt || m.Result.Worker != r.Worker {
				g.tb.Errorf("the webhook got the result of attempt %d by %s, the api says %d by %s", m.Result.Attempt, m.Result.Worker, r.Attempt, r.Worker)
			}
		}
	}
	g.nothingLeft(results...)
	for _, r := range results {
		if again := g.wait(r.ID); again.Attempt != r.Attempt || again.Worker != r.Worker || !again.Timing.FinishedAt.Equal(*r.Timing.FinishedAt) {
			g.tb.Errorf("the result changed: attempt %d by %s, then %d by %s", r.Attempt, r.Worker, again.Attempt, again.Worker)
		}
	}
	return results
}

// atEachStep starts a worker for each step, with one place, that is killed or pauses at it, and gives each a job to come to it with.
func (g *glovebox) atEachStep(action string, steps []string, env ...string) (workers []*gbtest.Process, ids []string) {
	g.tb.Helper()
	for _, step := range steps {
		workers = append(workers, g.startWorker(append([]string{"GLOVEBOX_CONCURRENCY=1", g.failpoint(action, step)}, env...)...))
	}
	for range steps {
		ids = append(ids, g.submit(g.chart()))
	}
	for i, step := range steps {
		if action == "kill" {
			diesByItself(g.tb, workers[i])
		} else {
			g.reached(step)
		}
	}
	return workers, ids
}

func TestKillWorker(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	_, ids := g.atEachStep("kill", workerSteps)
	g.startWorker()
	g.proveEach(ids...)
}

// TestKillWorkerThatReleases: the worker dies when the end of a job has released the next
// one, which has no task yet.
func TestKillWorkerThatReleases(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	doomed := g.startWorker(g.failpoint("kill", failpoint.Released))
	var ids []string
	for range 8 { // more than twice its two slots
		ids = append(ids, g.submit(job.Spec{Runtime: "bash", Source: "echo hello"}))
	}
	diesByItself(t, doomed)
	g.startWorker()
	for _, id := range ids {
		if r := g.wait(id); r.Status != job.Succeeded || r.Stdout != "hello\n" {
			t.Errorf("got %+v", r)
		}
	}
}

func TestKillAPI(t *testing.T) {
	t.Parallel()
	t.Run("record created, client not told", func(t *testing.T) {
		t.Parallel()
		g := start(t, options{noWorker: true})
		g.startWorker()
		g.api.Kill()
		doomed := g.startAPI(g.failpoint("kill", failpoint.RecordCreated))
		if j, err := g.client.Submit(t.Context(), g.chart()); err == nil {
			t.Fatalf("the api answered though it died: %+v", j)
		}
		diesByItself(t, doomed)
		g.startAPI()
		m := g.hook.messages(t, 1, patience)[0] // accepted it was, so it runs
		g.proveOnce(m.Result.ID)
	})
	t.Run("record created, no task, client tries again", func(t *testing.T) {
		t.Parallel()
		g := start(t, options{noWorker: true})
		g.startWorker()
		g.api.Kill()
		doomed := g.startAPI(g.failpoint("kill", failpoint.Released))
		spec := g.chart()
		spec.IdempotencyKey = "once"
		submitted := make(chan producer.Job, 1)
		go func() {
			j, err := g.client.Submit(t.Context(), spec) // which bears with an api that is away
			if err != nil {
				t.Errorf("submit: %v", err)
			}
			submitted <- j
		}()
		diesByItself(t, doomed)
		g.startAPI()
		if r := g.proveOnce((<-submitted).ID); r.Attempt != 1 {
			t.Errorf("got attempt %d, want one", r.Attempt)
		}
		if page, err := g.client.List(t.Context(), producer.ListOptions{}); err != nil || len(page.Jobs) != 1 {
			t.Errorf("got %d jobs, %v, want one", len(page.Jobs), err)
		}
	})
	t.Run("delivery sent, not recorded", func(t *testing.T) {
		t.Parallel()
		g := start(t, options{noWorker: true})
		g.startWorker()
		g.api.Kill()
		doomed := g.startAPI(g.failpoint("kill", failpoint.DeliverySent))
		id := g.submit(g.chart())
		diesByItself(t, doomed)
		g.startAPI()
		messages := g.hook.messages(t, 2, patience)
		if messages[0].ID != messages[1].ID {
			t.Errorf("the same delivery came under two ids: %s, %s", messages[0].ID, messages[1].ID)
		}
		g.proveOnce(id)
	})
	t.Run("at each step of a worker", func(t *testing.T) {
		t.Parallel()
		g := start(t, options{noWorker: true})
		_, ids := g.atEachStep("pause", workerSteps)
		g.api.Kill()
		g.goOn(workerSteps...)
		g.api.Restart()
		for _, r := range g.proveEach(ids...) {
			if r.Attempt != 1 {
				t.Errorf("got attempt %d: the code ran again though only the api died", r.Attempt)
			}
		}
	})
}

func TestRestartRedis(t *testing.T) {
	t.Parallel()
	t.Run("at each step of a worker", func(t *testing.T) {
		t.Parallel()
		g := start(t, options{noWorker: true})
		_, ids := g.atEachStep("pause", workerSteps)
		g.goOnWithout(g.redis, workerSteps...)
		g.proveEach(ids...)
	})
	t.Run(failpoint.DeliverySent, func(t *testing.T) {
		t.Parallel()
		g := start(t, options{noWorker: true})
		g.startWorker()
		g.api.Kill()
		g.startAPI(g.failpoint("pause", failpoint.DeliverySent))
		id := g.submit(g.chart())
		g.reached(failpoint.DeliverySent)
		g.goOnWithout(g.redis, failpoint.DeliverySent)
		g.proveOnce(id)
	})
}

func TestKillPodman(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	g.startWorker(g.failpoint("pause", failpoint.Running))
	id := g.submit(g.chart())
	g.reached(failpoint.Running)
	g.goOnWithout(g.podman, failpoint.Running)
	g.proveOnce(id)
}

func TestDeadEndpointNeverRunsTheCodeAgain(t *testing.T) {
	t.Parallel()
	g := start(t, options{hookFails: 3, apiEnv: []string{"GLOVEBOX_WEBHOOK_SCHEDULE=0s,300ms,600ms,1200ms,2400ms"}})
	id := g.submit(g.chart())
	messages := g.hook.messages(t, 4, patience)
	r := g.proveOnce(id)
	if r.Attempt != 1 {
		t.Errorf("the code ran %d times", r.Attempt)
	}
	for i, least := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 1200 * time.Millisecond} {
		if got := messages[i+1].At.Sub(messages[i].At); got < least*9/10 { // jitter only adds
			t.Errorf("attempt %d came %s after the one before, want %s or more", i+2, got, least)
		}
	}
	time.Sleep(3 * time.Second)
	if n := len(g.hook.messages(t, 4, 0)); n != 4 {
		t.Errorf("%d messages came, want no more after the one that was accepted", n)
	}
}

func TestNoSecretInAnyLog(t *testing.T) {
	t.Parallel()
	api, worker := gbtest.Addr(t), gbtest.Addr(t)
	g := start(t, options{apiEnv: []string{"GLOVEBOX_METRICS_ADDR=" + api}, workerEnv: []string{"GLOVEBOX_METRICS_ADDR=" + worker}})
	spec := g.chart()
	spec.Source += "\n# top-secret-source"
	spec.Env = map[string]string{"PASSWORD": "top-secret-env"}
	g.proveOnce(g.submit(spec))
	// An endpoint that can't be reached, whose URL is its secret.
	closed := gbtest.Addr(t)
	failing := g.chart()
	failing.Callback = &job.Callback{URL: "http://" + closed + "/top-secret-path?key=top-secret-query"}
	g.submit(failing)
	for deadline := time.Now().Add(patience); !strings.Contains(g.api.Output(), "endpoint="+closed); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no attempt at the endpoint that fails is logged:\n%s", g.api.Output())
		}
	}
	logs := map[string]string{"log of the api": g.api.Output(), "log of the worker": g.worker.Output()}
	for name, out := range logs {
		if !strings.Contains(out, "job_id=default-") || !strings.Contains(out, "tenant=default") {
			t.Errorf("no line of the %s names the job and its tenant:\n%s", name, out)
		}
	}
	for name, addr := range map[string]string{"api": api, "worker": worker} {
		metrics := get(t, "http://"+addr+"/metrics")
		if !strings.Contains(metrics, "\nglovebox_redis_call_seconds_count ") {
			t.Errorf("metrics of the %s: got %.200s", name, metrics)
		}
		if strings.Contains(metrics, "default") || strings.Contains(metrics, g.hook.url) {
			t.Errorf("metrics of the %s name a tenant or a webhook:\n%s", name, metrics)
		}
		logs["metrics of the "+name] = metrics
	}
	for name, out := range logs {
		for _, secret := range []string{"top-secret", g.token, g.redis.Password, g.s3.SecretKey, "whsec_", "token="} {
			if strings.Contains(out, secret) {
				t.Errorf("the %s holds %.12s…:\n%s", name, secret, out)
			}
		}
	}
}

// get reads what anybody may read at url.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, res.Status, err)
	}
	return string(b)
}
