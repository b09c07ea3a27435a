package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

func TestDecodeSpec(t *testing.T) {
	t.Parallel()
	const full = `{"spec_version":1,"runtime":"python","source":null,"files":[{"name":"a","content":"x"},null],"entrypoint":"a","args":["1"],
		"env":{"A":"B"},"stdin":"é","limits":{"wall_ms":1,"cpus":0.5},"callback":{"url":"https://x","events":["job.completed"]},
		"metadata":{"k.k":"v"},"priority":"low","run_at":"2026-11-20T09:00:00.5+01:00","deadline":null}`
	for _, contentType := range []string{"", "application/json", "application/json; charset=utf-8", "Application/JSON"} {
		got, err := decode[job.Spec](contentType, []byte(full))
		if err != nil || got.Limits.CPUs != 0.5 || got.Metadata["k.k"] != "v" || len(got.Files) != 2 || got.Callback.Events[0] != "job.completed" ||
			!got.RunAt.Equal(time.Date(2026, 11, 20, 8, 0, 0, 500_000_000, time.UTC)) || !got.Deadline.IsZero() {
			t.Errorf("%q: got %+v, %v", contentType, got, err)
		}
	}
}

func TestDecodeTimes(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"tomorrow"`: "run_at", `"2026-11-20"`: "run_at", `"2026-11-20 09:00:00Z"`: "run_at", `""`: "run_at", `1795161600`: "run_at",
		`{"a":["b"]}`: "run_at", `"2026-11-31T09:00:00Z"`: "run_at", `"\u0032026-11-20T09:00:00Z"`: "body",
		`"2026-11-20T09:00:00+24:00"`: "run_at", `"9999-12-31T23:59:59-01:00"`: "run_at", `"0000-01-01T00:00:00+01:00"`: "run_at",
		`"2026-11-29T14:00:00,5Z"`: "run_at", `"2026-11-29T14:00:00,500+01:00"`: "run_at", // ISO 8601 has the comma, RFC 3339 doesn't
	} {
		_, err := decode[job.Spec]("", []byte(`{"run_at":`+value+`,"runtime":"python"}`))
		var p problem
		if !errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Field != want || !strings.Contains(p.Errors[0].Allowed, "2026-11-20T09:00:00Z") {
			t.Errorf("%s: got %+v, want one fault, of %s", value, err, want)
		}
	}
}

// A body of a million faults costs no more than one with a few.
func TestDecodeStopsEarly(t *testing.T) {
	t.Parallel()
	body := `{"runtime":"python"` + strings.Repeat(`,"x":[{"y":1}]`, 200_000) + `}`
	_, err := decode[job.Spec]("", []byte(body))
	var p problem
	if !errors.As(err, &p) || len(p.Errors) != maxFaults {
		t.Errorf("got %v, want %d faults", err, maxFaults)
	}
	b, err := json.Marshal(p)
	if err != nil || len(b) > 32<<10 {
		t.Errorf("got a problem of %d bytes, %v", len(b), err)
	}
}

// Nor do lists and maps that no job may have.
func TestDecodeBoundsEntries(t *testing.T) {
	t.Parallel()
	var env strings.Builder
	for i := range maxEntries + 1 {
		fmt.Fprintf(&env, `,"A%d":""`, i)
	}
	for field, body := range map[string]string{
		"args":  `{"args":["a"` + strings.Repeat(`,"a"`, maxEntries) + `]}`,
		"files": `{"files":[null` + strings.Repeat(`,null`, maxEntries) + `]}`,
		"env":   `{"env":{` + env.String()[1:] + `}}`,
	} {
		_, err := decode[job.Spec]("", []byte(body))
		var p problem
		if !errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: got %+v, want one fault", field, err)
		}
	}
}

// FuzzDecodeSpec: what is accepted is what encoding/json reads, and can be checked;
// what is refused is refused with a problem.
func FuzzDecodeSpec(f *testing.F) {
	for _, seed := range []string{
		`{"runtime":"python","source":"1"}`, `{"limits":{"wall_ms":1e3}}`, `{"files":[{"name":"a"}],"env":{"A":1}}`, `[`, `null`, `{"a":{"b":[`,
		`{"runtime":"a","runtime":"b"}`, "\xff", `{"limits":{"cpus":-0}}`, `{"callback":null,"args":[null]}`, `{"run_at":"2026-11-20T09:00:00.5+01:00","deadline":"\u0032026-11-20T10:00:00Z"}`,
		`{"run_at":"0000-01-01T00:00:00Z"}`, `{"deadline":"9999-12-31T23:59:60Z"}`, `{"image":"localhost/a@sha256:0","command":["a",null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		spec, err := decode[job.Spec]("application/json", body)
		var p problem
		if err != nil {
			if !errors.As(err, &p) {
				t.Fatalf("refused without a problem: %v", err)
			}
			return
		}
		var plain job.Spec
		if err := json.Unmarshal(body, &plain); err != nil || !reflect.DeepEqual(spec, plain) {
			t.Fatalf("got %+v, encoding/json reads %+v, %v", spec, plain, err)
		}
		_ = spec.Check([]string{"python"}, nil, job.DefaultMaximums) // must not panic
	})
}
