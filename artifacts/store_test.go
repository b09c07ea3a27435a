package artifacts_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

const part = 5 << 20

func TestMain(m *testing.M) {
	artifacts.SetAbortTimeout(gbtest.Patience) // what it would leave on a busy machine, tests would find
	goleak.VerifyTestMain(m)
}

// open returns a Store over a bucket of its own in s3, or of s3's endpoint replaced.
func open(tb testing.TB, s3 *gbtest.S3Server, change func(*artifacts.Config)) *artifacts.Store {
	tb.Helper()
	c := artifacts.Config{
		Endpoint: s3.Endpoint, Region: s3.Region, Bucket: "glovebox", PathStyle: true,
		AccessKey: s3.AccessKey, SecretKey: s3.SecretKey,
	}
	if change != nil {
		change(&c)
	}
	store, err := artifacts.Open(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(store.Close)
	if err := store.EnsureBucket(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return store
}

// wantNothing fails when an object or an unfinished upload is left below tenants/.
func wantNothing(tb testing.TB, store *artifacts.Store) {
	tb.Helper()
	swept, err := store.Sweep(context.Background(), "tenants/", nil)
	if err != nil {
		tb.Fatal(err)
	}
	if got, want := swept, (artifacts.Swept{}); got != want {
		tb.Errorf("left in the bucket: got %+v, want %+v", got, want)
	}
}

func keys(tb testing.TB, id string) artifacts.Keys {
	tb.Helper()
	k, err := artifacts.JobKeys("acme", id)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func read(tb testing.TB, url string) (status int, header http.Header, body []byte) {
	tb.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return res.StatusCode, res.Header, body
}

func TestBytes(t *testing.T) {
	t.Parallel()
	store := open(t, gbtest.S3(t), nil)
	ctx := t.Context()
	key := keys(t, "j1").Result(1)

	if _, err := store.GetBytes(ctx, key, 100); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("get a missing object: got %v, want ErrNotFound", err)
	}
	want := []byte(`{"id":"j1"}`)
	if _, err := store.PutBytes(ctx, key, "application/json", want); err != nil {
		t.Fatal(err)
	}
	got, err := store.GetBytes(ctx, key, int64(len(want)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("at the limit: got %q, %v, want %q", got, err, want)
	}
	if _, err := store.GetBytes(ctx, key, int64(len(want))-1); !errors.Is(err, artifacts.ErrTooLarge) {
		t.Errorf("one past the limit: got %v, want ErrTooLarge", err)
	}
	body, o, err := store.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	sum := sha256.Sum256(want)
	if diff := cmp.Diff(artifacts.Object{
		Key: key, Size: 11, SHA256: hex.EncodeToString(sum[:]), MediaType: "application/json", Kind: job.KindFile,
	}, o); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}

// TestGatewayWithoutLength: an object whose length a gateway doesn't pass on is not an empty one.
func TestGatewayWithoutLength(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)
	forward := server.Gateway(t)
	forward.ModifyResponse = func(r *http.Response) error {
		r.Header.Del("Content-Length")
		r.ContentLength = -1
		return nil
	}
	gateway := httptest.NewServer(forward)
	defer gateway.Close()
	store, key := open(t, server, func(c *artifacts.Config) { c.Endpoint = gateway.URL }), keys(t, "j1").Result(1)
	if _, err := store.PutBytes(t.Context(), key, "application/json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Get(t.Context(), key); err == nil || !strings.Contains(err.Error(), "no Content-Length") {
		t.Errorf("got %v", err)
	}
	if _, err := store.Head(t.Context(), key); err == nil || !strings.Contains(err.Error(), "no Content-Length") {
		t.Errorf("look at it: got %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]artifacts.Config{
		"bucket is empty":           {},
		"no http or https URL":      {Bucket: "b", Endpoint: "localhost:9000"},
		"give both or neither":      {Bucket: "b", AccessKey: "a"},
		"below S3's least":          {Bucket: "b", PartBytes: 1 << 20},
		"does not hold one part":    {Bucket: "b", MemoryBytes: 1 << 20},
		"concurrency and attempts ": {Bucket: "b", Concurrency: -1},
	} {
		if _, err := artifacts.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Open(%+v): got %v, want %q in it", c, err, name)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s3 := gbtest.S3(t)
	store := open(t, s3, nil)
	if err := store.Check(t.Context()); err != nil {
		t.Errorf("a private bucket: got %v, want nil", err)
	}
	if err := store.EnsureBucket(t.Context()); err != nil {
		t.Errorf("a bucket that is there: got %v, want nil", err)
	}
	key := keys(t, "j1").Stdout(1)
	if _, err := store.PutBytes(t.Context(), key, "text/plain", []byte("secret")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "/" + key} {
		if status, _, _ := read(t, s3.Endpoint+"/glovebox"+path); status != http.StatusForbidden {
			t.Errorf("anonymous GET %q: got %d, want 403", path, status)
		}
	}

	wrong, err := artifacts.Open(t.Context(), artifacts.Config{
		Endpoint: s3.Endpoint, Bucket: "glovebox", PathStyle: true, AccessKey: s3.AccessKey, SecretKey: "wrong",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if err := wrong.Check(t.Context()); err == nil {
		t.Error("check with a wrong secret key: got nil, want an error")
	}
}

func TestPresign(t *testing.T) {
	t.Parallel()
	s3 := gbtest.S3(t)
	store := open(t, s3, nil)
	k := keys(t, "j1")
	for i, name := range []string{
		"plot.png", "with space.txt", "100%.txt", "a+b.txt", "größe/図 表.csv", "%2e%2e%2f.txt", "#?&=;.txt", `quote".txt`,
		"...", "~41", strings.Repeat("図", 85), "page.html", "a" + strings.Repeat("/b", 100),
	} {
		want := fmt.Sprintf("contents of %d", i)
		if name == "page.html" {
			want = "<!DOCTYPE html><script>alert(1)</script>"
		}
		o, err := store.Upload(t.Context(), k.Artifact(1, name), strings.NewReader(want), artifacts.Options{Limit: 100, Name: name})
		if err != nil {
			t.Errorf("upload %q: %v", name, err)
			continue
		}
		url, err := store.Presign(t.Context(), o.Key, name, o.MediaType, 60e9)
		if err != nil {
			t.Fatal(err)
		}
		status, header, got := read(t, url)
		if status != http.StatusOK || string(got) != want {
			t.Errorf("download %q: got %d %q, want 200 %q", name, status, got, want)
		}
		if got, want := header.Get("Content-Type"), o.MediaType; got != want {
			t.Errorf("type of %q: got %q, want %q", name, got, want)
		}
		verb, _, _ := strings.Cut(header.Get("Content-Disposition"), ";")
		if want := map[bool]string{true: "inline", false: "attachment"}[o.MediaType == "text/plain; charset=utf-8"]; verb != want {
			t.Errorf("disposition of %q: got %q, want %q", name, verb, want)
		}
		tampered := strings.Replace(url, "j1/1", "j1/2", 1)
		if status, _, _ := read(t, tampered); status != http.StatusForbidden {
			t.Errorf("tampered URL: got %d, want 403", status)
		}
	}
	if _, err := store.Presign(t.Context(), "k", "n", "text/plain", 8*24*3600e9); err == nil {
		t.Error("presign for eight days: got nil, want an error")
	}

	public, err := artifacts.Open(t.Context(), artifacts.Config{
		Endpoint: s3.Endpoint, PublicEndpoint: "https://files.example.com", Bucket: "b", PathStyle: true, AccessKey: "a", SecretKey: "s",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer public.Close()
	if url, err := public.Presign(t.Context(), "k", "n", "text/plain", 60e9); err != nil || !strings.HasPrefix(url, "https://files.example.com/b/k?") {
		t.Errorf("public endpoint: got %q, %v", url, err)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	s3 := gbtest.S3(t)
	store := open(t, s3, nil)
	winner, other := keys(t, "j1"), keys(t, "j10") // whose names begin alike
	put := func(key string) {
		t.Helper()
		if _, err := store.PutBytes(t.Context(), key, "text/plain", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	const losers = 1100 // more than a page of a list
	for i := range losers {
		put(winner.Artifact(1, fmt.Sprintf("f%d.txt", i)))
	}
	for _, key := range []string{winner.Spec(), winner.Result(2), winner.Artifact(2, "f0.txt"), other.Result(1)} {
		put(key)
	}
	for i := range 5 {
		beginUpload(t, s3, winner.Artifact(1, fmt.Sprintf("big %d", i)))
	}
	beginUpload(t, s3, other.Artifact(1, "big"))

	keep := func(key string) bool { return key == winner.Spec() || strings.HasPrefix(key, winner.EpochPrefix(2)) }
	swept, err := store.Sweep(t.Context(), winner.Prefix(), keep)
	if want := (artifacts.Swept{Objects: losers, Uploads: 5}); err != nil || swept != want {
		t.Errorf("sweep: got %+v, %v, want %+v", swept, err, want)
	}
	swept, err = store.Sweep(t.Context(), "tenants/", nil)
	if want := (artifacts.Swept{Objects: 4, Uploads: 1}); err != nil || swept != want {
		t.Errorf("what was kept: got %+v, %v, want %+v", swept, err, want)
	}
	var left []string
	if err := filepath.WalkDir(filepath.Join(s3.Dir, "glovebox"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "glovebox-private" {
			left = append(left, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("files of the server that are left: %q", left)
	}
	if _, err := store.Sweep(t.Context(), "", nil); err == nil {
		t.Error("sweep of everything: got nil, want an error")
	}
}
