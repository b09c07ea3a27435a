package deptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/glovebox-run/glovebox"

// TestDependencies looks at everything that is linked, where depguard (.golangci.yml)
// sees direct imports only.
func TestDependencies(t *testing.T) {
	t.Parallel()
	podman := []string{"github.com/containers/", "go.podman.io/"}
	tests := []struct {
		pkg    string
		forbid []string // prefixes of packages that must not be linked
		only   []string // what may be, beside the standard library; nil: anything
	}{
		{pkg: "job", only: []string{}},
		{pkg: "attest", only: []string{module + "/job"}},
		{pkg: "producer", only: []string{module + "/job", module + "/attest"}},
		{pkg: "producer/direct", forbid: append([]string{module + "/worker", module + "/producer/api"}, podman...)},
		{pkg: "producer/api", forbid: append([]string{module + "/worker"}, podman...)},
		{pkg: "deliverer", forbid: append([]string{module + "/worker", module + "/producer/api"}, podman...)},
		{pkg: "webhook", only: []string{"code.dny.dev/ssrf"}},
		{pkg: "artifacts", forbid: append([]string{module + "/worker", module + "/producer"}, podman...)},
		{pkg: "worker", forbid: append([]string{module + "/producer"}, podman...)},
		{pkg: "worker/sandbox", only: []string{module + "/job"}},
		{pkg: "worker/sandbox/process", forbid: append([]string{module + "/producer"}, podman...)},
		{pkg: "worker/sandbox/internal/session", only: []string{module + "/internal/agentwire", module + "/job", module + "/worker/sandbox"}},
		{pkg: "internal/patterns", only: []string{}},
		{pkg: "internal/grading", only: []string{module + "/job", module + "/internal/patterns"}},
		{pkg: "internal/grading/kattis", only: []string{module + "/job", module + "/internal/grading", module + "/internal/patterns", "gopkg.in/yaml.v3"}},
		{pkg: "runtimes", forbid: podman},
		{pkg: "cmd/glovebox", forbid: podman},
		{pkg: "cmd/glovebox-runtime", only: []string{module + "/internal/cgroup", module + "/internal/version"}},
		{pkg: "cmd/glovebox-agent", only: []string{"golang.org/x/sys/", module + "/internal/agentwire", module + "/internal/version", module + "/job"}},
	}
	for _, tt := range tests {
		t.Run(tt.pkg, func(t *testing.T) {
			t.Parallel()
			for _, dep := range dependencies(t, tt.pkg) {
				under := func(prefix string) bool { return strings.HasPrefix(dep+"/", strings.TrimSuffix(prefix, "/")+"/") }
				if slices.ContainsFunc(tt.forbid, under) {
					t.Errorf("%s links %s, which it must not", tt.pkg, dep)
				}
				if tt.only != nil && dep != module+"/"+tt.pkg && !slices.ContainsFunc(tt.only, under) {
					t.Errorf("%s links %s, got more than the standard library and %q", tt.pkg, dep, tt.only)
				}
			}
		})
	}
}

// dependencies lists what a package links beside the standard library.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join("../..", pkg)); err != nil {
		t.Fatal(err)
	}
	return strings.Fields(list(t, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+pkg))
}

// list is what go list says of the module.
func list(t *testing.T, args ...string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Dir = root
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	return string(out)
}

// TestImports: stations are on top of what they share, and commands on top of stations.
func TestImports(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(list(t, "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")) {
		imports := strings.Fields(line)
		from := strings.TrimPrefix(imports[0], module+"/")
		station, _, _ := strings.Cut(from, "/")
		for _, path := range imports[1:] {
			to, ours := strings.CutPrefix(path, module+"/")
			top, _, _ := strings.Cut(to, "/")
			switch {
			case !ours || top == station:
			case top == "cmd":
				t.Errorf("%s imports %s: what is in cmd is for commands", from, to)
			case station == "internal" && slices.Contains([]string{"producer", "worker", "deliverer"}, top):
				t.Errorf("%s imports %s: internal is what stations share, not what is on top of them", from, to)
			case station != "cmd" && slices.Contains([]string{"worker", "deliverer"}, top):
				t.Errorf("%s imports %s: commands alone run that station", from, to)
			}
		}
	}
}
