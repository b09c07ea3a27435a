package metrics

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"gopkg.in/yaml.v3"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/autoscale"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// noted is a Registerer that notes what is registered: name → labels.
type noted struct {
	prometheus.Registerer
	labels map[string][]string
}

var (
	fqName    = regexp.MustCompile(`fqName: "([a-z0-9_]+)"`)
	variables = regexp.MustCompile(`variableLabels: \{([^}]*)\}`)
	constants = regexp.MustCompile(`constLabels: \{([a-z]*)`)
)

func (n noted) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		descs := make(chan *prometheus.Desc, 100)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			name := fqName.FindStringSubmatch(d.String())[1]
			labels := strings.Split(variables.FindStringSubmatch(d.String())[1], ",")
			n.labels[name] = append(labels, constants.FindStringSubmatch(d.String())[1])
		}
	}
	n.Registerer.MustRegister(all...)
}

// every returns a registry that has all metrics of all processes, each with a value, and
// the labels of each.
func every(t *testing.T) (*prometheus.Registry, map[string][]string) {
	t.Helper()
	r := NewRegistry("v1")
	n := noted{r, map[string][]string{"glovebox_build_info": {"version"}}}
	records := NewRecords(n, []string{"python"})
	records.Accepted("python", job.Normal)
	records.Started(record.Record{Attempts: 1, Epoch: 1, Priority: job.Normal, Released: time.Now()})
	records.Requeued(record.CostAttempt)
	records.TakenBack()
	records.Ended("python", job.Succeeded)
	records.Attempted(record.Delivery{Created: time.Now()}, record.Delivered, time.Now())
	records.PassEnded("reap", time.Second)
	records.PassFailed("reap")
	NewRedis(n).called(time.Now(), context.DeadlineExceeded)
	NewS3(n).Observe(artifacts.Request{Operation: "PutObject", Failure: artifacts.FailServer})
	NewHTTP(n).Observe("GET /v1/jobs/{id}", http.StatusOK, time.Second)
	d := NewDeliverer(n)
	d.Sent(http.StatusOK, time.Second)
	d.Fault()
	NewQueues(n).Watch(oneQueue{})
	NewAutoscale(n).Decided(autoscale.Decision{At: time.Now(), Wanted: 3})
	w := NewWorker(n, []string{"python"})
	w.Warm("python", func() int { return 1 }, func() int { return 1 })
	w.WarmWanted("python", func() int { return 1 })
	w.Snapshot("python", func() (int64, time.Time) { return 1, time.Now() })
	w.Ran("python", "warm", time.Second, job.Usage{CPUMS: 5}, []job.Artifact{{Kind: job.KindChart, Size: 10}})
	w.Failed(FailStore)
	w.Lacked(true)
	w.TestRead("hit")
	w.TestCache(1)
	w.SessionPaused(time.Second, 1)
	return r, n.labels
}

func scrape(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(r, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// TestNames holds names, units and help to Prometheus' conventions.
func TestNames(t *testing.T) {
	t.Parallel()
	r, labels := every(t)
	text := scrape(t, r)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "glovebox_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for name := range labels {
		if !strings.Contains(text, "\n# TYPE "+name+" ") {
			t.Errorf("%s has no value in this test: add one", name)
		}
	}
}

var (
	metricName = regexp.MustCompile(`glovebox_[a-z0-9_]+`)
	selector   = regexp.MustCompile(`(glovebox_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	labelName  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// series is the metric that a name in a query means, or "".
func series(labels map[string][]string, name string) string {
	for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
		base, ok := strings.CutSuffix(name, suffix)
		if _, known := labels[base]; ok && known && (suffix == "" || strings.HasSuffix(base, "_seconds")) {
			return base
		}
	}
	return ""
}

// checkQuery fails where a query names a metric or a label that isn't there.
func checkQuery(t *testing.T, labels map[string][]string, where, query string) {
	t.Helper()
	var may []string // labels of any metric of the query
	for _, m := range selector.FindAllStringSubmatch(query, -1) {
		name := series(labels, m[1])
		if name == "" {
			t.Errorf("%s: there is no metric %s", where, m[1])
			continue
		}
		may = append(may, labels[name]...)
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labels[name], l[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(query, -1) {
		for _, l := range strings.Split(by[1], ",") {
			if l = strings.TrimSpace(l); l != "le" && !slices.Contains(may, l) {
				t.Errorf("%s: nothing in %s has the label %s", where, query, l)
			}
		}
	}
}

// TestRules looks at the alerts in infra/prometheus.
func TestRules(t *testing.T) {
	t.Parallel()
	_, labels := every(t)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	b := read(t, "infra/prometheus/rules.yml")
	if err := yaml.Unmarshal(b, &rules); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range rules.Groups {
		for _, rule := range g.Rules {
			seen++
			checkQuery(t, labels, rule.Alert, rule.Expr)
			if s := rule.Labels["severity"]; s != "page" && s != "ticket" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s: want severity page or ticket, a summary and a description", rule.Alert)
			}
			for _, name := range metricName.FindAllString(rule.Annotations["description"], -1) {
				checkQuery(t, labels, rule.Alert, name)
			}
		}
	}
	if seen < 10 {
		t.Errorf("found %d alerts: is the file's form another?", seen)
	}
}

// TestDashboard looks at the dashboard in infra/grafana.
func TestDashboard(t *testing.T) {
	t.Parallel()
	_, labels := every(t)
	var board struct {
		Title, UID string
		Panels     []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "infra/grafana/glovebox.json"), &board); err != nil {
		t.Fatal(err)
	}
	ids, queries := map[int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q: want an id of its own, a title and a query", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries++
			checkQuery(t, labels, p.Title, target.Expr)
		}
	}
	if board.Title == "" || board.UID == "" || queries < 20 {
		t.Errorf("got title %q, uid %q and %d queries", board.Title, board.UID, queries)
	}
}

// TestDocumented compares the table in docs/operations.md with what there is.
func TestDocumented(t *testing.T) {
	t.Parallel()
	_, labels := every(t)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(glovebox_[a-z0-9_]+)(?:\\{([a-z,]+)\\})?`").FindAllStringSubmatch(string(read(t, "docs/operations.md")), -1) {
		documented[m[1]] = true
		have, known := labels[m[1]]
		if !known {
			t.Errorf("docs/operations.md: there is no metric %s", m[1])
		} else if got := strings.Trim(strings.Join(have, ","), ","); got != m[2] {
			t.Errorf("docs/operations.md: %s has the labels %q, not %q", m[1], got, m[2])
		}
	}
	for name := range labels {
		if !documented[name] {
			t.Errorf("docs/operations.md does not explain %s", name)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// oneQueue is a Redis with one queue.
type oneQueue struct{}

func (oneQueue) Depth(context.Context) (record.Depth, error) {
	return record.Depth{Queues: []queue.Depth{{Name: "normal"}}}, nil
}

func (oneQueue) Ping(context.Context) error { return nil }
