package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLeavesOf looks for the delegated directory in trees like those of systemd. That
// the kernel takes what is written there is shown in worker/sandbox and by make test-vm.
func TestLeavesOf(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	for _, dir := range []string{"system.slice/unit/" + leavesName + "/abc", "system.slice/unit/sup/deep", "system.slice/other/sup"} {
		if err := os.MkdirAll(filepath.Join(mount, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, self string
		want       string // below mount
	}{
		{name: "beside", self: "0::/system.slice/unit/sup\n", want: "system.slice/unit/" + leavesName},
		{name: "above", self: "0::/system.slice/unit/sup/deep\n", want: "system.slice/unit/" + leavesName},
		{name: "in the unit itself", self: "0::/system.slice/unit\n", want: "system.slice/unit/" + leavesName},
		{name: "in a leaf", self: "0::/system.slice/unit/" + leavesName + "/abc\n", want: "system.slice/unit/" + leavesName},
		{name: "not delegated", self: "0::/system.slice/other/sup\n"},
		{name: "gone", self: "0::/system.slice/gone (deleted)\n"},
		{name: "root", self: "0::/\n"},
		{name: "hybrid", self: "12:pids:/system.slice/unit/sup\n1:name=systemd:/x\n0::/\n"},
		{name: "v1 only", self: "12:pids:/system.slice/unit/sup\n"},
		{name: "outside of the mount", self: "0::/../../system.slice/other\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			self := filepath.Join(t.TempDir(), "cgroup")
			if err := os.WriteFile(self, []byte(tt.self), 0o600); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want != "" {
				want = filepath.Join(mount, want)
			}
			if got, err := leavesOf(mount, self); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}

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

func TestLeafOf(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"create --bundle /b abc": "/u/abc", "delete --force abc": "/u/abc",
		"create ../abc": "", "create ..": "", "create .": "", "create a/b": "",
	} {
		got, err := leafOf("/u", strings.Fields(args))
		if (err == nil) != (want != "") || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", args, got, err, want)
		}
	}
}
