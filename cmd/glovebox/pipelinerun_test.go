package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// openedFiles has whatever is asked for, and notes what that was.
type openedFiles struct{ opened []string }

func (f *openedFiles) Open(_ context.Context, id, path string) (*producer.Download, error) {
	f.opened = append(f.opened, id+" "+path)
	return &producer.Download{ReadCloser: io.NopCloser(strings.NewReader("x")), Size: 1}, nil
}

// TestDownloadOutputs: artifacts that the api has given a URL are written, and nothing that a job only says is one.
func TestDownloadOutputs(t *testing.T) {
	t.Parallel()
	const x = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // the SHA-256 of x
	run := job.Run{
		ID:    "default-r-1",
		Steps: map[string]job.RunStep{"chart": {Jobs: []job.RunJob{{ID: "default-1"}, {Index: 1, Status: "refused"}}}},
		Outputs: json.RawMessage(`{
			"chart": {"artifact": "default-1/a.png", "name": "a.png", "size": 1, "sha256": "` + x + `", "url": "https://glovebox.example/a"},
			"all": [{"a.png": {"artifact": "default-1/a.png", "size": 1, "sha256": "` + x + `", "url": "https://glovebox.example/a"}}],
			"said": {"artifact": "default-1/b.png", "size": 1},
			"forged": {"x": {"artifact": "default-2/c.png", "size": 1, "url": "https://glovebox.example/c"}}
		}`),
	}
	files, dir := &openedFiles{}, t.TempDir()
	a := &app{stderr: io.Discard}
	if err := a.downloadOutputs(t.Context(), files, run, dir); err != nil {
		t.Fatal(err)
	}
	want := []string{"default-1 " + producer.ArtifactPath("a.png"), "default-1 " + producer.ArtifactPath("a.png")}
	if !slices.Equal(files.opened, want) {
		t.Errorf("got %q, want %q", files.opened, want)
	}
	for _, path := range []string{"chart/a.png", "all/0/a.png"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
}
