package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

func shared() File {
	return File{
		"GLOVEBOX_REDIS_URL": "redis://:pw@127.0.0.1:6379/0", "GLOVEBOX_S3_ENDPOINT": "http://127.0.0.1:7070",
		"GLOVEBOX_S3_BUCKET": "glovebox", "GLOVEBOX_S3_ACCESS_KEY": "a", "GLOVEBOX_S3_SECRET_KEY": "s",
	}
}

func with(base File, more File) File {
	base = maps.Clone(base)
	maps.Copy(base, more)
	return base
}

func workerEnv() File {
	return with(shared(), File{"GLOVEBOX_PODMAN_SOCKET": "unix:///run/x.sock", "GLOVEBOX_AGENT": "/a", "GLOVEBOX_INSTANCE": "i"})
}

func apiEnv() File {
	return with(shared(), File{
		"GLOVEBOX_PUBLIC_URL": "https://example.com/gb/", "GLOVEBOX_TOKEN": strings.Repeat("t", 20),
		"GLOVEBOX_WEBHOOK_KEY": "a b", "GLOVEBOX_WEBHOOK_ALLOW": "127.0.0.0/8:*,::1/128:80",
		"GLOVEBOX_CAPABILITY_KEY": base64.StdEncoding.EncodeToString(make([]byte, 32)),
	})
}

func TestReadWorker(t *testing.T) {
	t.Parallel()
	w, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_POLL_MS": "25", "GLOVEBOX_GRACE_SECONDS": "1"}).Get)
	if err != nil {
		t.Fatal(err)
	}
	if w.PodmanSocket != "/run/x.sock" || w.Poll != 25*time.Millisecond || w.Grace != time.Second || !w.S3.PathStyle || w.Concurrency < 1 || w.Warm != w.Concurrency || w.MemoryMB < 64 || w.CacheMB != 1024 || w.Snapshots != "auto" {
		t.Errorf("got %+v", w)
	}
	if w, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_PRELOAD": "0"}).Get); err != nil || w.Preload {
		t.Errorf("GLOVEBOX_PRELOAD=0: got %v, %v", w.Preload, err)
	}
	if w, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_SNAPSHOTS": "never"}).Get); err != nil || w.Snapshots != "never" {
		t.Errorf("GLOVEBOX_SNAPSHOTS=never: got %v, %v", w.Snapshots, err)
	}
	if w, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_CACHE_MB": "0"}).Get); err != nil || w.CacheMB != 0 {
		t.Errorf("GLOVEBOX_CACHE_MB=0: got %d, %v", w.CacheMB, err)
	}
	if w, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_CACHE_MB": "-1"}).Get); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_CACHE_MB") {
		t.Errorf("GLOVEBOX_CACHE_MB=-1: got %d, %v", w.CacheMB, err)
	}
	if w.PauseMB != 0 || w.PauseAfter != time.Minute {
		t.Errorf("sessions are paused: got %d MiB, after %s, want none", w.PauseMB, w.PauseAfter)
	}
	if w, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_SESSION_PAUSE_MB": "4096", "GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS": "5"}).Get); err != nil || w.PauseMB != 4096 || w.PauseAfter != 5*time.Second {
		t.Errorf("got %d MiB, after %s, %v", w.PauseMB, w.PauseAfter, err)
	}
	for name, value := range map[string]string{"GLOVEBOX_SESSION_PAUSE_MB": "-1", "GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS": "0"} {
		if w, err := ReadWorker(with(workerEnv(), File{name: value}).Get); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: got %+v, %v", name, value, w, err)
		}
	}
	if w, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_WARM": "0"}).Get); err != nil || w.Warm != 0 {
		t.Errorf("GLOVEBOX_WARM=0: got %d, %v", w.Warm, err)
	}
}

func TestSigningKey(t *testing.T) {
	t.Parallel()
	if w, err := ReadWorker(workerEnv().Get); err != nil || w.Signer != nil {
		t.Errorf("without a key: got %v, %v, want no signer", w.Signer, err)
	}
	seed := attest.NewSeed()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(seed+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	direct, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_SIGNING_KEY": seed}).Get)
	if err != nil {
		t.Fatal(err)
	}
	fromFile, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_SIGNING_KEY_FILE": path}).Get)
	if err != nil || fromFile.Signer.Key().ID != direct.Signer.Key().ID {
		t.Errorf("from a file: got %v, %v, want %v", fromFile.Signer, err, direct.Signer)
	}
	bad := seed[:40]
	if _, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_SIGNING_KEY": bad}).Get); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_SIGNING_KEY") || strings.Contains(err.Error(), bad) {
		t.Errorf("half a key: got %v, want an error that names the variable and not the key", err)
	}
}

