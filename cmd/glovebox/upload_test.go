package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

func TestUploadLargeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small, large := filepath.Join(dir, "small.csv"), filepath.Join(dir, "large.csv")
	content := []byte(strings.Repeat("x", uploadAbove+1))
	if err := errors.Join(os.WriteFile(small, content[1:], 0o600), os.WriteFile(large, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	o := specOptions{files: []string{small, "in/a.csv=" + large, "/dev/zero", dir, filepath.Join(dir, "none")}}
	taken := o.takeLarge(uploadAbove)
	if !slices.Equal(taken, []string{"in/a.csv=" + large}) || len(o.files) != 4 || o.files[0] != small {
		t.Fatalf("got %v to upload, %v to send", taken, o.files)
	}
	w := producertest.New(t, "")
	a := &app{}
	sum := sha256.Sum256(content)
	want := []job.File{{Name: "in/a.csv", Upload: hex.EncodeToString(sum[:])}}
	for range 2 {
		files, err := a.upload(t.Context(), w.Client, taken)
		if diff := cmp.Diff(want, files); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	if kept := w.Kept(t, "tenants/default/inputs/"); len(kept) != 1 {
		t.Errorf("got %v in the bucket", kept)
	}
	var f *failure
	if _, err := a.upload(t.Context(), w.Client, []string{"../a=" + large}); !errors.As(err, &f) || f.code != exitUsage {
		t.Errorf("got %v, want a usage error", err)
	}
}
