package artifacts_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestCopy: an object that is copied to another bucket is what it was there, small or in parts.
func TestCopy(t *testing.T) {
	t.Parallel()
	server := gbtest.S3(t)
	from, to := open(t, server, nil), open(t, server, func(c *artifacts.Config) { c.Bucket = "other" })
	for name, size := range map[string]int{"empty": 0, "plot": 5000, "parts": 6 << 20} {
		key := "tenants/acme/jobs/acme-1/1/artifacts/" + name
		content := bytes.Repeat([]byte("x"), size)
		if _, err := from.Upload(t.Context(), key, bytes.NewReader(content), artifacts.Options{Limit: 1 << 30, Name: name + " ü.csv"}); err != nil {
			t.Fatal(err)
		}
		body, c, err := from.OpenCopy(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.PutCopy(t.Context(), c, body); err != nil {
			t.Fatal(err)
		}
		body.Close()
		body, got, err := to.OpenCopy(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.ReadAll(body)
		body.Close()
		if err != nil || !bytes.Equal(read, content) {
			t.Errorf("%s: got %d bytes, %v, want %d", name, len(read), err, size)
		}
		if diff := cmp.Diff(c, got); diff != "" || got.Disposition == "" {
			t.Errorf("%s: %s", name, diff)
		}
		for wrong, r := range map[string]io.Reader{"fewer": bytes.NewReader(content[:max(0, size-1)]), "more": strings.NewReader(string(content) + "y")} {
			c.Key = key + "-" + wrong
			if size == 0 && wrong == "fewer" {
				continue
			}
			if err := to.PutCopy(t.Context(), c, r); err == nil {
				t.Errorf("%s, %s bytes: got no error", name, wrong)
			}
		}
	}
	var keys []string
	for key, err := range to.List(t.Context(), "tenants/") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key[strings.LastIndex(key, "/")+1:])
	}
	if got := fmt.Sprint(keys); got != "[empty parts plot]" {
		t.Errorf("got %s", got)
	}
}
