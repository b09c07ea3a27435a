package attest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// TestInputHash writes the encoding out by hand, as the ADR has it.
func TestInputHash(t *testing.T) {
	t.Parallel()
	spec := job.Spec{
		Runtime: "python", Source: "print(1)", Args: []string{"-v", ""}, Env: map[string]string{"B": "2", "A": "1"}, Stdin: "in",
		Files: []job.File{{Name: "b", ContentBase64: "AP8="}, {Name: "a", Content: "x"}},
	}
	const encoded = "\x00\x00\x00\x00\x00\x00\x00\x11glovebox/input/v1" +
		"\x00\x00\x00\x00\x00\x00\x00\x08print(1)" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x012" + "\x00\x00\x00\x00\x00\x00\x00\x02-v" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x012" + "\x00\x00\x00\x00\x00\x00\x00\x01A" + "\x00\x00\x00\x00\x00\x00\x00\x011" +
		"\x00\x00\x00\x00\x00\x00\x00\x01B" + "\x00\x00\x00\x00\x00\x00\x00\x012" +
		"\x00\x00\x00\x00\x00\x00\x00\x02in" +
		"\x00\x00\x00\x00\x00\x00\x00\x012" + "\x00\x00\x00\x00\x00\x00\x00\x01a" + "\x00\x00\x00\x00\x00\x00\x00\x01x" +
		"\x00\x00\x00\x00\x00\x00\x00\x01b" + "\x00\x00\x00\x00\x00\x00\x00\x02\x00\xff"
	sum := sha256.Sum256([]byte(encoded))
	got, err := InputHash(spec)
	if want := hex.EncodeToString(sum[:]); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	const ofImage = "\x00\x00\x00\x00\x00\x00\x00\x17glovebox/image-input/v1" +
		"\x00\x00\x00\x00\x00\x00\x00\x05a@b:c" +
		"\x00\x00\x00\x00\x00\x00\x00\x012" + "\x00\x00\x00\x00\x00\x00\x00\x05/tool" + "\x00\x00\x00\x00\x00\x00\x00\x02-v"
	spec.Runtime, spec.Image, spec.Command = "", "a@b:c", []string{"/tool", "-v"}
	sum = sha256.Sum256([]byte(ofImage + encoded[8+len(inputDomain):]))
	got, err = InputHash(spec)
	if want := hex.EncodeToString(sum[:]); err != nil || got != want {
		t.Errorf("with an image: got %s, %v, want %s", got, err, want)
	}
	if _, err := InputHash(job.Spec{Files: []job.File{{Name: "a", ContentBase64: "*"}}}); err == nil {
		t.Error("a file that is no base64 has a hash")
	}
}

// TestEnvironmentHash writes the encoding out by hand, as the ADR has it.
func TestEnvironmentHash(t *testing.T) {
	t.Parallel()
	p := Predicate{Runtime: job.Runtime{Name: "a", OCIRuntime: "r"}, LimitsEnforced: "soft", Limits: job.Limits{WallMS: 7}}
	const fields = "\x00\x00\x00\x00\x00\x00\x00\x01a" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x01r" +
		"\x00\x00\x00\x00\x00\x00\x00\x04soft" + "\x00\x00\x00\x00\x00\x00\x00\x011" + "\x00\x00\x00\x00\x00\x00\x00\x07wall_ms" + "\x00\x00\x00\x00\x00\x00\x00\x017"
	for snapshot, encoded := range map[string]string{
		"":  "\x00\x00\x00\x00\x00\x00\x00\x17glovebox/environment/v1" + fields,
		"s": "\x00\x00\x00\x00\x00\x00\x00\x20glovebox/snapshot-environment/v1" + "\x00\x00\x00\x00\x00\x00\x00\x01s" + fields,
	} {
		p.Runtime.Snapshot = snapshot
		sum := sha256.Sum256([]byte(encoded))
		if got, err := environmentHash(p); err != nil || got != hex.EncodeToString(sum[:]) {
			t.Errorf("snapshot %q: got %s, %v", snapshot, got, err)
		}
	}
}

