package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
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

// BenchmarkFacade is what a façade adds: the same hello by /v1/jobs with Prefer: wait and by the façade, in turns, and the median of what the second took
// more; and the same execution in one session by the API and by E2B's façade. It is to be 3 ms at most.
func BenchmarkFacade(b *testing.B) {
	i := &bench{t: b, scale: 1, warm: newInstallation(b)}
	for _, h := range facadeHellos {
		b.Run(h.name, func(b *testing.B) {
			facadeBeside(b, i, h.native.Runtime, way{"/v1/jobs", func(int) error {
				_, err := i.warm.http.run(b.Context(), h.native)
				return err
			}}, way{h.name, func(int) error {
				return i.warm.http.post(b.Context(), h.path, h.body, h.says, h.header, i.warm.http.token)
			}})
		})
	}
	session := i.session()
	defer i.end(session)
	b.Run("e2b", func(b *testing.B) {
		facadeBeside(b, i, "python", way{"/v1/sessions", func(int) error {
			_, err := i.warm.http.await(b.Context(), "/v1/sessions/"+session+"/execute", job.SessionExecution{Code: "6 * 7"})
			return err
		}}, way{"e2b", func(int) error {
			return i.warm.http.post(b.Context(), "/e2b/execute", `{"code":"6 * 7"}`, `"42"`, "X-Api-Key", i.warm.http.token, "E2b-Sandbox-Id", session)
		}})
	})
}

// facadeBeside compares two ways of the same, in turns.
func facadeBeside(b *testing.B, i *bench, runtime string, native, byFacade way) {
	b.Helper()
	var more, took, plain times
	for n := 0; b.Loop(); n++ {
		d := map[string]time.Duration{}
		turn := []way{native, byFacade}
		if n%2 == 1 { // what the first leaves to do is not always the same one's burden
			slices.Reverse(turn)
		}
		for _, w := range turn {
			i.refilled(runtime)
			took, err := w.took()
			i.must(err)
			d[w.name] = took
		}
		more, took, plain = append(more, d[byFacade.name]-d[native.name]), append(took, d[byFacade.name]), append(plain, d[native.name])
	}
	ms := func(t times) float64 { return float64(t.percentile(50)) / float64(time.Millisecond) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(took), "facade-ms")
	b.ReportMetric(ms(plain), "native-ms")
	b.ReportMetric(ms(more), "more-ms")
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
