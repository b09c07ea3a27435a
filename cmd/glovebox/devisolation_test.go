package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestDevWithoutPodman: where there is no Podman, dev runs programs in processes if it is told to, and only then; and only jobs
// that accept it.
func TestDevWithoutPodman(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "redis")
	gbtest.Require(t, "s3")
	// All that it finds is a Redis, or a Valkey: neither Podman nor what belongs to it.
	path := t.TempDir()
	redis, err := exec.LookPath(gbtest.RedisProgram())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(redis, filepath.Join(path, filepath.Base(redis))); err != nil {
		t.Fatal(err)
	}
	d := &devTest{t: t, bin: buildAll(t), data: filepath.Join(t.TempDir(), "data")}
	env := append(d.env(), "PATH="+path, "HOME="+t.TempDir())

	plain := exec.CommandContext(t.Context(), d.bin+"/glovebox", "dev", "--api", "127.0.0.1:0")
	plain.Env = env
	if out, err := plain.CombinedOutput(); err == nil || !strings.Contains(string(out), "podman is not installed") {
		t.Errorf("without --isolation: got %v, %s", err, out)
	}

	began := time.Now()
	d.dev = gbtest.Start(t, []string{d.bin + "/glovebox", "dev", "--isolation", "process", "--api", "127.0.0.1:0"}, env, nil)
	d.untilReady(func() bool { return d.dev.Printed("Glovebox is ready") })
	t.Logf("ready after %s", time.Since(began).Round(100*time.Millisecond))
	for _, p := range descendants(t, d.dev.PID()) {
		if strings.Contains(p.command, "podman") || strings.Contains(p.command, "runsc") {
			t.Errorf("it runs %s", p.command)
		}
	}
	if said := d.dev.Output(); !strings.Contains(said, "ISOLATED BY PROCESSES ONLY") {
		t.Errorf("it does not say what isolates: %s", said)
	}

	t.Log("the command line accepts what the dev here gives")
	id := d.run("print(6 * 7)", "42\n")
	out, _, _ := d.glovebox("", "get", "--json", id)
	var r job.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.Runtime.Isolation != job.Process || r.LimitsEnforced != "soft" || r.Runtime.OCIRuntime != "" || r.Runtime.Image != "" || r.Runtime.ImageDigest != "" || r.Attestation == nil {
		t.Errorf("got %+v, %s", r.Runtime, r.LimitsEnforced)
	}
	if said, stderr, code := d.glovebox(out, "verify", "-"); code != exitOK {
		t.Errorf("verify: %s%s", said, stderr)
	}
	r.Runtime.Isolation = ""
	forged, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if said, stderr, code := d.glovebox(string(forged), "verify", "-"); code == exitOK {
		t.Errorf("as one of gVisor it verifies: %s%s", said, stderr)
	}

	t.Log("what says nothing, or wants gVisor, is refused")
	if _, stderr, code := d.glovebox("print(1)", "submit", "--runtime", "python", "--isolation", "gvisor", "--wait", "-"); code == exitOK || !strings.Contains(stderr, "isolation") {
		t.Errorf("got exit code %d, %s", code, stderr)
	}
	settings, err := config.ReadFile(filepath.Join(d.data, "env"))
	if err != nil {
		t.Fatal(err)
	}
	api, err := producer.New(settings.Get("GLOVEBOX_URL"), settings.Get("GLOVEBOX_TOKEN"))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	if j, err := api.Submit(t.Context(), job.Spec{Runtime: "python", Source: "print(1)"}); err == nil || !strings.Contains(err.Error(), "isolation") || !strings.Contains(err.Error(), "process, for code that you trust") {
		t.Errorf("without a word: got %+v, %v", j, err)
	}
	if x, err := api.StartSession(t.Context(), job.SessionSettings{Runtime: "python"}); err == nil || !strings.Contains(err.Error(), "has no sessions") {
		t.Errorf("a session: got %+v, %v", x, err)
	}
	if out, stderr, _ := d.glovebox("", "doctor"); !strings.Contains(out, "process: programs run on this host's kernel") || strings.Contains(out, "podman user") {
		t.Errorf("doctor says %s%s", out, stderr)
	}
	children := descendants(t, d.dev.PID())
	d.dev.Stop()
	d.gone(children)
}
