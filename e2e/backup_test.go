package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// operator runs commands of the operator's against the Redis and the bucket of an installation.
type operator struct {
	t   *testing.T
	env []string
}

func (g *glovebox) operator(t *testing.T) operator {
	t.Helper()
	return operator{t, append(slices.Clone(g.shared), "GLOVEBOX_REDIS_URL="+g.redis.Admin(), "HOME="+t.TempDir(), "PATH="+os.Getenv("PATH"))}
}

// says runs "glovebox args…", wants the exit code and what it says, and returns that.
func (o operator) says(code int, wants []string, args ...string) string {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), binary(o.t, "glovebox"), args...)
	cmd.Env = o.env
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		o.t.Fatalf("glovebox %s: got exit code %d (%v), want %d; it said\n%s", strings.Join(args, " "), got, err, code, out)
	}
	for _, want := range wants {
		if !regexp.MustCompile(want).Match(out) {
			o.t.Errorf("glovebox %s: want %s in\n%s", strings.Join(args, " "), want, out)
		}
	}
	return string(out)
}

// download reads the artifact of a job's.
func (g *glovebox) download(id, name string) string {
	g.tb.Helper()
	f, err := g.client.Open(g.tb.Context(), id, producer.ArtifactPath(name))
	if err != nil {
		g.tb.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		g.tb.Fatal(err)
	}
	return string(b)
}

// TestBackupCommand: a backup is made while jobs have ended, run and wait; then all is lost. Restored into a
// Redis and a bucket that are empty, each job comes to one result, and what had one keeps it.
func TestBackupCommand(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	ended := g.submit(job.Spec{Runtime: "bash", Source: "echo hello; seq 30000 | tee numbers.txt | sha256sum"})
	before := g.wait(ended)
	numbers := g.download(ended, "numbers.txt")
	var accepted []string
	for range 2 { // as many as run at once
		accepted = append(accepted, g.submit(held("late")))
	}
	g.allRun(1, accepted)
	for range 6 {
		accepted = append(accepted, g.submit(g.chart()))
	}

	o := g.operator(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "gb.tar")
	made := o.says(0, []string{`records +\d+ keys: 9 jobs`, `objects +[1-9]`, `sha256 +[0-9a-f]{64}\n`, `mode 0600`}, "backup", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: got %v, %v", info, err)
	}
	sum := regexp.MustCompile(`sha256 +(\S+)`).FindStringSubmatch(made)[1]
	for _, secret := range []string{g.redis.Password, g.s3.SecretKey} {
		if strings.Contains(made, secret) {
			t.Errorf("a secret is in\n%s", made)
		}
	}
	later := g.submit(job.Spec{Runtime: "bash", Source: "echo later"}) // the backup doesn't have it
	o.says(2, []string{`gb\.tar is there already`}, "backup", file)
	o.says(0, []string{`9 jobs`, sum}, "restore", "--check", file)
	o.says(1, []string{`an api or worker is connected`, `systemctl stop`}, "restore", "--replace", file)
	o.refusesDamaged(file, dir)

	g.worker.Kill()
	g.api.Kill()
	g.podman.Kill() // and with the machine its sandboxes
	g.podman.Restart()
	g.redis.Kill()
	g.s3.Kill()

	// Another Redis, another bucket; the same keys and tokens.
	g.redis, g.s3 = gbtest.Redis(t), gbtest.S3(t)
	makeBucket(t, g.s3)
	g.shared = []string{
		"GLOVEBOX_S3_ENDPOINT=" + g.s3.Endpoint, "GLOVEBOX_S3_REGION=" + g.s3.Region,
		"GLOVEBOX_S3_BUCKET=" + bucket, "GLOVEBOX_S3_ACCESS_KEY=" + g.s3.AccessKey, "GLOVEBOX_S3_SECRET_KEY=" + g.s3.SecretKey,
	}
	o = g.operator(t)
	o.says(1, []string{`--sha256 wants another`}, "restore", "--sha256", strings.Repeat("0", 64), file)
	if keys := g.objects(); len(keys) != 0 {
		t.Fatalf("what was refused put %v into the bucket", keys)
	}
	o.says(0, []string{`restored; \d+ objects of later jobs were left out, 0 that no record`}, "restore", "--sha256", sum, file)
	o.says(1, []string{`there are records in this Redis`, `--replace`}, "restore", file)
	o.says(0, []string{`restored; `}, "restore", "--replace", file)

	g.startAPI()
	g.worker = g.startWorker()
	if after := g.wait(ended); after.Attempt != before.Attempt || after.Worker != before.Worker || after.Stdout != before.Stdout || !after.Timing.FinishedAt.Equal(*before.Timing.FinishedAt) {
		t.Errorf("a job that had ended: got %+v, want %+v", after, before)
	}
	if got := g.download(ended, "numbers.txt"); got != numbers {
		t.Errorf("its artifact: got %d bytes, want %d", len(got), len(numbers))
	}
	g.allRun(2, accepted[:2])
	g.release(accepted[:2])
	results := []job.Result{before}
	for i, id := range accepted {
		r := g.wait(id)
		if want := []string{"late\n", "hello\n"}[min(i/2, 1)]; r.Status != job.Succeeded || r.Stdout != want {
			t.Errorf("job %d: got %s, %q, want it succeeded with %q", i, r.Status, r.Stdout, want)
		}
		if i < 2 && r.Attempt != 2 {
			t.Errorf("job %d ran as the backup was made: got attempt %d, want 2", i, r.Attempt)
		}
		results = append(results, r)
	}
	if _, err := g.client.Get(t.Context(), later); err == nil {
		t.Errorf("a job of after the backup is there")
	}
	g.nothingLeft(results...)
	told := map[string]string{}
	for _, m := range g.hook.messages(t, 6, patience) {
		if first, ok := told[m.Result.ID]; ok && first != m.ID {
			t.Errorf("the result of %s came under two ids: %s, %s", m.Result.ID, first, m.ID)
		}
		told[m.Result.ID] = m.ID
	}
}

