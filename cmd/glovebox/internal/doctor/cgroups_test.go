package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/cgroup"
)

func TestDelegated(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	unit := func(name, handedDown string) {
		leaves := filepath.Join(mount, name, cgroup.Parent)
		if err := os.MkdirAll(filepath.Join(mount, name, "sup"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(leaves, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(leaves, "cgroup.subtree_control"), []byte(handedDown), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	unit("hard.service", "cpu memory pids\n")
	unit("half.service", "memory\n")
	for _, c := range []struct{ cgroup, leaves, missing string }{
		{"/hard.service/sup", "hard.service", ""},
		{"/hard.service", "hard.service", ""},
		{"/half.service/sup", "half.service", "cpu pids"},
		{"/soft.service", "", ""},
		{"/", "", ""},
		{"", "", ""},
	} {
		leaves, missing := delegated(mount, c.cgroup)
		want := ""
		if c.leaves != "" {
			want = filepath.Join(mount, c.leaves, cgroup.Parent)
		}
		if leaves != want || strings.Join(missing, " ") != c.missing {
			t.Errorf("%q: got %q, %q, want %q, %q", c.cgroup, leaves, missing, want, c.missing)
		}
	}
}

func TestCgroups(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, version string
		services      []service
		want          string
	}{
		{"no cgroup v2", "v1", nil, "v1: limits are soft"},
		{"nothing runs", "v2", nil, "no Podman service of somebody runs"},
		{"nothing delegated", "v2", []service{{7, "/user.slice"}}, "none is delegated to the Podman service (process 7)"},
	} {
		r := &report{Config: Config{PodmanUser: "somebody"}}
		r.cgroups(c.version, c.services)
		if len(r.findings) != 1 || r.findings[0].Level != Warning || r.findings[0].Fix == "" || !strings.Contains(r.findings[0].Text, c.want) {
			t.Errorf("%s: got %+v, want one warning with %q", c.name, r.findings, c.want)
		}
	}
}

func TestIsService(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"podman system service --time 0": true, "/usr/bin/podman system service": true,
		"podman system info": false, "bash podman system service": false, "podman": false, "": false,
	} {
		if got := isService([]byte(strings.ReplaceAll(line, " ", "\x00"))); got != want {
			t.Errorf("%q: got %t, want %t", line, got, want)
		}
	}
}
