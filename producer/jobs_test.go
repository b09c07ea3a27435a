package producer_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// everything is what both clients do for a tenant.
type everything interface {
	producer.Jobs
	producer.Batches
	producer.Watcher
	producer.Files
	producer.Lister
	producer.Uploader
	producer.Purger
	producer.Catalog
	Ready(ctx context.Context) error
	Deliveries(ctx context.Context, id string) ([]producer.Delivery, error)
	BatchDeliveries(ctx context.Context, id string) ([]producer.Delivery, error)
	Close() error
}

// TestJobs is the contract of producer.Jobs and what is beside it, which both clients keep.
func TestJobs(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *producertest.Env, string) everything{
		"Client": func(_ *testing.T, w *producertest.Env, tenant string) everything { return w.Client.For(tenant) },
		"HTTP":   overHTTP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := producertest.New(t, "")
			s := suite{w, open, open(t, w, "default"), open(t, w, "other")}
			t.Run("no runtimes", s.noRuntimes)
			w.Runtimes(t)
			t.Run("invalid", s.invalid)
			t.Run("a file beside source", s.besideSource)
			t.Run("life", s.life)
			t.Run("large spec", s.largeSpec)
			t.Run("wait", s.wait)
			t.Run("wait ends with its context", s.waitContext)
			t.Run("run at a time", s.runAt)
			t.Run("idempotency", s.idempotency)
			t.Run("cancel queued", s.cancelQueued)
			t.Run("cancel running", s.cancelRunning)
			t.Run("purge", s.purge)
			t.Run("artifacts as inputs", s.artifactInputs)
			t.Run("large inputs", s.largeInputs)
			t.Run("uploads", s.uploads)
			t.Run("invalid uploads", s.invalidUploads)
			t.Run("files", s.files)
			t.Run("deliveries", s.deliveries)
			t.Run("others", s.others)
			t.Run("runtimes", s.runtimes)
			t.Run("list", s.list)
			t.Run("list of others", s.listOfOthers)
			t.Run("invalid list", s.invalidList)
			t.Run("batch", s.batchLife)
			t.Run("batch sent again", s.batchReplay)
			t.Run("batch without a key", s.batchWithoutKey)
			t.Run("cancel batch", s.batchCancel)
			t.Run("invalid batch", s.batchInvalid)
			t.Run("batches of others", s.batchOthers)
			t.Run("list batches", s.batchList)
			t.Run("batch beyond a quota", s.batchQuota)
			t.Run("watch", s.watch)
			t.Run("watch late and from the middle", s.watchLate)
			t.Run("watch a job that has ended", s.watchEnded)
			t.Run("watch a job that is taken back", s.watchTakenBack)
			t.Run("watch what was dropped", s.watchGap)
			t.Run("watch no more", s.watchNoMore)
			t.Run("watch nothing", s.watchNothing)
			t.Run("secrets", s.secrets)
			t.Run("templates", s.templates)
			t.Run("problems", s.problems)
			t.Run("hooks", s.hooks)
			t.Run("wait over a restart of Redis", s.waitOverRestart)
			t.Run("watch over a restart of Redis", s.watchOverRestart)
		})
	}
}

