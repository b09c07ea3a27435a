package job_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// What metadata takes is counted as it is kept: bytes that JSON escapes are more than one.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	filled := func(text string, n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[string(rune('A'+i))] = strings.Repeat(text, job.MaxMetadataBytes/len(text))
		}
		return m
	}
	for name, c := range map[string]struct {
		metadata map[string]string
		fits     bool
	}{
		"as much as there may be":           {filled("x", 15), true},
		"that HTML would escape":            {filled("<", 15), true},
		"a pair more":                       {filled("x", 16), false},
		"what JSON escapes, two bytes each": {filled(`"`, 8), false},
		"what JSON escapes, six bytes each": {filled("\x01", 3), false},
	} {
		spec := job.Spec{Runtime: "python", Source: "print(1)", Metadata: c.metadata}
		var invalid job.Invalid
		err := spec.Check([]string{"python"}, nil, job.DefaultMaximums)
		if fits := err == nil; fits != c.fits || !fits && (!errors.As(err, &invalid) || invalid[0].Field != "metadata") {
			t.Errorf("%s: got %v, want that it fits: %v", name, err, c.fits)
		}
		options := job.BatchOptions{Metadata: c.metadata}
		if err := options.Check(); (err == nil) != c.fits {
			t.Errorf("%s, of a batch: got %v", name, err)
		}
		b, err := job.Marshal(c.metadata)
		if err != nil || (len(b) <= job.MaxMetadataJSON) != c.fits || strings.Contains(string(b), `\u003c`) {
			t.Errorf("%s: %d bytes as JSON, %v", name, len(b), err)
		}
	}
}

// A fault of metadata names the entry that has it, and what a key and a value may be.
func TestMetadataFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", job.MaxMetadataBytes+1)
	for name, c := range map[string]struct {
		metadata map[string]string
		field    string // "": it is accepted
	}{
		"an empty value":                   {map[string]string{"order": ""}, ""},
		"a value as long as it may be":     {map[string]string{"order": long[1:]}, ""},
		"a value that is too long":         {map[string]string{"first": "1", "order": long}, "metadata.order"},
		"the same, of a long key":          {map[string]string{long[1:]: long}, "metadata." + long[:64] + "…"},
		"an empty key":                     {map[string]string{"": "1"}, "metadata"},
		"a key that is too long":           {map[string]string{long: "1"}, "metadata"},
		"several faults: the first by key": {map[string]string{"b": long, "a": long, "c": long}, "metadata.a"},
	} {
		err := job.Spec{Runtime: "python", Source: "1", Metadata: c.metadata}.Check([]string{"python"}, nil, job.DefaultMaximums)
		var invalid job.Invalid
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: got %v", name, err)
		case c.field != "" && (!errors.As(err, &invalid) || invalid[0].Field != c.field || invalid[0].Allowed != "keys of 1 to 1024 bytes, values of 0 to 1024"):
			t.Errorf("%s: got %v, want %s", name, err, c.field)
		}
	}
}
