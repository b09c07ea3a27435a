package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestJudge0Large: whatever submissions printed, all of it can be read again, a batch at once too, though it is
// more than one tenant's answers may take of the api's memory together.
func TestJudge0Large(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it prints 150 MB: make test-long")
	}
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=judge0"}})
	j := judge0{g, g.url + "/judge0", g.token}
	const n, each = 12, 4 << 20
	batch := make([]object, n)
	for i := range batch {
		batch[i] = object{
			"language_id": 46, "source_code": fmt.Sprintf("yes %d | head -c %d", i, each), "max_file_size": each >> 10, "cpu_time_limit": 30, "wall_time_limit": 60,
		}
	}
	batch[1]["number_of_runs"] = 2
	batch[1]["expected_output"] = strings.Repeat("1\n", each/2)
	var made []struct{ Token string }
	if status, text := j.do(t, http.MethodPost, "/submissions/batch", object{"submissions": batch}); status != http.StatusCreated {
		t.Fatalf("got %d %.300s", status, text)
	} else if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for _, m := range made {
		tokens = append(tokens, m.Token)
		if got := j.await(t, m.Token, ""); got["status_id"] != 3.0 {
			t.Errorf("got %v %v", got["status"], got["message"])
		}
	}
	for _, query := range []string{"", "&base64_encoded=true", "&fields=*"} {
		all, _ := j.want(t, http.StatusOK, http.MethodGet, "/submissions/batch?tokens="+strings.Join(tokens, ",")+query, nil)["submissions"].([]any)
		if len(all) != n {
			t.Fatalf("%q: got %d submissions, want %d", query, len(all), n)
		}
		for i, one := range all {
			got, _ := one.(object)
			if stdout, _ := got["stdout"].(string); len(stdout) < each || got["token"] != tokens[i] {
				t.Errorf("%q: submission %d has %d bytes of stdout and the token %v, want %d and %s", query, i, len(stdout), got["token"], each, tokens[i])
			}
		}
	}
	page := j.want(t, http.StatusOK, http.MethodGet, "/submissions?per_page=100", nil)
	if meta, _ := page["meta"].(object); meta["total_count"] != float64(n) {
		t.Errorf("got %v, want %d submissions", meta, n)
	}
}

// TestJudge0Bombs: zips whose files are a thousand times as large take memory that is taken for them before, so that
// however many come at once the api stays small.
func TestJudge0Bombs(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=judge0"}, noWorker: true})
	g.startWorker()
	j := judge0{g, g.url + "/judge0", g.token}
	bomb := object{"language_id": 46, "source_code": "echo hi", "additional_files": zipped(t, "zeros", strings.Repeat("\x00", 10<<20))}
	var clients sync.WaitGroup
	var mu sync.Mutex
	got := map[int]int{}
	for range 60 {
		clients.Go(func() {
			status, _ := j.do(t, http.MethodPost, "/submissions", bomb)
			mu.Lock()
			defer mu.Unlock()
			got[status]++
		})
	}
	clients.Wait()
	if got[http.StatusCreated] == 0 || got[http.StatusCreated]+got[http.StatusTooManyRequests]+got[http.StatusServiceUnavailable] != 60 {
		t.Errorf("got %v, want some accepted and the others told to come back", got)
	}
	peak := peakMemory(t, g.api.PID())
	if most := int64(512 << 20); peak > most {
		t.Errorf("the api's memory peaked at %d MiB", peak>>20)
	}
	t.Logf("60 zips of 10 MiB at once: %v, the api's memory peaked at %d MiB", got, peak>>20)
}

// TestJudge0Terms: a tenant that may ask for less than Judge0's defaults gets what it may, unless it asks for more.
func TestJudge0Terms(t *testing.T) {
	t.Parallel()
	const admin = "operator-0123456789abcdef"
	g := start(t, options{apiEnv: []string{"GLOVEBOX_ADMIN_TOKEN=" + admin, "GLOVEBOX_FACADES=judge0"}})
	small := job.Limits{WallMS: 5000, CPUMS: 4000, MemoryMB: 128, Processes: 32, OutputKB: 512}
	j := judge0{g, g.url + "/judge0", g.tenantToken(admin, "small", job.Terms{Maximums: small})}
	info := j.want(t, http.StatusOK, http.MethodGet, "/config_info", nil)
	if got := fmt.Sprint(info["max_cpu_time_limit"], info["cpu_time_limit"], info["max_wall_time_limit"], info["max_memory_limit"], info["memory_limit"], info["max_max_file_size"]); got != "4 4 5 131072 131072 512" {
		t.Errorf("got %s", got)
	}
	got := j.run(t, "", object{"language_id": 46, "source_code": "echo hi"})
	if got["status_id"] != 3.0 || got["stdout"] != "hi\n" || got["cpu_time_limit"] != "4.0" || got["max_processes_and_or_threads"] != 32.0 {
		t.Errorf("got %v", got)
	}
	// What a query may say a body may, too.
	got = j.want(t, http.StatusCreated, http.MethodPost, "/submissions", object{
		"language_id": 46, "source_code": encoded("echo body"), "base64_encoded": true, "wait": true, "fields": "stdout",
	})
	if fmt.Sprint(got) != "map[stdout:"+encoded("body\n")+"\n]" {
		t.Errorf("got %v", got)
	}
	status, text := j.do(t, http.MethodPost, "/submissions", object{"language_id": 46, "source_code": "true", "cpu_time_limit": 5})
	if status != http.StatusUnprocessableEntity || text != `{"cpu_time_limit":["must be less than or equal to 4.0"]}` {
		t.Errorf("got %d %s", status, text)
	}
	runs := object{"language_id": 46, "source_code": "true", "number_of_runs": 20}
	status, text = j.do(t, http.MethodPost, "/submissions/batch", object{"submissions": []object{runs, runs, runs, runs, runs, runs}})
	if status != http.StatusCreated || strings.Count(text, `"token"`) != 5 || !strings.Contains(text, "all runs of a batch") {
		t.Errorf("120 runs in a batch: got %d %s", status, text)
	}
}