func TestSecretsKey(t *testing.T) {
	t.Parallel()
	if w, err := ReadWorker(workerEnv().Get); err != nil || w.Secrets != nil {
		t.Errorf("without a key: got %v, %v, want none", w.Secrets, err)
	}
	first, second := secrets.NewKey(), secrets.NewKey()
	both, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_SECRETS_KEY": first + " " + second}).Get)
	if err != nil {
		t.Fatal(err)
	}
	one, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_SECRETS_KEY": first}).Get)
	if err != nil || both.Secrets.Public().ID != one.Secrets.Public().ID {
		t.Errorf("the first key is not the one to seal with: %v", err)
	}
	bad := second[:30]
	if _, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_SECRETS_KEY": first + " " + bad}).Get); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_SECRETS_KEY") || strings.Contains(err.Error(), bad) {
		t.Errorf("got %v, want an error that names the variable and not the key", err)
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	one, two := "localhost/a@sha256:"+strings.Repeat("0", 64), "registry.example.com/b/c@sha256:"+strings.Repeat("f", 64)
	path := filepath.Join(t.TempDir(), "images")
	if err := os.WriteFile(path, []byte("# ours\n"+one+"   # graders\n\n"+two+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, env := range []File{{"GLOVEBOX_IMAGES": one + " " + two}, {"GLOVEBOX_IMAGES_FILE": path}} {
		if w, err := ReadWorker(with(workerEnv(), env).Get); err != nil || !slices.Equal(w.Images, []string{one, two}) {
			t.Errorf("%v: got %v, %v", env, w.Images, err)
		}
	}
	if w, err := ReadWorker(workerEnv().Get); err != nil || len(w.Images) != 0 {
		t.Errorf("got %v, %v, want no image unless one is named", w.Images, err)
	}
	for _, bad := range []string{"localhost/a:latest", one + ":1", "*"} {
		if _, err := ReadWorker(with(workerEnv(), File{"GLOVEBOX_IMAGES": one + " " + bad}).Get); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_IMAGES has \""+bad) {
			t.Errorf("%s: got %v, want an error that names variable and value", bad, err)
		}
	}
}

func TestReadAPI(t *testing.T) {
	t.Parallel()
	a, err := ReadAPI(apiEnv().Get)
	if err != nil {
		t.Fatal(err)
	}
	if a.Prices != nil {
		t.Errorf("got %+v, want no prices unless there are some", a.Prices)
	}
	priced, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_PRICES": "run=200,cpu_second=14000"}).Get)
	if err != nil || priced.Prices == nil || *priced.Prices != (job.Prices{Run: 200, CPUSecond: 14_000}) {
		t.Errorf("got %+v, %v, want prices", priced.Prices, err)
	}
	if _, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_PRICES": "run=0.2"}).Get); err == nil || !strings.Contains(err.Error(), `GLOVEBOX_PRICES can't be read: run is "0.2"`) {
		t.Errorf("got %v, want an error that names variable and value", err)
	}
	if a.PublicURL != "https://example.com/gb" || a.WebhookKey != "a b" || len(a.WebhookAllow) != 2 || len(a.CapabilityKeys) != 1 || a.Addr != DefaultAPIAddr {
		t.Errorf("got %+v", a)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	// Every fault at once, and no secret among the words.
	_, err := ReadWorker(File{"GLOVEBOX_POLL_MS": "0", "GLOVEBOX_S3_SECRET_KEY": "hush", "GLOVEBOX_LOG": "xml"}.Get)
	for _, name := range []string{"REDIS_URL", "S3_BUCKET", "S3_ACCESS_KEY", "PODMAN_SOCKET", "AGENT", "INSTANCE", "POLL_MS", "LOG"} {
		if err == nil || !strings.Contains(err.Error(), "GLOVEBOX_"+name) {
			t.Errorf("got %v, want GLOVEBOX_%s named", err, name)
		}
	}
	if strings.Contains(err.Error(), "hush") {
		t.Error("the error shows a secret")
	}
	for name, bad := range map[string]string{
		"GLOVEBOX_TOKEN": "short", "GLOVEBOX_CAPABILITY_KEY": "c2hvcnQ=", "GLOVEBOX_PUBLIC_URL": "ftp://x", "GLOVEBOX_S3_ENDPOINT": "127.0.0.1:1",
		"GLOVEBOX_S3_PATH_STYLE": "maybe", "GLOVEBOX_WEBHOOK_KEY": "", "GLOVEBOX_S3_BUCKET": "",
	} {
		if _, err := ReadAPI(with(apiEnv(), File{name: bad}).Get); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%q: got %v, want an error that names it", name, bad, err)
		}
	}
}

