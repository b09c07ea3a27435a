package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// judge0 is a client as front ends of Judge0 CE are, written by its documentation.
type judge0 struct {
	g     *glovebox
	url   string
	token string // "" sends none
}

// object is JSON as a client without a schema reads it.
type object = map[string]any

// do asks, and returns the status and the body. A body that is not a string is sent as JSON.
func (j judge0) do(t *testing.T, method, path string, body any, headers ...string) (status int, answer string) {
	t.Helper()
	said := j.ask(t, method, path, jsonOf(t, body), headers...)
	return said.status, said.body
}

func (j judge0) ask(t *testing.T, method, path, body string, headers ...string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, j.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	askFirst(req)
	req.Header.Set("Content-Type", "application/json")
	if j.token != "" {
		req.Header.Set("X-Auth-Token", j.token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{res.StatusCode, res.Header, string(b)}
}

// want asks, and decodes the answer, which has to have that status.
func (j judge0) want(t *testing.T, status int, method, path string, body any, headers ...string) object {
	t.Helper()
	got, text := j.do(t, method, path, body, headers...)
	if got != status {
		t.Fatalf("%s %s: got %d %.300s, want %d", method, path, got, text, status)
	}
	answer := object{}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatalf("%s %s: got %.300s: %v", method, path, text, err)
		}
	}
	return answer
}

// run submits, and looks until the submission has ended, as clients do.
func (j judge0) run(t *testing.T, query string, submission object) object {
	t.Helper()
	token := j.want(t, http.StatusCreated, http.MethodPost, "/submissions?wait=false&"+query, submission)["token"]
	if !uuid4.MatchString(fmt.Sprint(token)) {
		t.Fatalf("got the token %v, want a UUID of version 4", token)
	}
	return j.await(t, token, query)
}

func (j judge0) await(t *testing.T, token any, query string) object {
	t.Helper()
	var answer object
	gbtest.Eventually(t, "the submission ends", func() bool {
		answer = j.want(t, http.StatusOK, http.MethodGet, fmt.Sprintf("/submissions/%s?fields=*&%s", token, query), nil)
		id, _ := answer["status_id"].(float64)
		return id > 2
	})
	return answer
}

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func zipped(t *testing.T, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i+1 < len(files); i += 2 {
		f, err := w.Create(files[i])
		if err == nil {
			_, err = io.WriteString(f, files[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// unzipped is what the files of a zip in base64 hold.
func unzipped(t *testing.T, text any) map[string]string {
	t.Helper()
	archive, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(fmt.Sprint(text), "\n", ""))
	if err != nil {
		t.Fatalf("got %v, want a zip in base64", text)
	}
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range r.File {
		content, err := r.Open(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(content)
		if err = errors.Join(err, content.Close()); err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(b)
	}
	return files
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// randomText can't be compressed to less than half. It is the same each time.
func randomText(n int) string {
	b := make([]byte, n/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return hex.EncodeToString(b)
}

func rubyBase64(s string) (text string) {
	for line := []byte(s); len(line) > 0; {
		n := min(45, len(line))
		text += base64.StdEncoding.EncodeToString(line[:n]) + "\n"
		line = line[n:]
	}
	return text
}
