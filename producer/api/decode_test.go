package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
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
	if !errors.As(err, &p) || len(p.Errors) != strictjson.MaxFaults {
		t.Errorf("got %v, want %d faults", err, strictjson.MaxFaults)
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
	for i := range strictjson.MaxEntries + 1 {
		fmt.Fprintf(&env, `,"A%d":""`, i)
	}
	for field, body := range map[string]string{
		"args":  `{"args":["a"` + strings.Repeat(`,"a"`, strictjson.MaxEntries) + `]}`,
		"files": `{"files":[null` + strings.Repeat(`,null`, strictjson.MaxEntries) + `]}`,
		"env":   `{"env":{` + env.String()[1:] + `}}`,
	} {
		_, err := decode[job.Spec]("", []byte(body))
		var p problem
		if !errors.As(err, &p) || len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: got %+v, want one fault", field, err)
		}
	}
}

// TestDecodeHalfCharacters: half a surrogate pair is no character. What encoding/json reads in its place is not what was sent.
func TestDecodeHalfCharacters(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{ // faults as field=value
		`{"source":"\ud83d\ude00"}`:                        "",
		`{"source":"\\ud800"}`:                             "",
		`{"source":"\\\ud800"}`:                            `source=\ud800`,
		`{"source":"\ufffd\u00e9"}`:                        "",
		`{"source":"\ud800"}`:                              `source=\ud800`,
		`{"source":"\udc80"}`:                              `source=\udc80`,
		`{"source":"a\uD83Db"}`:                            `source=\uD83D`,
		`{"source":"\ud83d\n\ude00"}`:                      `source=\ud83d`,
		`{"source":"\ud83d\u0041"}`:                        `source=\ud83d`,
		`{"source":"\ud83d\ud83d\ude00"}`:                  `source=\ud83d`,
		`{"source":"\ude00\ud83d"}`:                        `source=\ude00`,
		`{"args":["a","\udc80"],"stdin":"\udcff"}`:         `args[1]=\udc80 stdin=\udcff`,
		`{"files":[{"name":"a","content":"\udc80"}]}`:      `files[0].content=\udc80`,
		`{"env":{"A":"\udc80"},"metadata":{"k":"\udc81"}}`: `env.A=\udc80 metadata.k=\udc81`,
		`{"env":{"\ud800":"1","\ud801":["1"],"A":"1"}}`:    `env=\ud800 env=\ud801`,
		`{"\ud800":1,"runtime":"python"}`:                  `body=\ud800`,
		`{"callback":{"url":"https://x/\ud800"}}`:          `callback.url=\ud800`,
	} {
		_, err := decode[job.Spec]("", []byte(body))
		if got := faultsOf(err); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	for body, want := range map[string]string{
		`{"params":{"a":["\udc80"]}}`:     `params=\udc80`,
		`{"params":{"\udc80":1}}`:         `params=\udc80`,
		`{"params":{"a":"\ud83d\ude00"}}`: "",
	} {
		_, err := decode[producer.RunRequest]("", []byte(body))
		if got := faultsOf(err); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	_, err := decode[producer.TemplateRequest]("", []byte(`{"spec":{"stdin":"\udc80","args":["a",{"from":"/params/\udc80"}]}}`))
	if got, want := faultsOf(err), `spec.args[1].from=\udc80 spec.stdin=\udc80`; got != want {
		t.Errorf("template: got %q, want %q", got, want)
	}
}

// TestDecodeEmptyGrading: what is to grade a program is there, or is not; a job with neither tests nor problem is graded by nothing.
func TestDecodeEmptyGrading(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{ // faults as field=value
		`"tests":[]`:                 "tests=<nil>",
		"\"tests\" : [ \n ] ":        "tests=<nil>",
		`"problem":""`:               "problem=<nil>",
		`"tests":[],"problem":""`:    "problem=<nil> tests=<nil>",
		`"tests":""`:                 "tests=",
		`"problem":[]`:               "problem=an array",
		`"tests":null`:               "",
		`"problem":null`:             "",
		`"tests":[{"stdin":""}]`:     "",
		`"problem":"a"`:              "",
		`"args":[],"stdin":""`:       "",
		`"files":[],"image":""`:      "",
		`"env":{},"metadata":{}`:     "",
		`"tests":[null],"source":""`: "",
	} {
		spec := `{"runtime":"python",` + fields + `}`
		_, err := decode[job.Spec]("", []byte(spec))
		if got := faultsOf(err); got != want {
			t.Errorf("%s: got %q, want %q", fields, got, want)
		}
		if _, invalid, err := decodeItem([]byte(spec)); err != nil || len(invalid) != strings.Count(want, "=") {
			t.Errorf("%s in a batch: got %v, %v, want %q", fields, invalid, err, want)
		}
		_, err = decode[producer.TemplateRequest]("", []byte(`{"spec":`+spec+`}`))
		if got := strings.ReplaceAll(faultsOf(err), "spec.", ""); got != want {
			t.Errorf("%s in a template: got %q, want %q", fields, got, want)
		}
	}
}

// faultsOf lists which fields a problem finds fault with, by name, each with its value.
func faultsOf(err error) string {
	var p problem
	if !errors.As(err, &p) {
		return ""
	}
	faults := make([]string, len(p.Errors))
	for i, f := range p.Errors {
		faults[i] = fmt.Sprint(f.Field, "=", f.Value)
	}
	slices.Sort(faults)
	return strings.Join(faults, " ")
}

// FuzzDecodeSpec: what is accepted is what encoding/json reads, and can be checked;
// no character of it stands for others that were sent; what is refused is refused with a problem.
func FuzzDecodeSpec(f *testing.F) {
	for _, seed := range []string{
		`{"runtime":"python","source":"1"}`, `{"limits":{"wall_ms":1e3}}`, `{"files":[{"name":"a"}],"env":{"A":1}}`, `[`, `null`, `{"a":{"b":[`,
		`{"runtime":"a","runtime":"b"}`, "\xff", `{"limits":{"cpus":-0}}`, `{"callback":null,"args":[null]}`, `{"run_at":"2026-11-20T09:00:00.5+01:00","deadline":"\u0032026-11-20T10:00:00Z"}`,
		`{"source":"\ud83d\ude00\\ud800"}`, `{"env":{"A":"\udc80"}}`,
		`{"run_at":"0000-01-01T00:00:00Z"}`, `{"deadline":"9999-12-31T23:59:60Z"}`, `{"image":"localhost/a@sha256:0","command":["a",null]}`,
	} {
		f.Add([]byte(seed))
	}
	replaced := regexp.MustCompile(`\x{FFFD}|\\u[fF]{3}[dD]`)
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
		if again, err := json.Marshal(spec); err != nil || strings.ContainsRune(string(again), '\uFFFD') && !replaced.Match(body) {
			t.Fatalf("got %s, %v, which has characters that %s has not", again, err, body)
		}
		_ = spec.Check([]string{"python"}, nil, job.DefaultMaximums) // must not panic
	})
}
