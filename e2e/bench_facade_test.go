package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// facadeHellos are a hello by each façade, and the job that it makes of it.
var facadeHellos = []struct {
	name, path, header, body string
	says                     string // in the answer
	native                   job.Spec
}{
	{
		"judge0", "/judge0/submissions?wait=true", "X-Auth-Token", `{"language_id":46,"source_code":"echo hello"}`, `"id":3`,
		job.Spec{Runtime: "bash", Source: "echo hello", Limits: job.Limits{WallMS: 10_000, CPUMS: 6000, MemoryMB: 256, Processes: 60, OutputKB: 1024, SourceKB: 1}},
	},
	{
		"piston", "/piston/api/v2/execute", "Authorization", `{"language":"bash","version":"*","files":[{"content":"echo hello"}]}`, `"code":0`,
		job.Spec{
			Runtime: "bash", Files: []job.File{{Name: "main.sh", Content: "echo hello"}}, Entrypoint: "main.sh", Stdin: "\n",
			Env: map[string]string{"PISTON_LANGUAGE": "bash"},
		},
	},
	{
		"jobe", jobePath + "/runs", "X-API-KEY", `{"run_spec":{"language_id":"nodejs","sourcecode":"console.log('hello')"}}`, `"outcome":15`,
		job.Spec{
			Runtime: "node", Files: []job.File{{Name: "prog.js", Content: "console.log('hello')"}}, Entrypoint: "prog.js", TruncateOutput: true,
			Commands: &job.Commands{Run: "exec node --use_strict 'prog.js' "},
			Limits:   job.Limits{CPUMS: 5000, WallMS: 10_000, CompileWallMS: 30_000, MemoryMB: 512, OutputKB: 2048, Processes: 31, FileMB: 20, DiskMB: 64, Artifacts: 1},
		},
	},
}

// maxFacade is how much longer a job may take by a façade, at the median.
const maxFacade = 3 * time.Millisecond

// facades measures an execution by E2B's façade beside the same by the API, in one session, and a hello by each of the others beside the same job by
// /v1/jobs with Prefer: wait, in turns.
func (b *bench) facades() {
	b.t.Helper()
	most, rounds := b.scaled(240*time.Second), b.times(60)
	b.says("façades", most)
	s := b.table.section("Façades: one request at a time", "façade", "n", "p50 of the difference, ms", "p50 ms", "p50 ms of the same by the API")
	s.notef("A request that waits for its job's end, by the façade and by the API in turns. The second of a turn often takes longer, " +
		"so a difference is the mean of two turns: the façade is first in one, and the API in the other.")
	session := b.session()
	defer b.end(session)
	http, deadline := b.warm.http, time.Now().Add(most)
	b.facade(s, "e2b", "python", rounds, deadline, func() error {
		_, err := http.await(b.t.Context(), "/v1/sessions/"+session+"/execute", job.SessionExecution{Code: "6 * 7"})
		return err
	}, func() error {
		return http.post(b.t.Context(), "/e2b/execute", `{"code":"6 * 7"}`, `"42"`, "X-Api-Key", http.token, "E2b-Sandbox-Id", session)
	})
	for _, h := range facadeHellos {
		b.facade(s, h.name, h.native.Runtime, rounds, deadline, func() error {
			_, err := http.run(b.t.Context(), h.native)
			return err
		}, func() error { return http.post(b.t.Context(), h.path, h.body, h.says, h.header, http.token) })
	}
}

// facade measures one, in two turns at least.
func (b *bench) facade(s *section, name, runtime string, rounds int, deadline time.Time, native, byFacade func() error) {
	b.t.Helper()
	var more, took, plain times
	for n := 0; n == 0 || n < rounds/2 && time.Now().Before(deadline); n++ {
		var sum [2]time.Duration
		ways, measured := [2]func() error{native, byFacade}, [2]*times{&plain, &took}
		for _, i := range [4]int{0, 1, 1, 0} { // what the first leaves to do is not always the same one's burden
			b.refilled(runtime)
			began := time.Now()
			b.must(ways[i]())
			d := time.Since(began)
			*measured[i], sum[i] = append(*measured[i], d), sum[i]+d
		}
		more = append(more, (sum[1]-sum[0])/2)
	}
	median := more.percentile(50)
	s.row(name, fmt.Sprint(len(took)), milliseconds(median), milliseconds(took.percentile(50)), milliseconds(plain.percentile(50)))
	b.table.check("what the façade of "+name+" adds to a job, p50", "≤ "+milliseconds(maxFacade)+" ms", milliseconds(median)+" ms", holds(median <= maxFacade))
}

// post sends a request to a façade, with these headers and their values, whose answer has to say that.
func (c *waitingClient) post(ctx context.Context, path, body, says string, headers ...string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	for n := 0; n+1 < len(headers); n += 2 {
		req.Header.Set(headers[n], headers[n+1])
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && !strings.Contains(string(answer), says) {
		err = fmt.Errorf("%s: got %s %.300s", path, res.Status, answer)
	}
	return err
}