// TestInputOfStreams: however a file comes, its content is what counts.
func TestInputOfStreams(t *testing.T) {
	t.Parallel()
	spec := job.Spec{Source: "s", Files: []job.File{{Name: "b", Content: "content"}, {Name: "a"}}}
	want, err := InputHash(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Files[0] = job.File{Name: "b", Artifact: "default-x/y", Size: 7}
	if _, err := InputHash(spec); !errors.Is(err, job.ErrKept) {
		t.Errorf("without its content: got %v, want ErrKept", err)
	}
	in := NewInput(spec)
	if err := in.Begin("b", 7); err == nil {
		t.Error("files may come in any order")
	}
	for _, f := range []struct{ name, content string }{{"a", ""}, {"b", "content"}} {
		if _, err := in.Sum(); err == nil || in.Complete() {
			t.Errorf("before %s: there is a hash", f.name)
		}
		if err := in.Begin(f.name, int64(len(f.content))); err != nil {
			t.Fatal(err)
		}
		for _, c := range []byte(f.content) {
			if _, err := in.Write([]byte{c}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := in.Write([]byte("x")); err == nil {
		t.Error("a file may have more content than announced")
	}
	if got, err := in.Sum(); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// TestInputHashOfTests: what a test reads and expects counts by its digest, wherever it is kept.
func TestInputHashOfTests(t *testing.T) {
	t.Parallel()
	content := hashText("b")
	var sums []string
	for _, test := range []job.Test{
		{Name: "a", Stdin: "b", Answer: "b"}, {Name: "a", StdinBase64: "Yg==", AnswerBase64: "Yg=="}, {Name: "a", StdinUpload: content, AnswerUpload: content},
	} {
		sum, err := InputHash(job.Spec{Tests: []job.Test{test}})
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, sum)
	}
	if sums[0] != sums[1] || sums[0] != sums[2] {
		t.Errorf("got the hashes %q, want one", sums)
	}
}

// TestInputHashOfChecker: a checker's program counts, what it runs in does not, as the api may fill that in.
func TestInputHashOfChecker(t *testing.T) {
	t.Parallel()
	hash := func(p job.CheckerProgram) string {
		sum, err := InputHash(job.Spec{Tests: []job.Test{{Name: "a"}}, Checker: &job.Checker{Kind: job.CheckKattis, Program: &p}})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	p := job.CheckerProgram{Runtime: "python3", Source: "a"}
	if got := hash(job.CheckerProgram{Runtime: "python", Source: "a", Limits: job.DefaultLimits}); got != hash(p) || p.Runtime == "" {
		t.Errorf("another name of the runtime, and limits: got %s, want %s", got, hash(p))
	}
	if hash(job.CheckerProgram{Runtime: "python3", Source: "b"}) == hash(p) {
		t.Error("another program has the same hash")
	}
}

// TestInputHashOfStdin: bytes count as what they are.
func TestInputHashOfStdin(t *testing.T) {
	t.Parallel()
	text, err := InputHash(job.Spec{Stdin: "ab"})
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := InputHash(job.Spec{StdinBase64: "YWI="}); err != nil || sum != text {
		t.Errorf("got %s, %v, want %s", sum, err, text)
	}
}

// notInput is what a spec says that the program never sees, or that the environment's
// hash covers.
var notInput = map[string]bool{
	"spec_version": true, "runtime": true, "limits": true, "callback": true, "metadata": true, "priority": true,
	"retention_seconds": true, "stream": true, "run_at": true, "deadline": true, "idempotency_key": true, "fresh": true, "isolation": true, "problem": true, "placement": true,
}

// TestEveryInput changes each field of a spec: one that is added and forgotten fails.
func TestEveryInput(t *testing.T) {
	t.Parallel()
	spec := func() job.Spec {
		return job.Spec{
			SpecVersion: 1, Runtime: "r", Image: "m", Command: []string{"c"}, Source: "s", Files: []job.File{{Name: "f", Content: "c"}}, Entrypoint: "e", Args: []string{"a"},
			Commands: &job.Commands{Compile: "c", Run: "r"}, Env: map[string]string{"E": "v"}, Secrets: []string{"S"}, Stdin: "i", StdinBase64: "aQ==", Interactive: true, MergeStderr: true, TruncateOutput: true, Limits: job.DefaultMaximums, Callback: &job.Callback{URL: "u", Events: []string{"e"}},
			Metadata: map[string]string{"k": "v"}, Priority: job.High, Problem: "p",
			Tests: []job.Test{{Name: "t", Stdin: "i", Answer: "o"}}, Checker: &job.Checker{Kind: "exact"}, Groups: []job.Group{{Name: "g"}},
		}
	}
	before, err := InputHash(spec())
	if err != nil {
		t.Fatal(err)
	}
	typ := reflect.TypeFor[job.Spec]()
	for i := range typ.NumField() {
		name, changed := jsonName(typ.Field(i)), spec()
		reflect.ValueOf(&changed).Elem().Field(i).SetZero()
		after, err := InputHash(changed)
		if err != nil {
			t.Fatal(err)
		}
		if (after == before) != notInput[name] {
			t.Errorf("%s: the hash is the same: %v, want %v", name, after == before, notInput[name])
		}
	}
}

// TestFieldsDontRunTogether: what one field gains another loses.
func TestFieldsDontRunTogether(t *testing.T) {
	t.Parallel()
	seen := map[string]job.Spec{}
	for _, spec := range []job.Spec{
		{},
		{Source: "ab"},
		{Source: "a", Entrypoint: "b"},
		{Entrypoint: "ab"},
		{Stdin: "ab"},
		{Args: []string{"ab"}},
		{Args: []string{"a", "b"}},
		{Args: []string{"", "ab"}},
		{Args: []string{"ab", ""}},
		{Env: map[string]string{"a": "b"}},
		{Env: map[string]string{"ab": ""}},
		{Env: map[string]string{"a": "", "b": ""}},
		{Image: "ab"},
		{Image: "a", Source: "b"},
		{Command: []string{"ab"}},
		{Command: []string{"a", "b"}},
		{Command: []string{"a"}, Args: []string{"b"}},
		{Image: "a", Command: []string{"b"}},
		{Commands: &job.Commands{Run: "ab"}},
		{MergeStderr: true},
		{Interactive: true},
		{TruncateOutput: true},
		{MergeStderr: true, TruncateOutput: true},
		{Commands: &job.Commands{Compile: "a", Run: "b"}},
		{Commands: &job.Commands{Compile: "ab"}},
		{Files: []job.File{{Name: "a", Content: "b"}}},
		{Files: []job.File{{Name: "ab"}}},
		{Files: []job.File{{Name: "a"}, {Name: "b"}}},
		{Tests: []job.Test{{Name: "a"}}},
		{Tests: []job.Test{{Name: "a"}, {Name: "b"}}},
		{Tests: []job.Test{{Name: "a", Stdin: "b"}}},
		{Tests: []job.Test{{Name: "a", Answer: "b"}}},
		{Tests: []job.Test{{Name: "a", Args: []string{"b"}}}},
		{Tests: []job.Test{{Name: "a", Hidden: true}}},
		{Tests: []job.Test{{Name: "a"}}, Checker: &job.Checker{Kind: "exact"}},
		{Tests: []job.Test{{Name: "a"}}, Groups: []job.Group{{Name: "a"}}},
	} {
		sum, err := InputHash(spec)
		if err != nil {
			t.Fatal(err)
		}
		if other, there := seen[sum]; there {
			t.Errorf("%+v and %+v have one hash", spec, other)
		}
		seen[sum] = spec
	}
}
