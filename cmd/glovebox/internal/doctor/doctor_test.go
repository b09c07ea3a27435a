package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
)

func TestOlder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, floor string
		want           bool
	}{
		{"6.18.44-fc-v657", "5.13", false},
		{"5.10.0-21-amd64", "5.13", true},
		{"5.13", "5.13", false},
		{"4.3.1+ds1-8", "4.3.1", false},
		{"4.3", "4.3.1", true},
		{"10.0", "9.9", false},
		{"", "1", true},
	} {
		if got := Older(c.version, c.floor); got != c.want {
			t.Errorf("Older(%q, %q): got %t, want %t", c.version, c.floor, got, c.want)
		}
	}
}

func TestRedisIsSafe(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"7.0.15": false, "7.2.15": false, "7.2.16": true, "7.4.10": false, "7.4.11": true, "8.0.6": false, "8.2.8": false, "8.2.9": true,
		"8.4.5": false, "8.4.6": true, "8.6.0": false, "8.6.6": true, "8.8.1": false, "8.8.2": true, "8.10.0": false, "8.10.1": true, "8.12.0": true, "": false,
	} {
		if got := RedisIsSafe(version); got != want {
			t.Errorf("%q: got %t, want %t", version, got, want)
		}
	}
}

func TestSubordinate(t *testing.T) {
	t.Parallel()
	file := []byte("a:100000:65536\nb:165536:1000\n1001:300000:5\nb:400000:x\nbroken\n")
	for _, c := range []struct {
		name, id string
		want     int
	}{{"a", "1000", 65536}, {"b", "1001", 1005}, {"c", "1002", 0}} {
		if got := Subordinate(file, c.name, c.id); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// find returns the finding of that name.
func find(t *testing.T, all []Finding, name string) Finding {
	t.Helper()
	for _, f := range all {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no finding %q among %v", name, all)
	return Finding{}
}

func TestNothingInstalled(t *testing.T) {
	t.Parallel()
	all := Run(t.Context(), Config{ToolsDir: t.TempDir(), Podman: []string{filepath.Join(t.TempDir(), "podman")}, PodmanUser: "no-such-user"})
	if Healthy(all) {
		t.Error("got healthy")
	}
	for _, name := range []string{"podman user", "runsc", "tools", "podman"} {
		if f := find(t, all, name); f.Level != Problem || f.Fix == "" {
			t.Errorf("got %+v, want a problem with a fix", f)
		}
	}
}

// fakePodman answers podman info, images, unshare (which lists root images) and run.
func fakePodman(t *testing.T, info, images, roots, run string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "podman")
	script := "#!/bin/sh\ncase $1 in\ninfo) cat <<'X'\n" + info + "\nX\n;;\nimages) echo '" + images + "';;\nunshare) echo '" + roots + "';;\nrun) echo '" + run + "';;\nesac\n"
	// Nothing forks meanwhile: a child of another test would hold the file open for writing until its exec, and the kernel
	// refuse to execute it.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func TestUnsafePodman(t *testing.T) {
	t.Parallel()
	// As podman info says it, except for a Podman that runs as root, with crun and vfs.
	info := `{"host":{"cgroupVersion":"v1","logDriver":"journald","ociRuntime":{"name":"crun"},
		"security":{"rootless":false}},"store":{"graphDriverName":"vfs"},"version":{"Version":"4.2.0"}}`
	all := Run(t.Context(), Config{
		ToolsDir: t.TempDir(), PodmanUser: "root", Images: map[string]string{"bash": "localhost/glovebox/bash:1"},
		Podman: fakePodman(t, info, "localhost/glovebox/bash:1 sha256:abc", "", "Linux version 6.1.0"),
	})
	for _, name := range []string{"podman", "rootless", "OCI runtime", "storage", "log driver", "sandbox"} {
		if f := find(t, all, name); f.Level != Problem {
			t.Errorf("got %+v, want a problem", f)
		}
	}
	if f := find(t, all, "cgroups"); f.Level != Warning || !strings.Contains(f.Text, "soft") {
		t.Errorf("got %+v, want a warning that limits are soft", f)
	}
}

func TestRootImages(t *testing.T) {
	t.Parallel()
	images := map[string]string{"bash": "localhost/glovebox/bash:1", "c": "localhost/glovebox/c:1", "node": "localhost/glovebox/node:1"}
	if script, err := os.ReadFile("../../../../infra/root-images.sh"); err != nil || !strings.Contains(string(script), "\nlayout="+strings.TrimSuffix(strings.TrimPrefix(rootImageSuffix, "."), ".erofs")+"\n") {
		t.Errorf("infra/root-images.sh doesn't give names that end with %s: %v", rootImageSuffix, err)
	}
	there := "localhost/glovebox/bash:1 sha256:aaa\nlocalhost/glovebox/c:1 sha256:bbb" // node's is not built
	for roots, want := range map[string]string{
		"/s/roots/aaa.1.erofs\n/s/roots/bbb.1.erofs":     "all there, in /s/roots",
		"/s/roots/agent-1.erofs\n/s/roots/bbb.1.erofs":   "missing: bash: ",
		"/s/roots/aaa.1.erofs\n/s/roots/bbb.1.erofs.old": "missing: c: ",
		"": "missing: bash, c: ",
	} {
		f := find(t, Run(t.Context(), Config{
			ToolsDir: t.TempDir(), PodmanUser: "root", Images: images,
			Podman: fakePodman(t, `{"store":{"graphRoot":"/s/storage"}}`, there, roots, ""),
		}), "root images")
		if missing := strings.HasPrefix(want, "missing"); !strings.HasPrefix(f.Text, want) || (f.Level == Warning) != missing || (f.Fix != "") != missing {
			t.Errorf("%q: got %+v, want %q", roots, f, want)
		}
	}
}

// TestImagesBesideBuild: Podman lists no images while it comes to one that a build has not finished. It is asked again.
func TestImagesBesideBuild(t *testing.T) {
	t.Parallel()
	building := filepath.Join(t.TempDir(), "building")
	if err := os.WriteFile(building, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	podman := fakePodman(t, `{"store":{"graphRoot":"/s/storage"}}`, "localhost/glovebox/bash:1 sha256:aaa", "", "")
	const late = `[ "$2" = images ] && rm "$BUILDING" 2>/dev/null && exit 125; exec "$@"` // the build is over once a list has failed
	all := Run(t.Context(), Config{
		ToolsDir: t.TempDir(), PodmanUser: "root", Images: map[string]string{"bash": "localhost/glovebox/bash:1"},
		Podman: append([]string{"env", "BUILDING=" + building, "sh", "-c", late, "sh"}, podman...),
	})
	if f := find(t, all, "images"); f.Level != OK || f.Text != "bash" {
		t.Errorf("got %+v, want the image that is there", f)
	}
	if _, err := os.Stat(building); err == nil {
		t.Error("no list failed: the test shows nothing")
	}
}

// TestOldImages: what earlier versions have left is a warning.
func TestOldImages(t *testing.T) {
	t.Parallel()
	for want, old := range map[string][]string{"": nil, "2 of earlier versions of the runtimes take up disk": {"localhost/glovebox/bash:1", "localhost/glovebox/bash:2"}} {
		got := ""
		for _, f := range Run(t.Context(), Config{
			ToolsDir: t.TempDir(), PodmanUser: "root", Images: map[string]string{"bash": "localhost/glovebox/bash:3"},
			OldImages: func(context.Context) ([]string, error) { return old, nil },
			Podman:    fakePodman(t, `{"store":{"graphRoot":"/s/storage"}}`, "localhost/glovebox/bash:3 sha256:aaa", "", ""),
		}) {
			if f.Name == "old images" {
				got = f.Text
			}
		}
		if got != want {
			t.Errorf("with %q: got %q, want %q", old, got, want)
		}
	}
}

func TestRedisAndS3(t *testing.T) {
	t.Parallel()
	r, s := gbtest.Redis(t), gbtest.S3(t)
	c := Config{ToolsDir: t.TempDir(), Podman: []string{"/nothing"}, Redis: record.Config{URL: r.URL()}, S3: artifacts.Config{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: "glovebox", AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: true, MaxAttempts: 1,
	}}
	all := Run(t.Context(), c)
	if f := find(t, all, "s3"); f.Level != Problem || f.Fix == "" {
		t.Errorf("no bucket: got %+v, want a problem with a fix", f)
	}
	for _, name := range []string{"redis policy", "redis AOF"} {
		if f := find(t, all, name); f.Level != OK {
			t.Errorf("got %+v, want ok", f)
		}
	}
	store, err := artifacts.Open(t.Context(), c.S3)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := set(t.Context(), r.URL(), "maxmemory-policy", "allkeys-lru"); err != nil {
		t.Fatal(err)
	}
	all = Run(t.Context(), c)
	if f := find(t, all, "s3"); f.Level != OK {
		t.Errorf("got %+v, want ok", f)
	}
	if f := find(t, all, "redis policy"); f.Level != Problem || !strings.Contains(f.Text, "allkeys-lru") {
		t.Errorf("got %+v, want a problem that names the policy", f)
	}
	for _, f := range all {
		if strings.Contains(f.Text+f.Fix, r.Password) || strings.Contains(f.Text, s.SecretKey) {
			t.Errorf("a secret is shown: %+v", f)
		}
	}
}

// TestUnsafeServers: what works, and could be safer.
func TestUnsafeServers(t *testing.T) {
	t.Parallel()
	r, s := gbtest.Redis(t), gbtest.S3(t, "--versioning-dir", t.TempDir())
	r.MayRefuse = true
	look := func(url string) []Finding {
		t.Helper()
		return Run(t.Context(), Config{ToolsDir: t.TempDir(), Podman: []string{"/nothing"}, Redis: record.Config{URL: url}, Warnings: []string{"no TLS"}, S3: artifacts.Config{
			Endpoint: s.Endpoint, Region: s.Region, Bucket: "glovebox", AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: true, MaxAttempts: 1,
		}})
	}
	want := func(all []Finding, name string, level Level, text string) {
		t.Helper()
		if f := find(t, all, name); f.Level != level || !strings.Contains(f.Text, text) {
			t.Errorf("got %+v, want %s: …%s…", f, level, text)
		}
	}
	client := s3.New(s3.Options{
		Region: s.Region, BaseEndpoint: &s.Endpoint, UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
	})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("glovebox")}); err != nil {
		t.Fatal(err)
	}
	if err := set(t.Context(), r.URL(), "appendfsync", "always"); err != nil {
		t.Fatal(err)
	}
	all := look(r.Admin())
	want(all, "redis user", Warning, `"default"`)
	want(all, "redis appendfsync", OK, "always")
	want(all, "settings", Warning, "no TLS")
	want(all, "s3", Warning, "was not tried")
	if _, err := client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: aws.String("glovebox"), VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	}); err != nil {
		t.Fatal(err)
	}
	if err := set(t.Context(), r.URL(), "appendfsync", "everysec"); err != nil {
		t.Fatal(err)
	}
	all = look(r.Admin())
	want(all, "redis appendfsync", Warning, "everysec: loses up to 2 s")
	want(all, "s3 versions", Warning, "old versions")
	all = look(r.API())
	want(all, "redis appendfsync", OK, "not looked at")
	for _, f := range all {
		if f.Name == "redis user" {
			t.Errorf("a user of its own: got %+v", f)
		}
	}
}

