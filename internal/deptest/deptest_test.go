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
		{pkg: "producer", forbid: append([]string{module + "/worker"}, podman...)},
		{pkg: "webhook", forbid: append([]string{"github.com/aws/", "github.com/hibiken/", "github.com/redis/", module + "/worker", module + "/producer"}, podman...)},
		{pkg: "attest", only: []string{module + "/job"}},
		{pkg: "artifacts", forbid: append([]string{module + "/worker", module + "/producer"}, podman...)},
		{pkg: "runtimes", forbid: podman},
		{pkg: "cmd/glovebox", forbid: podman},
		{pkg: "cmd/glovebox-runtime", only: []string{module + "/internal/cgroup"}},
		{pkg: "cmd/glovebox-agent", only: []string{"golang.org/x/sys/", module + "/internal/agentwire", module + "/job"}},
	}
	for _, tt := range tests {
		t.Run(tt.pkg, func(t *testing.T) {
			t.Parallel()
			for _, dep := range dependencies(t, tt.pkg) {
				under := func(prefix string) bool { return strings.HasPrefix(dep+"/", strings.TrimSuffix(prefix, "/")+"/") }
				if slices.ContainsFunc(tt.forbid, under) {
					t.Errorf("%s links %s, which it must not", tt.pkg, dep)
				}
				if tt.only != nil && !slices.ContainsFunc(append(tt.only, module+"/"+tt.pkg), under) {
					t.Errorf("%s links %s, got more than the standard library and %q", tt.pkg, dep, tt.only)
				}
			}
		})
	}
}

// dependencies lists what a package links beside the standard library.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, pkg)); err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+pkg)
	list.Dir = root
	list.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	return strings.Fields(string(out))
}
