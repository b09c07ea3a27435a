package gbtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// NPM returns a directory with the files of source and, installed, the packages that
// its package-lock.json names. That is done once, and found again by the files' hash.
func NPM(tb testing.TB, source string) string {
	tb.Helper()
	Require(tb, "npm")
	WhenIdle(tb)
	sum := sha256.New()
	if err := fs.WalkDir(os.DirFS(source), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(source, name))
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
		return err
	}); err != nil {
		tb.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "glovebox-test", "npm-"+hex.EncodeToString(sum.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		tb.Fatal(err)
	}
	// Installed aside and renamed, so that a test that was killed leaves no half of it.
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "installing-") //nolint:usetesting // renamed, so on the same file system
	if err != nil {
		tb.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	if err := os.CopyFS(fresh, os.DirFS(source)); err != nil {
		tb.Fatal(err)
	}
	// A user of a service, such as the Podman user, may not write into its home.
	cmd := exec.CommandContext(tb.Context(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", filepath.Join(filepath.Dir(dir), "npm-cache"))
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil {
		if _, other := os.Stat(dir); other != nil { // nobody else was faster
			tb.Fatal(err)
		}
	}
	return dir
}
