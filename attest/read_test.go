package attest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

func TestParseResult(t *testing.T) {
	t.Parallel()
	const result = `{"id":"default-x","status":"succeeded","stdout":"a\ud83d\ude00\\ud800\ufffd","metadata":{"Key":"1","key":"2"}}`
	for name, text := range map[string]string{
		"a result": result, "a message": `{"type":"job.completed","timestamp":"2026-11-20T08:00:00Z","data":` + result + "}\n",
	} {
		r, err := ParseResult([]byte(text))
		if err != nil || r.ID != "default-x" || r.Status != job.Succeeded || r.Stdout != "a😀\\ud800\ufffd" || len(r.Metadata) != 2 {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
	for name, text := range map[string]string{
		"nothing":                       "",
		"half of one":                   result[:40],
		"two":                           result + result,
		"a list":                        "[" + result + "]",
		"null":                          "null",
		"no id":                         `{"status":"failed"}`,
		"a record, not a result":        `{"id":"default-x","status":"running"}`,
		"a name twice":                  `{"id":"default-x","status":"failed","status":"succeeded"}`,
		"a name twice, once in escapes": `{"id":"default-x","status":"failed","st\u0061tus":"succeeded"}`,
		"a name in capitals":            `{"id":"default-x","status":"failed","Status":"succeeded"}`,
		"a name that folds":             `{"id":"default-x","status":"failed","\u017ftatus":"succeeded"}`,
		"a name twice, deeper":          `{"id":"default-x","status":"failed","artifacts":[{"name":"a","name":"b"}]}`,
		"metadata twice":                `{"id":"default-x","status":"failed","metadata":{"a":"1","a":"2"}}`,
		"a result and a message":        `{"id":"default-x","status":"failed","data":` + result + `}`,
		"no UTF-8":                      "{\"id\":\"default-x\",\"status\":\"failed\",\"stdout\":\"\xff\"}",
		"half a pair":                   `{"id":"default-x","status":"failed","stdout":"\ud83d"}`,
		"the other half":                `{"id":"default-x","status":"failed","stdout":"\\\ude00"}`,
		"two first halves":              `{"id":"default-x","status":"failed","stdout":"\ud83d\ud83d"}`,
		"deep":                          strings.Repeat(`{"x":`, 100) + "1" + strings.Repeat("}", 100),
		"large":                         `{"id":"` + strings.Repeat("x", MaxResult) + `"}`,
	} {
		if r, err := ParseResult([]byte(text)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, r)
		}
	}
}

func FuzzParseResult(f *testing.F) {
	b, err := json.Marshal(attested(f, rfc8032(f)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"type":"t","data":{"id":"a","status":"failed","Status":"x","metadata":{"A":"b"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseResult(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseResult(again); err != nil {
			t.Errorf("what was read is refused once written: %v\n%s", err, again)
		}
	})
}
