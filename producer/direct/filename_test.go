package direct_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// A file is found by its name, and only by its tenant.
func TestKeepFile(t *testing.T) {
	t.Parallel()
	w := producertest.New(t, "")
	ctx, mine, other := t.Context(), w.Client, w.Client.For("other")
	if _, err := mine.FindFile(ctx, "data0001"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	for _, content := range []string{"one", "two", "two", ""} {
		if err := mine.KeepFile(ctx, "data0001", []byte(content)); err != nil {
			t.Fatal(err)
		}
		f, err := mine.FindFile(ctx, "data0001")
		if err != nil || (f.Upload == "") != (content == "") {
			t.Fatalf("%q: got %+v, %v", content, f, err)
		}
		if content == "" {
			continue
		}
		held, err := mine.PrepareUpload(ctx, f.Upload, int64(len(content)))
		if err != nil || !held.Exists {
			t.Errorf("%q: got %+v, %v, want an upload that is there", content, held, err)
		}
	}
	if _, err := other.FindFile(ctx, "data0001"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("another tenant's: got %v, want ErrNotFound", err)
	}

	// What is gone from the bucket is not found.
	if err := mine.KeepFile(ctx, "data0002", []byte("gone")); err != nil {
		t.Fatal(err)
	}
	f, err := mine.FindFile(ctx, "data0002")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Objects.SweepUpload(ctx, "default", f.Upload); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.FindFile(ctx, "data0002"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if err := mine.KeepFile(ctx, "data0002", []byte("gone")); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.FindFile(ctx, "data0002"); err != nil {
		t.Errorf("stored again: %v", err)
	}

	// Quotas hold.
	if _, err := mine.CreateTenant(ctx, "small", job.Terms{Quotas: job.Quotas{BytesStored: 10}}); err != nil {
		t.Fatal(err)
	}
	if err := mine.For("small").KeepFile(ctx, "data0001", []byte(strings.Repeat("x", 11))); job.CodeOf(err) != job.CodeQuotaExceeded {
		t.Errorf("got %v, want quota_exceeded", err)
	}
}