func TestAdminToken(t *testing.T) {
	t.Parallel()
	admin := strings.Repeat("a", 20)
	for _, c := range []struct {
		env File
		bad string // what the error names
	}{
		{File{"GLOVEBOX_ADMIN_TOKEN": admin}, ""},
		{File{"GLOVEBOX_ADMIN_TOKEN": admin, "GLOVEBOX_TOKEN": ""}, ""},
		{File{"GLOVEBOX_TOKEN": ""}, "GLOVEBOX_TOKEN"},
		{File{"GLOVEBOX_ADMIN_TOKEN": "short"}, "GLOVEBOX_ADMIN_TOKEN"},
		{File{"GLOVEBOX_ADMIN_TOKEN": strings.Repeat("t", 20)}, "a secret of its own"}, // as apiEnv's token
	} {
		a, err := ReadAPI(with(apiEnv(), c.env).Get)
		switch {
		case c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)):
			t.Errorf("%v: got %v, want an error that says %q", c.env, err, c.bad)
		case c.bad == "" && (err != nil || a.AdminToken != admin):
			t.Errorf("%v: got %q, %v", c.env, a.AdminToken, err)
		}
	}
}

func TestSecretFromFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("from-a-file-of-its-own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_TOKEN": "", "GLOVEBOX_TOKEN_FILE": path}).Get)
	if err != nil || a.Token != "from-a-file-of-its-own" {
		t.Errorf("got %q, %v", a.Token, err)
	}
	if _, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_TOKEN_FILE": path}).Get); err == nil {
		t.Error("a secret and its file: got no error")
	}
	if _, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_TOKEN": "", "GLOVEBOX_TOKEN_FILE": path + "x"}).Get); err == nil {
		t.Error("a file that is not there: got no error")
	}
}

func TestTenantQuotas(t *testing.T) {
	t.Parallel()
	a, err := ReadAPI(apiEnv().Get)
	if err != nil || a.NewTenants.JobsQueued != 20_000 || a.NewTenants.BytesStored != 10<<30 || a.NewTenants.RunningAtOnce != 0 {
		t.Errorf("by default: got %+v, %v", a.NewTenants, err)
	}
	a, err = ReadAPI(with(apiEnv(), File{"GLOVEBOX_TENANT_QUOTAS": "jobs_queued=7"}).Get)
	if err != nil || a.NewTenants != (job.Quotas{JobsQueued: 7}) {
		t.Errorf("as set: got %+v, %v", a.NewTenants, err)
	}
	if _, err = ReadAPI(with(apiEnv(), File{"GLOVEBOX_TENANT_QUOTAS": "jobs=7"}).Get); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_TENANT_QUOTAS") {
		t.Errorf("a quota that there isn't: got %v", err)
	}
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	read := func(text string) (string, error) {
		a, err := ReadAPI(with(apiEnv(), File{"GLOVEBOX_TRUSTED_PROXIES": text}).Get)
		return fmt.Sprint(a.TrustedProxies), err
	}
	const text = "10.1.2.3, 10.0.0.0/8 2001:db8::1 2001:db8::/32 ::ffff:192.0.2.0/120 ::ffff:192.0.2.1"
	if got, err := read(text); err != nil || got != "[10.1.2.3/32 10.0.0.0/8 2001:db8::1/128 2001:db8::/32 192.0.2.0/24 192.0.2.1/32]" {
		t.Errorf("got %s, %v", got, err)
	}
	for _, bad := range []string{"0.0.0.0/0", "10.0.0.0/7", "::/0", "2001:db8::/31", "::ffff:0.0.0.0/96", "::ffff:10.0.0.0/103", "::ffff:10.0.0.0/95", "proxy", "10.1.2.3:80"} {
		if got, err := read(bad); err == nil || !strings.Contains(err.Error(), "GLOVEBOX_TRUSTED_PROXIES has \""+bad+`"`) {
			t.Errorf("%s: got %s, %v; want an error that names it", bad, got, err)
		}
	}
}