// refusesDamaged: a file that is cut off, and one with a byte that was changed, are refused.
func (o operator) refusesDamaged(file, dir string) {
	o.t.Helper()
	whole, err := os.ReadFile(file)
	if err != nil {
		o.t.Fatal(err)
	}
	changed := slices.Clone(whole)
	changed[len(changed)/2] ^= 0x20
	for name, b := range map[string][]byte{"empty": nil, "cut off": whole[:len(whole)*2/3], "changed": changed, "no backup": []byte(strings.Repeat("x", 5000))} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			o.t.Fatal(err)
		}
		o.t.Log(name + ": " + o.says(1, []string{regexp.QuoteMeta(path) + `: this is not a whole and unchanged backup`}, "restore", "--check", path))
	}
}

// TestBackupNeeds: what a backup lacks is said with the name of the setting, the user or the file.
func TestBackupNeeds(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	o := g.operator(t)
	file := filepath.Join(t.TempDir(), "gb.tar")
	o.says(2, []string{`no such file or directory\n$`}, "restore", "--check", file)
	o.says(2, []string{`FILE`}, "backup")
	o.says(1, []string{`no-such-dir.*no such file or directory\n$`}, "backup", filepath.Join(t.TempDir(), "no-such-dir", "gb.tar"))
	lacking := operator{t, []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "GLOVEBOX_REDIS_URL=" + g.redis.Admin()}}
	lacking.says(2, []string{`GLOVEBOX_S3_`, `--settings`}, "backup", file)
	g.redis.MayRefuse = true
	api := operator{t, append(slices.Clone(o.env), "GLOVEBOX_REDIS_URL="+g.redis.API())}
	out := api.says(1, []string{`NOPERM`, `has to be of Redis' user "default"`}, "backup", file)
	if strings.Contains(out, g.redis.Password) {
		t.Error("a password is in what it says")
	}
	t.Log(out)
	if _, err := os.Stat(file); err == nil {
		t.Error("a backup that failed left a file")
	}
	settings := filepath.Join(t.TempDir(), "operator.env")
	if err := os.WriteFile(settings, []byte(strings.Join(o.env[:len(g.shared)+1], "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	operator{t, []string{"HOME=" + t.TempDir()}}.says(0, []string{`records +\d+ keys: 0 jobs`}, "backup", "--settings", settings, file)
}
