package artifacts_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/artifacts"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	k := keys(t, "j-1_A")
	for _, test := range []struct{ got, want string }{
		{k.Prefix(), "tenants/acme/jobs/j-1_A/"},
		{k.Spec(), "tenants/acme/jobs/j-1_A/spec.json"},
		{k.EpochPrefix(12), "tenants/acme/jobs/j-1_A/12/"},
		{k.Result(12), "tenants/acme/jobs/j-1_A/12/result.json"},
		{k.Submission(1), "tenants/acme/jobs/j-1_A/1/submission.json"},
		{k.Input(1), "tenants/acme/jobs/j-1_A/1/input.json"},
		{k.Stdout(1), "tenants/acme/jobs/j-1_A/1/stdout"},
		{k.Stderr(1), "tenants/acme/jobs/j-1_A/1/stderr"},
		{k.Artifact(1, "out/plot-1.png"), "tenants/acme/jobs/j-1_A/1/artifacts/out/plot-1.png"},
		{k.Artifact(1, "a b+c%.txt"), "tenants/acme/jobs/j-1_A/1/artifacts/a~20b~2Bc~25.txt"},
		{k.Artifact(1, "../../x"), "tenants/acme/jobs/j-1_A/1/artifacts/~2E~2E/~2E~2E/x"},
		{k.Artifact(1, "größe.csv"), "tenants/acme/jobs/j-1_A/1/artifacts/gr~C3~B6~C3~9Fe.csv"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

func TestJobKeysRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a/b", "..", "a.b", "é", "a b", "a\x00", strings.Repeat("a", 65)} {
		if _, err := artifacts.JobKeys(bad, "j1"); err == nil {
			t.Errorf("tenant %q: got nil, want an error", bad)
		}
		if _, err := artifacts.JobKeys("acme", bad); err == nil {
			t.Errorf("job %q: got nil, want an error", bad)
		}
	}
	if _, err := artifacts.JobKeys(strings.Repeat("a", 64), "j1"); err != nil {
		t.Errorf("64 bytes: got %v, want nil", err)
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9~_.-]+(/[A-Za-z0-9~_.-]+)*$`)

// Whatever two names are, their keys are plain, stay below the job, fit S3, and differ
// if the names do.
func FuzzArtifactKey(f *testing.F) {
	f.Add("plot.png", "plot~2Epng")
	f.Add("..", "~2E~2E")
	f.Add("a//b", "a/~~empty/b")
	f.Add(strings.Repeat("é", 127), strings.Repeat("/", 255))
	k, err := artifacts.JobKeys(strings.Repeat("t", 64), strings.Repeat("j", 64))
	if err != nil {
		f.Fatal(err)
	}
	prefix := k.EpochPrefix(1<<62) + "artifacts/"
	f.Fuzz(func(t *testing.T, a, b string) {
		keyA, keyB := k.Artifact(1<<62, a), k.Artifact(1<<62, b)
		if (keyA == keyB) != (a == b) {
			t.Errorf("keys of %q and %q: got %q and %q", a, b, keyA, keyB)
		}
		rest, below := strings.CutPrefix(keyA, prefix)
		if !below || len(keyA) > 1024 || !plainKey.MatchString(rest) {
			t.Errorf("key of %q: got %q (%d bytes)", a, keyA, len(keyA))
		}
		for _, component := range strings.Split(rest, "/") {
			if component == "." || component == ".." || len(component) > 255 {
				t.Errorf("key of %q: got component %q", a, component)
			}
		}
	})
}