func set(ctx context.Context, url, name, value string) error {
	store, err := record.Open(ctx, record.Config{URL: url})
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Redis().ConfigSet(ctx, name, value).Err()
}

// TestPausedSessions: it is told whether they have room, where they are to have any.
func TestPausedSessions(t *testing.T) {
	t.Parallel()
	for mb, want := range map[int64]Level{0: "", 1: OK, 1 << 40: Warning} {
		r := &report{Config: Config{PauseMB: mb}}
		r.pausedSessions()
		if got := len(r.findings); (got == 1) != (want != "") || got == 1 && (r.findings[0].Level != want || (want != OK) != (r.findings[0].Fix != "")) {
			t.Errorf("%d MiB: got %+v, want %s", mb, r.findings, want)
		}
	}
}

// TestRedisRoom: a Redis that is full, or can't write to its disk, is a problem; one that soon will be is a warning.
func TestRedisRoom(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]struct {
		name  string
		level Level
		text  string
	}{
		"used_memory:104857600\nmaxmemory:104857600\n":                   {"redis memory", Problem, "100 of 100 MiB (maxmemory): it is full"},
		"used_memory:99614720\nmaxmemory:104857600\n":                    {"redis memory", Warning, "95 of 100 MiB"},
		"used_memory:10485760\nmaxmemory:104857600\n":                    {"redis memory", OK, "10 of 100 MiB"},
		"used_memory:1\nmaxmemory:0\naof_last_write_status:err\n":        {"redis disk", Problem, "append-only file"},
		"rdb_last_bgsave_status:err\naof_last_write_status:ok\n":         {"redis disk", Problem, "its snapshot"},
		"used_memory:1\nmaxmemory:0\nrdb_last_bgsave_status:ok\nx:err\n": {},
	} {
		r := &report{}
		r.redisRoom(info(said))
		if want.name == "" {
			if len(r.findings) > 0 {
				t.Errorf("%q: got %+v, want nothing", said, r.findings)
			}
			continue
		}
		if len(r.findings) != 1 || r.findings[0].Name != want.name || r.findings[0].Level != want.level || !strings.Contains(r.findings[0].Text, want.text) {
			t.Errorf("%q: got %+v, want %+v", said, r.findings, want)
		}
	}
}
