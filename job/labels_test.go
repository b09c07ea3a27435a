package job

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestParseLabels(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", MaxLabelPart)
	for text, want := range map[string]string{
		"":                                "",
		"pool=exams":                      "pool=exams",
		"zone=a,gpu=no,pool=exams":        "gpu=no,pool=exams,zone=a",
		"a=B-1_2.3":                       "a=B-1_2.3",
		long + "=" + long:                 long + "=" + long,
		"gpu":                             "is no label",
		"=x":                              "key that is none",
		"a=":                              "no value",
		"a=b=c":                           "no value",
		"a=b,":                            "is no label",
		"a=b,a=c":                         "more than once",
		"A=b":                             "key that is none",
		"1a=b":                            "key that is none",
		"a=.b":                            "no value",
		"a=b c":                           "no value",
		"a=b}":                            "no value",
		"a=b:c":                           "no value",
		"a=é":                             "no value",
		"a@b=c":                           "key that is none",
		long + "a=b":                      "key that is none",
		"a=" + long + "a":                 "no value",
		many(MaxPlacement):                many(MaxPlacement),
		many(MaxPlacement + 1):            "too many",
		many(MaxPlacement) + ",x=1,x=1,y": "too many",
	} {
		got, err := ParseLabels(text, MaxPlacement)
		said := got.String()
		if err != nil {
			said = err.Error()
		}
		if said != want && (err == nil || !strings.Contains(said, want)) {
			t.Errorf("%.100q: got %q, want %q", text, said, want)
		}
	}
}

func many(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("k%02d=v", i)
	}
	return strings.Join(words, ",")
}

func TestParseLabelKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "[]", "pool": "[pool]", "pool,zone": "[pool zone]", "pool,pool": "more than once", "pool=exams": "no key", "Pool": "no key", "pool,": "no key",
		"true": "[true]", strings.Repeat("a,", MaxLabels) + "a": "more than",
	} {
		got, err := ParseLabelKeys(text)
		said := fmt.Sprint(got)
		if err != nil {
			said = err.Error()
		}
		if said != want && (err == nil || !strings.Contains(said, want)) {
			t.Errorf("%q: got %q, want %q", text, said, want)
		}
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	worker := Labels{"pool": "exams", "zone": "a"}
	for _, c := range []struct {
		labels, placement Labels
		only              []string
		want              bool
	}{
		{nil, nil, nil, true},
		{worker, nil, nil, true},
		{worker, Labels{"zone": "a"}, nil, true},
		{worker, Labels{"zone": "a", "pool": "exams"}, nil, true},
		{worker, Labels{"zone": "A"}, nil, false},
		{worker, Labels{"zone": ""}, nil, false},
		{worker, Labels{"gpu": "no"}, nil, false},
		{worker, Labels{"gpu": ""}, nil, false},
		{worker, Labels{"zone": "a", "gpu": "no"}, nil, false},
		{nil, Labels{"zone": "a"}, nil, false},
		// One that takes only jobs that name its pool.
		{worker, nil, []string{"pool"}, false},
		{worker, Labels{"zone": "a"}, []string{"pool"}, false},
		{worker, Labels{"pool": "exams"}, []string{"pool"}, true},
		{worker, Labels{"pool": "exams", "zone": "a"}, []string{"pool"}, true},
		{worker, Labels{"pool": "other"}, []string{"pool"}, false},
		{worker, Labels{"pool": "exams"}, []string{"pool", "zone"}, false},
	} {
		if got := c.labels.Serves(c.placement, c.only); got != c.want {
			t.Errorf("a worker with %q, only %v, and a placement of %q: got %v, want %v", c.labels, c.only, c.placement, got, c.want)
		}
	}
}

func TestLabelsWith(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, more   Labels
		both, clash string
	}{
		{nil, nil, "", ""},
		{Labels{"a": "1"}, nil, "a=1", ""},
		{nil, Labels{"a": "1"}, "a=1", ""},
		{Labels{"a": "1"}, Labels{"b": "2"}, "a=1,b=2", ""},
		{Labels{"a": "1"}, Labels{"a": "1"}, "a=1", ""},
		{Labels{"a": "1"}, Labels{"a": "2"}, "a=1", "a"},
	} {
		both, clash := c.one.With(c.more)
		if both.String() != c.both || clash != c.clash {
			t.Errorf("%q with %q: got %q, %q", c.one, c.more, both, clash)
		}
	}
}

// FuzzParseLabels: what is accepted is written so that it means the same, and has nothing in it that means something in a key of Redis'.
func FuzzParseLabels(f *testing.F) {
	for _, seed := range []string{"", "a=b", "zone=a,gpu=no", "a=b,a=b", "a==", ",", "a={b}", "k=v\x00", "é=é", many(MaxLabels), many(MaxLabels + 1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLabels(text, MaxLabels)
		if err != nil {
			return
		}
		written := l.String()
		again, err := ParseLabels(written, MaxLabels)
		if err != nil || !maps.Equal(l, again) || len(l) > MaxLabels {
			t.Fatalf("%q is written as %q, which is %v, %v", text, written, again, err)
		}
		if strings.ContainsAny(written, " {}:@*\"\n\x00") {
			t.Fatalf("%q is written as %q", text, written)
		}
	})
}
