package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	testImage = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	testAgent = `{"destination":"/glovebox-agent","type":"bind","source":"%s","options":["bind","ro"]}`
	testTmp   = `{"destination":"/tmp","type":"tmpfs","source":"tmpfs","options":["size=64m"]}`
)

// layOut makes a store's place with one bundle, one root image and an agent.
func layOut(t *testing.T) (bundle, agent string) {
	t.Helper()
	top := t.TempDir()
	bundle, agent = filepath.Join(top, "storage/overlay-containers/abc/userdata"), filepath.Join(top, "glovebox-agent")
	for _, dir := range []string{bundle, filepath.Join(top, "roots")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{agent, filepath.Join(top, "roots", testImage+"."+layout+".erofs")} {
		if err := os.WriteFile(file, []byte("something"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return bundle, agent
}

func TestUseImages(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                          string
		image, root, args, moreMounts string
		noAgent, used                 bool
	}{
		{name: "a worker's sandbox", used: true},
		{name: "with Podman's own files", moreMounts: `,{"destination":"/etc/hostname","type":"bind","source":"/x"},{"destination":"/run/.containerenv","type":"bind","source":"/x"}`, used: true},
		{name: "no root image", image: strings.Repeat("0", 64)},
		{name: "not by a worker", image: "-"},
		{name: "a path for an image", image: "../../../../../../../../../../../../../../../etc/passwd/../../../etc"},
		{name: "a root to write to", root: `{"path":"/r"}`},
		{name: "another file of the host", moreMounts: `,{"destination":"/etc/hosts","type":"bind","source":"/x"}`},
		{name: "another file of the host, by its options", moreMounts: `,{"destination":"/data","type":"none","source":"/x","options":["rbind"]}`},
		{name: "a mount without a place", moreMounts: `,{"destination":"/data","type":"tmpfs","source":"tmpfs"}`},
		{name: "no agent", args: `["sh"]`, noAgent: true},
		{name: "another program", args: `["sh"]`},
		{name: "an agent with arguments", args: `["/glovebox-agent","-x"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bundle, agent := layOut(t)
			set := func(value, usual string) string {
				if value == "" {
					return usual
				}
				return value
			}
			given := fmt.Sprintf(`{"process":{"args":%s,"cwd":"/"},"root":%s,"mounts":[`+testAgent+`,`+testTmp+`%s],"annotations":{"run.glovebox.image":%q,"a":"b"},"hostname":"h"}`,
				set(tt.args, `["/glovebox-agent"]`), set(tt.root, `{"path":"/r","readonly":true}`), agent, tt.moreMounts, set(tt.image, testImage))
			if tt.noAgent {
				given = strings.Replace(given, fmt.Sprintf(testAgent+",", agent), "", 1)
			}
			file := filepath.Join(bundle, "config.json")
			if err := os.WriteFile(file, []byte(given), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := readConfig(bundle)
			if err == nil {
				err = useImages(bundle, c)
			}
			if err != nil {
				t.Fatal(err)
			}
			written, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !tt.used {
				if string(written) != given {
					t.Errorf("it was changed: %s", written)
				}
				return
			}
			image, err := agentImage(rootImageDir(bundle), agent)
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`{"process":{"args":["/glovebox-agent/agent"],"cwd":"/"},"root":{"path":"/r","readonly":true},"hostname":"h",
				"mounts":[{"destination":"/glovebox-agent","type":"erofs","source":%q,"options":["ro","nosuid","nodev"]},`+testTmp+`],
				"annotations":{"dev.gvisor.spec.rootfs.source":%q,"dev.gvisor.spec.rootfs.type":"erofs"}}`,
				image, filepath.Join(rootImageDir(bundle), testImage+"."+layout+".erofs"))
			if !reflect.DeepEqual(parsed(t, string(written)), parsed(t, want)) {
				t.Errorf("got %s\nwant %s", written, want)
			}
		})
	}
}

func parsed(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return v
}

// TestMountPoints: what infra/root-images.sh makes is what is counted on here.
func TestMountPoints(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../infra/root-images.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nlayout=" + layout + "\n", "\nplaces=\"" + strings.Join(mountPoints, " ") + "\"\n"} {
		if !strings.Contains(string(script), want) {
			t.Errorf("infra/root-images.sh has no line %s", want)
		}
	}
	for destination, want := range map[string]bool{"/tmp": true, "/dev/pts": true, "/sys/fs/cgroup": true, "/data": false, "/": false, "/tmpx": false, "tmp": true, "": false} {
		if got := hasMountPoint(destination); got != want {
			t.Errorf("%q: got %v", destination, got)
		}
	}
}

func TestUseImagesFails(t *testing.T) {
	t.Parallel()
	bundle, agent := layOut(t)
	c := config{Annotations: map[string]string{imageAnnotation: testImage}}
	c.Root.Readonly, c.Process.Args = true, []string{agentMount}
	c.Mounts = []mount{{Destination: agentMount, Type: "bind", Source: "/nowhere/agent"}}
	if err := useImages(bundle, c); err == nil || !strings.Contains(err.Error(), "/nowhere/agent") {
		t.Errorf("without an agent: got %v, want an error that names it", err)
	}
	c.Mounts[0].Source = agent
	if err := useImages(bundle, c); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("without a configuration: got %v, want an error that names it", err)
	}
}

// TestAgentImage: an agent's image is made once, and anew for another agent at its place.
func TestAgentImage(t *testing.T) {
	t.Parallel()
	bundle, agent := layOut(t)
	dir := rootImageDir(bundle)
	made := func() string {
		t.Helper()
		image, err := agentImage(dir, agent)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("fsck.erofs", image).CombinedOutput(); err != nil { //nolint:noctx // it ends at once
			t.Errorf("fsck.erofs %s: %v: %s", image, err, out)
		}
		return image
	}
	first := made()
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	again := made()
	if after, err := os.Stat(again); err != nil || !os.SameFile(before, after) {
		t.Errorf("it was made again: %s and %s, %v", first, again, err)
	}

	// What is old goes when another is made, and what a killed process left.
	leftover := filepath.Join(dir, agentPrefix+"new-1", "root")
	if err := os.MkdirAll(leftover, 0o755); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * agentAge)
	for _, file := range []string{first, filepath.Dir(leftover)} {
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(agent, []byte("something else"), 0o755); err != nil {
		t.Fatal(err)
	}
	second := made()
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(dir, testImage+"."+layout+".erofs"), second}; second == first || !slices.Equal(want, left) {
		t.Errorf("there are %q, want %q", left, want)
	}
}
