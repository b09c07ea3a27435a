package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// TestListFilesEnds: a list that is interrupted, or has had its time, ends; one that goes on keeps no more names than a page has, whatever the directory holds.
func TestListFilesEnds(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const entries = 20_000
	for i := range entries {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("%05d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work := func(wall time.Duration) *fileWork {
		s := &session{interrupt: make(chan struct{}, 1), restart: make(chan struct{}, 1)}
		return &fileWork{session: s, root: root, deadline: time.Now().Add(wall), pageBytes: maxPageBytes}
	}
	late, interrupted, restarted := work(0), work(time.Hour), work(time.Hour)
	interrupted.session.interrupt <- struct{}{}
	restarted.session.restart <- struct{}{}
	for w, cause := range map[*fileWork]agentwire.Cause{late: agentwire.Wall, interrupted: agentwire.Killed, restarted: agentwire.Killed} {
		if err := w.list(job.FileCommand{Do: job.ListFiles}); !errors.Is(err, errStopped) || w.stopped != cause {
			t.Errorf("got %v, stopped for %q, want %q", err, w.stopped, cause)
		}
	}
	all := work(time.Hour)
	after := ""
	for n := 0; ; {
		if err := all.list(job.FileCommand{Do: job.ListFiles, After: after}); err != nil {
			t.Fatal(err)
		}
		list, err := job.ParseFileList(string(all.printed))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list.Files {
			if f.Name != fmt.Sprintf("%05d", n) {
				t.Fatalf("entry %d is %s", n, f.Name)
			}
			n++
		}
		if after = list.Next; after == "" {
			if n != entries {
				t.Errorf("%d entries were listed, want %d", n, entries)
			}
			break
		}
	}
	small := work(time.Hour)
	small.pageBytes = 20
	var fault *fileFault
	if err := small.list(job.FileCommand{Do: job.ListFiles}); !errors.As(err, &fault) || fault.code != job.CodeTooLarge {
		t.Errorf("got %v, want that output_kb is too small", err)
	}
}
