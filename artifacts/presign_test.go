package artifacts_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestPresignPut: the request stores the content that it was signed for, and no other.
func TestPresignPut(t *testing.T) {
	t.Parallel()
	store := open(t, gbtest.S3(t), nil)
	content := bytes.Repeat([]byte("0123456789"), 1000)
	sum := sha256.Sum256(content)
	hash := hex.EncodeToString(sum[:])
	key, err := artifacts.UploadKey("default", hash)
	if err != nil {
		t.Fatal(err)
	}
	put, err := store.PresignPut(t.Context(), key, hash, int64(len(content)), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	send := func(url string, header map[string]string, content []byte) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range header {
			req.Header.Set(name, value)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	other := bytes.Clone(content)
	other[5000] = 'x'
	otherSum := sha256.Sum256(other)
	lies := map[string]string{}
	for name := range put.Header {
		lies[name] = hex.EncodeToString(otherSum[:])
	}
	elsewhere, err := artifacts.UploadKey("other", hash)
	if err != nil {
		t.Fatal(err)
	}
	for name, status := range map[string]int{
		"other content":       send(put.URL, put.Header, other),
		"less of it":          send(put.URL, put.Header, content[1:]),
		"more of it":          send(put.URL, put.Header, append(bytes.Clone(content), 'x')),
		"without the headers": send(put.URL, nil, content),
		"with another hash":   send(put.URL, lies, other),
		"under another key":   send(string(bytes.Replace([]byte(put.URL), []byte(key), []byte(elsewhere), 1)), put.Header, content),
	} {
		if status < 400 || status > 499 {
			t.Errorf("%s: got %d, want it to be refused", name, status)
		}
	}
	if _, err := store.Head(t.Context(), key); !errors.Is(err, artifacts.ErrNotFound) {
		t.Fatalf("got %v, want nothing to be stored", err)
	}
	for range 2 { // it may be repeated
		if status := send(put.URL, put.Header, content); status != http.StatusOK {
			t.Fatalf("got %d", status)
		}
	}
	if o, err := store.Head(t.Context(), key); err != nil || o.Size != int64(len(content)) {
		t.Errorf("got %+v, %v", o, err)
	}
	if err := store.SweepUpload(t.Context(), "default", hash); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Head(t.Context(), key); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("got %v, want it deleted", err)
	}
}

func TestUploadKey(t *testing.T) {
	t.Parallel()
	const hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if key, err := artifacts.UploadKey("acme", hash); err != nil || key != "tenants/acme/inputs/"+hash {
		t.Errorf("got %q, %v", key, err)
	}
	for _, c := range [][2]string{{"", hash}, {"a/b", hash}, {"acme", ""}, {"acme", hash[1:]}, {"acme", hash[1:] + "/"}, {"acme", hash[1:] + "A"}} {
		if key, err := artifacts.UploadKey(c[0], c[1]); err == nil {
			t.Errorf("%q: got %q", c, key)
		}
	}
}
