package cgroup_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/glovebox-run/glovebox/internal/cgroup"
)

// TestParentOf looks for the delegated directory in trees like those of systemd. That
// the kernel takes what is written there is shown by worker/sandbox/podman and make test-vm.
func TestParentOf(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	for _, dir := range []string{"system.slice/unit/" + cgroup.Parent + "/abc", "system.slice/unit/sup/deep", "system.slice/other/sup"} {
		if err := os.MkdirAll(filepath.Join(mount, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, self string
		want       string // below mount
	}{
		{name: "beside", self: "0::/system.slice/unit/sup\n", want: "system.slice/unit/" + cgroup.Parent},
		{name: "above", self: "0::/system.slice/unit/sup/deep\n", want: "system.slice/unit/" + cgroup.Parent},
		{name: "in the unit itself", self: "0::/system.slice/unit\n", want: "system.slice/unit/" + cgroup.Parent},
		{name: "in a sandbox's", self: "0::/system.slice/unit/" + cgroup.Parent + "/abc\n", want: "system.slice/unit/" + cgroup.Parent},
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
			path, err := cgroup.Of(self)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := cgroup.ParentOf(mount, path); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}
