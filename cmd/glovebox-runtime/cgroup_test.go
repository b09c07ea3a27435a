package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/cgroup"
)

func TestBoundsOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, resources string
		want            bounds
		refused         string // part of the error
	}{
		{
			name:      "all",
			resources: `{"memory":{"limit":134217728},"cpu":{"quota":50000,"period":100000},"pids":{"limit":200}}`,
			want:      bounds{memory: "134217728", cpu: "50000 100000", pids: "200"},
		},
		{name: "none", resources: `{}`, refused: "without linux.resources."},
		{name: "no memory", resources: `{"cpu":{"quota":50000,"period":100000},"pids":{"limit":200}}`, refused: "memory.limit"},
		{name: "memory without end", resources: `{"memory":{"limit":-1},"cpu":{"quota":50000,"period":100000},"pids":{"limit":200}}`, refused: "memory.limit"},
		{name: "no cpu", resources: `{"memory":{"limit":1},"pids":{"limit":200}}`, refused: "cpu.quota"},
		{name: "no period", resources: `{"memory":{"limit":1},"cpu":{"quota":50000},"pids":{"limit":200}}`, refused: "cpu.quota"},
		{name: "no processes", resources: `{"memory":{"limit":1},"cpu":{"quota":50000,"period":100000}}`, refused: "pids.limit"},
		{name: "no end of processes", resources: `{"memory":{"limit":1},"cpu":{"quota":50000,"period":100000},"pids":{"limit":0}}`, refused: "pids.limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var c config
			if err := json.Unmarshal([]byte(`{"linux":{"resources":`+tt.resources+`}}`), &c); err != nil {
				t.Fatal(err)
			}
			got, err := boundsOf(c)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("got %+v, %v, want an error with %q", got, err, tt.refused)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestCgroupOf(t *testing.T) {
	t.Parallel()
	if got, err := cgroupOf("/u", []string{"delete", ""}); err == nil {
		t.Errorf("no id: got %q", got)
	}
	for args, want := range map[string]string{
		"create --bundle /b abc": "/u/abc", "delete --force abc": "/u/abc",
		"create ../abc": "", "create ..": "", "create .": "", "create a/b": "",
	} {
		got, err := cgroupOf("/u", strings.Fields(args))
		if (err == nil) != (want != "") || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", args, got, err, want)
		}
	}
}

// TestCgroupWithout: a file that the kernel doesn't have is missing, and isn't made.
func TestCgroupWithout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := sandboxCgroup(dir)
	for _, name := range []string{"memory.max", "memory.oom.group", "cpu.max", "pids.max"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.write("cgroup.kill", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
	err := c.limit(bounds{memory: "134217728", cpu: "50000 100000", pids: "200"})
	if swaps := cgroup.Swaps(); (err != nil) != swaps || swaps && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a kernel that doesn't account for swap, on a host with swap %v: got %v", swaps, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "memory.max")); err != nil || string(got) != "134217728" {
		t.Errorf("got a limit of memory %q, %v", got, err)
	}
	for _, name := range []string{"memory.swap.max", "cgroup.kill"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want %v", name, err, fs.ErrNotExist)
		}
	}
}
