package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestSourceOf(t *testing.T) {
	t.Parallel()
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	clean := []debug.BuildSetting{setting("vcs.revision", "545772d"), setting("vcs.time", "2026-11-22T19:07:00Z"), setting("vcs.modified", "false")}
	for name, c := range map[string]struct {
		version  string
		settings []debug.BuildSetting
		why      string
	}{
		"a tag":           {"v0.1.0", clean, ""},
		"between tags":    {"v0.1.1-0.20261122190700-545772d00000", clean, ""},
		"with changes":    {"v0.1.0+dirty", append(clean[:2:2], setting("vcs.modified", "true")), "not committed"},
		"no repository":   {"(devel)", nil, "no commit is known"},
		"no known commit": {"v0.1.0", clean[1:], "no commit is known"},
		"no version":      {"(devel)", clean, "no commit is known"},
		"a bad date":      {"v0.1.0", []debug.BuildSetting{setting("vcs.time", "today")}, "commit's date"},
	} {
		got, err := sourceOf(&debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: c.version}, Settings: c.settings})
		if c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: got %+v, %v, want %q", name, got, err, c.why)
		}
		if c.why == "" && (err != nil || got.commit != "545772d" || !got.date.Equal(date)) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// TestDebianVersions: packages sort as the versions do.
func TestDebianVersions(t *testing.T) {
	t.Parallel()
	inOrder := []string{"v0.0.0-20261122190700-545772d00000", "v0.1.0-rc.1", "v0.1.0-rc.2", "v0.1.0", "v0.1.1-0.20261122190700-545772d00000", "v0.1.1"}
	want := []string{"0.0.0~20261122190700.545772d00000", "0.1.0~rc.1", "0.1.0~rc.2", "0.1.0", "0.1.1~0.20261122190700.545772d00000", "0.1.1"}
	for i, version := range inOrder {
		got := source{version: version}.debian()
		if got != want[i] {
			t.Errorf("%s: got %s, want %s", version, got, want[i])
		}
		if i == 0 {
			continue
		}
		dpkg, err := exec.LookPath("dpkg")
		if err != nil {
			t.Skip("SKIPPED, NOT PROVEN: there is no dpkg to compare versions")
		}
		if err := exec.CommandContext(t.Context(), dpkg, "--compare-versions", want[i-1]+"-1", "lt", got+"-1").Run(); err != nil {
			t.Errorf("dpkg: %s is not before %s", want[i-1], got)
		}
	}
}

// TestBuild compiles the smallest program in two clones of this repository: the bytes are the same, and
// say which commit they are of.
func TestBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a program twice; make release-check does so with all of them")
	}
	t.Parallel()
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("SKIPPED, NOT PROVEN: this tree is no clone of the repository")
	}
	var made [][]byte
	for range 2 {
		dir := t.TempDir()
		tree := filepath.Join(dir, "tree")
		clone := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "clone", "-q", "--no-tags", "../..", tree)
		if err := quietly(clone); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "glovebox-runtime")
		if err := build(t.Context(), tree, "./cmd/glovebox-runtime", out, runtime.GOARCH); err != nil {
			t.Fatal(err)
		}
		p, err := readProgram(out, "lib/glovebox-runtime")
		if err != nil {
			t.Fatal(err)
		}
		s, err := sourceOf(p.info)
		if err != nil || len(s.commit) != 40 {
			t.Errorf("it is of %+v, %v", s, err)
		}
		made = append(made, read(t, out))
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("two clones make two programs")
	}
}
