package convert

import (
	"bytes"
	"maps"
	"os"
	"path"
	"slices"

	"gopkg.in/yaml.v3"
)

// What the files of a package say, as far as is needed here.
type (
	problemYAML struct {
		Version string      `yaml:"problem_format_version"`
		Name    string      `yaml:"name,omitempty"`
		Type    kindsYAML   `yaml:"type"`
		Limits  *limitsYAML `yaml:"limits,omitempty"`
	}
	// kindsYAML is a list that is written as a word where it has one.
	kindsYAML  []string
	limitsYAML struct {
		Time        float64            `yaml:"time_limit,omitempty"`
		Multipliers map[string]float64 `yaml:"time_multipliers,omitempty"`
		Memory      int64              `yaml:"memory,omitempty"`
		Output      int64              `yaml:"output,omitempty"`
	}
	groupYAML struct {
		MaxScore    *float64 `yaml:"max_score,omitempty"`
		Aggregation string   `yaml:"score_aggregation,omitempty"`
		Requires    []string `yaml:"require_pass,omitempty,flow"`
		Checker     []string `yaml:"output_validator_args,omitempty,flow"`
	}
	testYAML struct {
		Checker []string `yaml:"output_validator_args,flow"`
	}
	programYAML struct {
		Permitted []string `yaml:"permitted,flow"`
		TimeLimit bool     `yaml:"use_for_time_limit"`
	}
)

func (k kindsYAML) MarshalYAML() (any, error) {
	if len(k) == 1 {
		return k[0], nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, word := range k {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: word})
	}
	return list, nil
}

// writer writes into a package, whose names are known to stay in it.
type writer struct {
	root *os.Root
	*source
}

// write writes the whole package.
func (p *problem) write(root *os.Root) error {
	w := writer{root, p.source}
	about := problemYAML{Version: "2025-09", Name: p.name, Type: kindsYAML{"pass-fail"}}
	if p.scoring {
		about.Type = kindsYAML{"scoring"}
	}
	if p.interactive {
		about.Type = append(about.Type, "interactive")
	}
	if p.timeLimit > 0 || p.memoryMB > 0 || p.outputMB > 0 {
		about.Limits = &limitsYAML{Time: p.timeLimit.Seconds(), Memory: p.memoryMB, Output: p.outputMB}
	}
	if p.timeLimit > 0 { // the original says nothing of how far submissions are from it
		about.Limits.Multipliers = map[string]float64{"ac_to_time_limit": 1, "time_limit_to_tle": 1}
	}
	if err := w.yaml("problem.yaml", about); err != nil {
		return err
	}
	if len(p.samples) > 0 {
		if err := w.tests("data/sample", p.samples, groupYAML{Checker: p.checker}); err != nil {
			return err
		}
	}
	if err := p.writeSecret(w); err != nil {
		return err
	}
	for folder, files := range map[string]map[string]data{"output_validator": p.validator, "include": p.includes, "submissions": p.programs} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := w.data(path.Join(folder, name), files[name]); err != nil {
				return err
			}
		}
	}
	if len(p.permitted) == 0 {
		return nil
	}
	expected := map[string]programYAML{}
	for name, verdicts := range p.permitted {
		expected[name] = programYAML{Permitted: verdicts}
	}
	return w.yaml("submissions/submissions.yaml", expected)
}

// writeSecret writes data/secret: its groups, or all of their tests together where no points are given.
func (p *problem) writeSecret(w writer) error {
	if !p.scoring {
		var all []test
		for _, g := range p.groups {
			all = append(all, g.tests...)
		}
		return w.tests("data/secret", all, groupYAML{Checker: p.checker})
	}
	total := p.total()
	if err := w.yaml("data/secret/test_group.yaml", groupYAML{MaxScore: &total, Aggregation: "sum"}); err != nil {
		return err
	}
	names := p.folders()
	for i, g := range p.groups {
		about := groupYAML{MaxScore: &g.points, Aggregation: g.how, Checker: p.checker}
		if g.checker != nil {
			about.Checker = g.checker
		}
		for _, r := range g.requires {
			about.Requires = append(about.Requires, "secret/"+names[r])
		}
		if err := w.tests("data/secret/"+names[i], g.tests, about); err != nil {
			return err
		}
	}
	return nil
}

// tests writes a folder of tests, and what it says of them.
func (w writer) tests(dir string, tests []test, about groupYAML) error {
	if about.MaxScore != nil || len(about.Checker) > 0 {
		if err := w.yaml(dir+"/test_group.yaml", about); err != nil {
			return err
		}
	}
	for i, t := range tests {
		name := dir + "/" + numbered(i, len(tests))
		if err := w.data(name+".in", t.input); err != nil {
			return err
		}
		if err := w.data(name+".ans", t.answer); err != nil {
			return err
		}
		if t.checker != nil {
			if err := w.yaml(name+".yaml", testYAML{t.checker}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w writer) data(name string, d data) error {
	b, err := w.load(d)
	if err != nil {
		return err
	}
	if d.script {
		return w.fileAs(name, b, 0o777)
	}
	return w.file(name, b)
}

func (w writer) yaml(name string, value any) error {
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(value); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	return w.file(name, text.Bytes())
}

func (w writer) file(name string, content []byte) error { return w.fileAs(name, content, 0o666) }

func (w writer) fileAs(name string, content []byte, mode os.FileMode) error {
	if err := w.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	return w.root.WriteFile(name, content, mode)
}
