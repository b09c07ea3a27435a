package job_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TestAnswerType: what browsers run is no type of an answer, in whatever words.
func TestAnswerType(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                                "text/plain; charset=utf-8",
		"application/json":                "application/json",
		"Application/JSON; charset=UTF-8": "application/json; charset=utf-8",
		"text/csv":                        "text/csv",
		"text/xml":                        "text/xml download",
		"application/pdf":                 "application/pdf download",
		"application/octet-stream":        "application/octet-stream download",
		"text/html":                       "",
		"TEXT/HTML ; charset=utf-8":       "",
		"application/xhtml+xml":           "",
		"image/svg+xml":                   "",
		"text/javascript":                 "",
		"text/css":                        "",
		"multipart/mixed; boundary=x":     "",
		"text/plain; charset=utf-7":       "",
		"text/plain; boundary=x":          "",
		"text/plain\r\nSet-Cookie: a=b":   "",
		"text/plain, text/html":           "",
		"text/plain;charset=utf-8;a=b":    "",
		"text":                            "",
		strings.Repeat("x", 5000):         "",
	} {
		got, download, ok := job.AnswerType(given)
		if download {
			got += " download"
		}
		if ok != (want != "") || ok && got != want {
			t.Errorf("%.100q: got %q, %t, want %q", given, got, ok, want)
		}
	}
}

func TestAnswerWait(t *testing.T) {
	t.Parallel()
	for want, h := range map[time.Duration]job.HookSettings{
		25 * time.Second: {}, 2 * time.Second: {Sender: job.SenderSlack}, 7 * time.Second: {Sender: job.SenderSlack, AnswerSeconds: 7},
	} {
		if got := h.AnswerWait(); got != want {
			t.Errorf("%+v: got %s, want %s", h, got, want)
		}
	}
}

func TestParseHookResponse(t *testing.T) {
	t.Parallel()
	r, err := job.ParseHookResponse([]byte(`{"status":201,"headers":{"content-type":"application/json","LOCATION":"/x","etag":"\"1\""},"body":""}`))
	if err != nil || r.Status != 201 || r.Body == nil || r.Headers["Location"] != "/x" || r.Headers["Content-Type"] != "application/json" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := job.ParseHookResponse([]byte(`{}`)); err != nil || r.Status != http.StatusOK || r.Body != nil {
		t.Errorf("got %+v, %v, want 200 and no body of its own", r, err)
	}
	for text, field := range map[string]string{
		"":                               job.ResponseFile,
		"[]":                             job.ResponseFile,
		"{}{}":                           job.ResponseFile,
		`{"more":1}`:                     job.ResponseFile,
		`{"status":199}`:                 "status",
		`{"status":205}`:                 "status",
		`{"status":302}`:                 "status",
		`{"status":600}`:                 "status",
		`{"body":"x","artifact":"y"}`:    "artifact",
		`{"headers":{"Set-Cookie":"a"}}`: "headers.Set-Cookie",
		`{"headers":{"X-Accel-Redirect":"/etc/passwd"}}`:           "headers.X-Accel-Redirect",
		`{"headers":{"content-security-policy":"x"}}`:              "headers.content-security-policy",
		`{"headers":{"Content-Length":"1"}}`:                       "headers.Content-Length",
		`{"headers":{"content-type":"text/html"}}`:                 "headers.content-type",
		`{"headers":{"location":"a\r\nSet-Cookie: b"}}`:            "headers.location",
		`{"headers":{"etag":"` + strings.Repeat("x", 1025) + `"}}`: "headers.etag",
	} {
		_, err := job.ParseHookResponse([]byte(text))
		var invalid job.Invalid
		if !errors.As(err, &invalid) || invalid[0].Field != field {
			t.Errorf("%.100s: got %v, want %s to be wrong", text, err, field)
		}
	}
}

// FuzzHookResponse: whatever a job writes, no header gets through that isn't listed, and none that is two.
func FuzzHookResponse(f *testing.F) {
	f.Add(`{"status":201,"headers":{"content-type":"application/json","LOCATION":"/x"},"body":"b"}`)
	f.Add(`{"headers":{"etag":"a\nb"},"artifact":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := job.ParseHookResponse([]byte(text))
		if err != nil {
			return
		}
		if r.Status < 200 || r.Status > 599 || r.Status/100 == 3 {
			t.Errorf("got status %d", r.Status)
		}
		for name, value := range r.Headers {
			switch name {
			case "Content-Type", "Content-Language", "Etag", "Location", "Retry-After":
			default:
				t.Errorf("got header %q", name)
			}
			if strings.ContainsAny(value, "\r\n\x00") && name != "Content-Type" { // which is written anew
				t.Errorf("got %s: %q", name, value)
			}
		}
	})
}