func overHTTP(t *testing.T, w *producertest.Env, tenant string) everything {
	t.Helper()
	a, err := api.New(api.Config{
		Client: w.Client, Links: w.Links, Tokens: map[api.TokenHash]string{api.HashToken("token"): tenant},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	h, err := producer.New(srv.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

type suite struct {
	w     *producertest.Env
	open  func(t *testing.T, w *producertest.Env, tenant string) everything
	jobs  everything
	other everything // of another tenant
}

func (s suite) submit(t *testing.T) producer.Job {
	t.Helper()
	j, err := s.jobs.Submit(t.Context(), job.Spec{Runtime: "python", Source: "print('hello')", Metadata: map[string]string{"course": "cs1"}})
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return j
}

func (s suite) noRuntimes(t *testing.T) {
	_, err := s.jobs.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1"})
	if !errors.Is(err, job.ErrNoRuntimes) {
		t.Errorf("got %v, want ErrNoRuntimes", err)
	}
	var said *job.Error
	if !errors.As(err, &said) || said.Code != job.CodeNoRuntimes {
		t.Errorf("got %#v, want a job.Error with code no_runtimes", err)
	}
}

func (s suite) invalid(t *testing.T) {
	spec := job.Spec{Runtime: "cobol", Limits: job.Limits{WallMS: -1, MemoryMB: 1 << 40}}
	_, err := s.jobs.Submit(t.Context(), spec)
	var invalid job.Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want job.Invalid", err)
	}
	var fields []string
	for _, f := range invalid {
		fields = append(fields, f.Field)
	}
	want := []string{"runtime", "source", "limits.wall_ms", "limits.memory_mb"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
}

// besideSource: what a runtime calls source can't be one of files[], too; workers say the name.
func (s suite) besideSource(t *testing.T) {
	for _, name := range []string{"main.py", "main.py/x"} {
		_, err := s.jobs.Submit(t.Context(), job.Spec{Runtime: "python3", Source: "1", Files: []job.File{{Name: "in"}, {Name: name}}})
		var invalid job.Invalid
		if !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Field != "files[1].name" {
			t.Errorf("%s: got %v, want one fault, of files[1].name", name, err)
		}
	}
	for _, fine := range []job.Spec{
		{Runtime: "python", Source: "1", Entrypoint: "a.py", Files: []job.File{{Name: "main.py"}}},
		{Runtime: "bash", Source: "1", Files: []job.File{{Name: "main.py"}}},
	} {
		if _, err := s.jobs.Submit(t.Context(), fine); err != nil {
			t.Error(err)
		}
	}
}

func (s suite) life(t *testing.T) {
	j := s.submit(t)
	if j.Status != job.Queued || j.Ended() || j.Priority != job.Normal {
		t.Errorf("got %+v, want a queued job of normal priority", j)
	}
	running := s.w.Start(t, j.ID)
	if j, err := s.jobs.Get(t.Context(), j.ID); err != nil || j.Status != job.Running || j.Ended() || j.Timing.StartedAt == nil {
		t.Errorf("got %+v, %v, want a running job", j, err)
	}
	s.w.End(t, running, nil, func(r *job.Result) { r.Stdout = strings.Repeat("é", 32<<10); r.StdoutURL = "stdout" })
	j, err := s.jobs.Get(t.Context(), j.ID)
	if err != nil || !j.Ended() {
		t.Fatalf("got %+v, %v, want a job that has ended", j, err)
	}
	if j.Result.Status != job.Succeeded || len(j.Result.Stdout) != 64<<10 || j.Result.Metadata["course"] != "cs1" {
		t.Errorf("got %+v, want the result", j.Result)
	}
	want := producertest.BaseURL + "/v1/jobs/" + j.ID + "/stdout?token="
	if !strings.HasPrefix(j.Result.StdoutURL, want) {
		t.Errorf("got URL %q, want one that starts with %q", j.Result.StdoutURL, want)
	}
	if _, err := s.jobs.Cancel(t.Context(), j.ID); !errors.Is(err, job.ErrEnded) {
		t.Errorf("cancel: got %v, want ErrEnded", err)
	}
	again, err := s.jobs.Get(t.Context(), j.ID)
	if diff := cmp.Diff(j, again); err != nil || diff != "" {
		t.Errorf("a second read differs: %v %s", err, diff)
	}
}

func (s suite) largeSpec(t *testing.T) {
	spec := job.Spec{Runtime: "bash", Source: strings.Repeat("# \x01\n", 100_000)}
	j, err := s.jobs.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	r := s.w.Start(t, j.ID)
	if r.Spec != nil || r.SpecRef == "" {
		t.Fatalf("got spec in record %v, reference %q; want it in the bucket", r.Spec != nil, r.SpecRef)
	}
	b, err := s.w.Objects.GetBytes(t.Context(), r.SpecRef, 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	var got job.Spec
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec, got); diff != "" {
		t.Error(diff)
	}
}

func (s suite) cancelQueued(t *testing.T) {
	j := s.submit(t)
	canceled, err := s.jobs.Cancel(t.Context(), j.ID)
	if err != nil || !canceled.Ended() || canceled.Status != job.Canceled {
		t.Fatalf("got %+v, %v, want a canceled job", canceled, err)
	}
	r := canceled.Result
	if r.ExitCode != nil || r.Error == nil || r.Error.Code != "canceled" || r.Artifacts == nil || r.Metadata["course"] != "cs1" {
		t.Errorf("got %+v, want no exit code, an error, no artifacts, metadata", r)
	}
	again, err := s.jobs.Cancel(t.Context(), j.ID)
	if diff := cmp.Diff(canceled, again); err != nil || diff != "" {
		t.Errorf("a second cancel: %v %s", err, diff)
	}
}

func (s suite) cancelRunning(t *testing.T) {
	j := s.submit(t)
	running := s.w.Start(t, j.ID)
	asked, err := s.jobs.Cancel(t.Context(), j.ID)
	if err != nil || asked.Ended() || asked.Status != job.Running {
		t.Fatalf("got %+v, %v, want a running job", asked, err)
	}
	if r, err := s.w.Records.Get(t.Context(), j.ID); err != nil || !r.CancelRequested {
		t.Errorf("got %+v, %v, want a record with a cancel request", r, err)
	}
	s.w.End(t, running, nil, func(r *job.Result) { r.Status = job.Canceled; r.ExitCode = nil })
	if j, err := s.jobs.Wait(t.Context(), j.ID); err != nil || j.Status != job.Canceled {
		t.Errorf("got %+v, %v, want a canceled job", j, err)
	}
}

func (s suite) deliveries(t *testing.T) {
	if err := s.jobs.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	callback := &job.Callback{URL: "https://hooks.example.com/"}
	j, err := s.jobs.Submit(t.Context(), job.Spec{Runtime: "python", Source: "1", Callback: callback})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := s.jobs.Deliveries(t.Context(), j.ID); err != nil || len(list) > 0 {
		t.Errorf("before its end: got %+v, %v, want none", list, err)
	}
	s.w.End(t, s.w.Start(t, j.ID), nil, nil)
	list, err := s.jobs.Deliveries(t.Context(), j.ID)
	if err != nil || len(list) != 1 || list[0].JobID != j.ID || list[0].URL != callback.URL || list[0].Event != job.EventCompleted {
		t.Errorf("got %+v, %v, want the job's delivery", list, err)
	}
	b, err := s.jobs.SubmitBatch(t.Context(), producer.BatchOptions{BatchOptions: job.BatchOptions{Callback: callback}}, specs(numbered(1), nil))
	if err != nil {
		t.Fatal(err)
	}
	s.w.End(t, s.w.Start(t, job.ItemID(b.ID, 0)), nil, nil)
	list, err = s.jobs.BatchDeliveries(t.Context(), b.ID)
	if err != nil || len(list) != 1 || list[0].BatchID != b.ID || list[0].Event != job.EventBatchCompleted {
		t.Errorf("got %+v, %v, want the batch's delivery", list, err)
	}
	for _, id := range []string{j.ID, job.NewID("default"), "..", ""} {
		if _, err := s.other.Deliveries(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("deliveries of job %q: got %v, want ErrNotFound", id, err)
		}
	}
	for _, id := range []string{b.ID, job.NewBatchID("default"), "..", ""} {
		if _, err := s.other.BatchDeliveries(t.Context(), id); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("deliveries of batch %q: got %v, want ErrNotFound", id, err)
		}
	}
}

func (s suite) purge(t *testing.T) {
	j := s.submit(t)
	if err := s.jobs.Purge(t.Context(), j.ID); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("queued: got %v, want ErrNotEnded", err)
	}
	running := s.w.Start(t, j.ID)
	if err := s.jobs.Purge(t.Context(), j.ID); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("running: got %v, want ErrNotEnded", err)
	}
	s.w.End(t, running, map[string]string{"plot.txt": "a plot"}, nil)
	if err := s.jobs.Purge(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	_, getErr := s.jobs.Get(t.Context(), j.ID)
	_, openErr := s.jobs.Open(t.Context(), j.ID, producer.ArtifactPath("plot.txt"))
	_, cancelErr := s.jobs.Cancel(t.Context(), j.ID)
	for verb, err := range map[string]error{"get": getErr, "open": openErr, "cancel": cancelErr, "purge": s.jobs.Purge(t.Context(), j.ID)} {
		if !errors.Is(err, job.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", verb, err)
		}
	}
	page, err := s.jobs.List(t.Context(), producer.ListOptions{Limit: 200})
	if err != nil || slices.ContainsFunc(page.Jobs, func(r job.Summary) bool { return r.ID == j.ID }) {
		t.Errorf("listed: got %v, %v", page.Jobs, err)
	}
	if left := s.w.Kept(t, "tenants/default/jobs/"+j.ID+"/"); len(left) > 0 {
		t.Errorf("objects are left: %v", left)
	}
}

func (s suite) files(t *testing.T) {
	j := s.submit(t)
	running := s.w.Start(t, j.ID)
	const odd = "out put/ü+%41 ?#&.csv"
	long := strings.Repeat("line\n", 50_000)
	if _, err := s.w.Objects.PutBytes(t.Context(), "tenants/default/jobs/"+j.ID+"/1/stdout", "text/plain; charset=utf-8", []byte(long)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.jobs.Open(t.Context(), j.ID, producer.Stdout); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("stdout of a running job: got %v, want ErrNotFound", err)
	}
	s.w.End(t, running, map[string]string{odd: "a,b\n1,2\n"}, func(r *job.Result) {
		r.Stdout, r.StdoutURL, r.Stderr = long[:64<<10], "stdout", "a warning\n"
	})
	for path, want := range map[string]string{
		producer.ArtifactPath(odd): "a,b\n1,2\n", producer.Stdout: long, producer.Stderr: "a warning\n",
	} {
		d, err := s.jobs.Open(t.Context(), j.ID, path)
		if err != nil {
			t.Errorf("open %s: %v", path, err)
			continue
		}
		b, err := io.ReadAll(d)
		if closeErr := d.Close(); err != nil || closeErr != nil {
			t.Errorf("read %s: %v, %v", path, err, closeErr)
		}
		if string(b) != want || d.Size != int64(len(want)) || !strings.HasPrefix(d.MediaType, "text/") {
			t.Errorf("%s: got %d bytes, size %d, type %q; want %d bytes of text", path, len(b), d.Size, d.MediaType, len(want))
		}
	}
	for _, path := range []string{"artifacts/none.png", "artifacts/../result.json", "../spec.json", "result.json", "artifacts/", "", "artifacts", "/stdout"} {
		if _, err := s.jobs.Open(t.Context(), j.ID, path); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("open %q: got %v, want ErrNotFound", path, err)
		}
	}
}

func (s suite) others(t *testing.T) {
	j := s.submit(t)
	for _, id := range []string{j.ID, job.NewID("other"), "", "..", "other-../../x"} {
		_, getErr := s.other.Get(t.Context(), id)
		_, waitErr := s.other.Wait(t.Context(), id)
		_, cancelErr := s.other.Cancel(t.Context(), id)
		purgeErr := s.other.Purge(t.Context(), id)
		_, openErr := s.other.Open(t.Context(), id, producer.Stdout)
		watchErr := errors.New("nothing")
		for _, err := range s.other.Watch(t.Context(), id, "") {
			watchErr = err
		}
		for verb, err := range map[string]error{"get": getErr, "wait": waitErr, "cancel": cancelErr, "open": openErr, "purge": purgeErr, "watch": watchErr} {
			if !errors.Is(err, job.ErrNotFound) {
				t.Errorf("%s %q as another tenant: got %v, want ErrNotFound", verb, id, err)
			}
		}
	}
	if j, err := s.jobs.Get(t.Context(), j.ID); err != nil || j.Status != job.Queued {
		t.Errorf("got %+v, %v, want the job untouched", j, err)
	}
}

func (s suite) runtimes(t *testing.T) {
	list, err := s.jobs.Runtimes(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "bash" || list[1].Aliases[0] != "python3" || list[0].Aliases == nil {
		t.Errorf("got %+v, %v, want bash and python", list, err)
	}
}
