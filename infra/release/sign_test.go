package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/attest"
)

// TestSign: what is made verifies with the public key, by sha256sum and by attest; a file that was
// changed, added or renamed since does not.
func TestSign(t *testing.T) {
	t.Parallel()
	signer, err := attest.NewSigner(attest.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	r := release{tree: tree, out: t.TempDir(), stdout: &said, source: from}
	write(t, r.out, "b.tar.gz", "archive", 0o644)
	deb := write(t, r.out, "a.deb", "package", 0o644)
	if err := errors.Join(r.writeSums(), r.sign(signer)); err != nil {
		t.Fatal(err)
	}
	sums := string(read(t, filepath.Join(r.out, sumsFile)))
	if !strings.Contains(sums, "  a.deb\n") || strings.Count(sums, "\n") != 2 {
		t.Errorf("sums are\n%s", sums)
	}
	check := func() error {
		cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "--status", sumsFile)
		cmd.Dir = r.out
		return cmd.Run()
	}
	if err := check(); err != nil {
		t.Errorf("sha256sum: %v", err)
	}

	var list bytes.Buffer
	if err := writeKeys(&list, signer); err != nil {
		t.Fatal(err)
	}
	keys, err := attest.ParseKeys(list.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := attest.ParseProvenance(read(t, filepath.Join(r.out, "glovebox_0.1.0.intoto.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	verified, _, err := attest.VerifyRelease(signed, keys)
	if err != nil {
		t.Fatal(err)
	}
	if d := verified.Predicate.BuildDefinition.Dependencies; len(d) != 4 || d[0].Digest["gitCommit"] != "545772d" || !strings.Contains(d[1].URI, "gvisor@v0.0.0-") || !strings.Contains(d[2].URI, "versitygw@v") {
		t.Errorf("it was built from %+v", d)
	}
	verify := func(path string) error {
		is, err := attest.SubjectOf(path)
		if err != nil {
			t.Fatal(err)
		}
		return verified.Check(is.Name, is.Digest.SHA256)
	}
	for _, name := range []string{"a.deb", "b.tar.gz", sumsFile} {
		if err := verify(filepath.Join(r.out, name)); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(deb, []byte("Package"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := verify(deb); !errors.Is(err, attest.ErrNotReleased) {
		t.Errorf("a changed file: got %v", err)
	}
	if check() == nil {
		t.Error("sha256sum takes a changed file")
	}
	if err := verify(write(t, r.out, "c.deb", "archive", 0o644)); !errors.Is(err, attest.ErrNotReleased) {
		t.Errorf("a renamed file: got %v", err)
	}
}

// TestTreeWithChanges: what isn't committed is in no release, so a tree that has changes makes none.
func TestTreeWithChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		cmd.Dir = dir
		if err := quietly(cmd); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	file := write(t, dir, "go.mod", "module x\n", 0o644)
	git("add", "go.mod")
	git("commit", "-qm", "x")
	to := filepath.Join(t.TempDir(), "tree")
	if err := cloneCommit(t.Context(), dir, to); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(to, "go.mod")); string(got) != "module x\n" {
		t.Errorf("the clone has %q", got)
	}
	for name, change := range map[string]string{"changed": file, "new": filepath.Join(dir, "new.go")} {
		if err := os.WriteFile(change, []byte("module y\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := cloneCommit(t.Context(), dir, to+name); err == nil || !strings.Contains(err.Error(), filepath.Base(change)) {
			t.Errorf("a file that is %s: got %v", name, err)
		}
		git("checkout", "-q", ".")
	}
}

// TestKeyFirst: a key that can't be is found before anything is compiled, and never repeated.
func TestKeyFirst(t *testing.T) {
	t.Parallel()
	env := func(string) string { return "not-a-key" }
	err := run(t.Context(), []string{"-tree", t.TempDir()}, env, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "GLOVEBOX_RELEASE_KEY") || strings.Contains(err.Error(), "not-a-key") {
		t.Errorf("got %v", err)
	}
	var out bytes.Buffer
	seed := attest.NewSeed()
	if err := run(t.Context(), []string{"-key"}, func(string) string { return seed }, &out); err != nil {
		t.Fatal(err)
	}
	if _, err := attest.ParseKeys(out.Bytes()); err != nil || strings.Contains(out.String(), seed) {
		t.Errorf("got %s, %v", out.String(), err)
	}
	if err := run(t.Context(), []string{"-key"}, func(string) string { return "" }, &out); err == nil {
		t.Error("no key has a public key")
	}
}
