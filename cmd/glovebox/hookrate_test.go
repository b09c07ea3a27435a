package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// BenchmarkHooks posts signed requests to one hook of one api process, 32 at once, and says how many it takes a
// second, with how much of a CPU. Each that was answered 2xx has to have a job of its own: none is lost, and none
// comes twice.
func BenchmarkHooks(b *testing.B) {
	p := startAPIProcess(b, "GLOVEBOX_TENANT_QUOTAS=requests_per_minute=0,jobs_queued=0,bytes_queued=0,bytes_stored=0", "GLOVEBOX_RECORDS_MB=65536")
	var r producer.TemplateRequest
	r.Spec.Spec = job.Spec{Runtime: "python", Source: "1"}
	if _, err := p.client.SetTemplate(b.Context(), "work", r); err != nil {
		b.Fatal(err)
	}
	hook, err := p.client.CreateHook(b.Context(), producer.HookRequest{HookSettings: job.HookSettings{Template: "work", Sender: job.SenderGitHub, Body: "event.json"}})
	if err != nil {
		b.Fatal(err)
	}
	const concurrency, each = 32, 1000
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	answered, refused := map[string]int{}, map[int]int{} // by job, and by status
	post := func(n int) error {
		body := fmt.Appendf(nil, `{"ref":"refs/heads/main","n":%d,"text":%q}`, n, strings.Repeat("x", 500))
		mac := hmac.New(sha256.New, []byte(hook.Secret))
		mac.Write(body)
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, p.url+hook.Path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		req.Header.Set("X-Github-Delivery", strconv.Itoa(n))
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		var a producer.HookAccepted
		if res.StatusCode == http.StatusAccepted {
			err = json.Unmarshal(text, &a)
		}
		mu.Lock()
		defer mu.Unlock()
		if a.JobID == "" {
			refused[res.StatusCode]++
		} else {
			answered[a.JobID]++
		}
		return err
	}
	var next atomic.Int64
	var took time.Duration
	memory, used := redisBytes(b, p), cpu(b, p.PID())
	for b.Loop() {
		began := time.Now()
		var posts sync.WaitGroup
		for range concurrency {
			posts.Go(func() {
				for range each / concurrency {
					if err := post(int(next.Add(1))); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		posts.Wait()
		took += time.Since(began)
	}
	used = cpu(b, p.PID()) - used
	n := len(answered)
	for id, times := range answered {
		if exists, err := p.Raw.Exists(b.Context(), "gb:{default}:job:"+id).Result(); err != nil || exists != 1 || times != 1 {
			b.Fatalf("job %s, which was answered %d times: %d, %v", id, times, exists, err)
		}
	}
	if len(refused) > 0 || n != int(next.Load()) {
		b.Errorf("got %d jobs for %d requests; refused, by status: %v", n, next.Load(), refused)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/took.Seconds(), "hooks/s")
	b.ReportMetric(used.Seconds()/took.Seconds(), "api-cpus")
	b.ReportMetric(float64(used.Microseconds())/float64(n), "api-cpu-µs/hook")
	b.ReportMetric(float64(redisBytes(b, p)-memory)/float64(n), "redis-bytes/hook")
}

// cpu is how much time of CPUs a process has had.
func cpu(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the command's name
	fields := strings.Fields(rest)
	ticks := int64(0)
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
