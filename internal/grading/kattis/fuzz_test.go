package kattis

import (
	"errors"
	"testing"
	"testing/fstest"
	"time"
)

// FuzzStored: a package, whatever its YAML says, is refused as its author can understand, or makes a problem that can be stored and graded by.
func FuzzStored(f *testing.F) {
	const scoring = "type: scoring\nproblem_format_version: 2025-09\n"
	for _, seed := range []struct{ problem, group, test string }{
		{"", "", ""},
		{"name: Sum\nlimits: {memory: 256, output: 1, time_limit: 2}\n", "", ""},
		{"problem_format_version: 2025-09\ntype: [scoring, interactive]\n", "", ""},
		{"problem_format_version: 2025-09\ntype: multi-pass\nlimits: {validation_passes: 7}\n", "", ""},
		{scoring, "max_score: 40\nrequire_pass: [sample]\nscore_aggregation: min\n", "args: [a]\nhint: h\n"},
		{"problem_format_version: legacy\ngrading: {objective: max}\nvalidation: custom score\n", "on_reject: break\ngrading: default\ngrader_flags: min accept_if_any_accepted\nrange: 0 40\n", ""},
		{"problem_format_version: 2023-07-draft\n", "accept_score: 1e300\nreject_score: .nan\nrange: -.inf .inf\n", ""},
		{"validator_flags: float_tolerance 1e-400 case_sensitive\n", "output_validator_flags: float_tolerance 1e99999\n", ""},
		{"limits: {time_limit: -1, memory: 1e99, validation_time: 0x7fffffffffffffff}\n", "", ""},
		{"languages: [c, python3, ../x]\nconstants: {n: {value: 3}, '{{n}}': '{{n}}'}\n", "output_validator_args: '{{n}}'\n", ""},
		{"a: &a [x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n", "max_score: &a [*a]\n", "<<: {args: 3}\n"},
		{"name: {en: Sum, '': \"\\0\"}\nuuid: [\n", "{", "\xff"},
	} {
		f.Add([]byte(seed.problem), []byte(seed.group), []byte(seed.test))
	}
	f.Fuzz(func(t *testing.T, problem, group, test []byte) {
		files := with(smallest, "sample/1", "secret/g1/1", "secret/g1/2", "secret/g1/d/3", "secret/g2/1")
		delete(files, "data/secret/1.in")
		delete(files, "data/secret/1.ans")
		for name, text := range map[string][]byte{
			problemFile: problem, "data/secret/g2/test_group.yaml": group, "data/secret/g1/testdata.yaml": group, "data/secret/g1/2.yaml": test,
			"output_validators/check/check.py": nil, "include/python3/help.py": nil, "submissions/accepted/a.py": nil,
		} {
			files[name] = &fstest.MapFile{Data: text}
		}
		for _, validated := range []bool{true, false} {
			if !validated {
				delete(files, "output_validators/check/check.py")
			}
			p, err := Read(files)
			var fault *Error
			if err != nil {
				if !errors.As(err, &fault) {
					t.Errorf("no error of the package: %v", err)
				}
				continue
			}
			if _, err := p.Judgement(); err != nil {
				t.Errorf("its verdicts add up to nothing: %v", err)
			}
			stored, err := p.Stored(Run{Time: time.Second, Validator: "python"}, func(string) (string, error) { return "python", nil })
			if err == nil {
				err = stored.Check()
			}
			if err != nil {
				t.Errorf("no problem that can be stored: %v", err)
			}
		}
	})
}
