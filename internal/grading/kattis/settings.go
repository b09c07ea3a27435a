package kattis

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/glovebox-run/glovebox/job"
)

const problemFile = "problem.yaml"

// settings are what problem.yaml says of how the problem is judged.
type settings struct {
	types      []string
	validation []string // legacy
	flags      []string // of the output validator
}

// settings reads problem.yaml, and the files that DOMjudge and Kattis put beside it.
func (r *reader) settings(p *Problem) (settings, error) {
	var s settings
	root, err := r.yaml(problemFile)
	if err != nil {
		return s, err
	}
	all, err := root.fields()
	if err != nil {
		return s, err
	}
	p.Version = Legacy
	for _, f := range all { // it says how to read the others
		if f.name == "problem_format_version" && f.given() {
			if p.Version, err = f.word(Legacy, LegacyICPC, Draft2023, V2025); err != nil {
				return s, err
			}
		}
	}
	p.Limits = Limits{Timing: timingOf(p.Version), MemoryMB: 2048, OutputMB: 8, ValidationOutputMB: 8, CodeKB: 128, CompilationTimeS: 60, ValidationTimeS: 60, Passes: 2}
	for _, f := range all {
		if err := s.read(p, f); err != nil {
			return s, err
		}
	}
	p.Scoring = slices.Contains(s.types, "scoring")
	if key := s.keyOf("submit-answer"); key != "" {
		return s, unsupported(problemFile, key, "submit-answer problems are")
	}
	if s.keyOf(multiPass) == "" {
		p.Limits.Passes = 1
	}
	if s.keyOf(interactive) != "" {
		p.Interactive = true
		if max(p.Limits.OutputMB, p.Limits.ValidationOutputMB)<<20 > job.MaxDialogBytes {
			return s, unsupported(problemFile, "limits", "interactive problems with more than 8 MiB of output, or of validation_output, are")
		}
	}
	return s, r.timeBeside(p)
}

const (
	multiPass   = "multi-pass"
	interactive = "interactive"
)

// scores reports whether an older package says that its validator gives each accepted test a score.
func (s *settings) scores() bool {
	return slices.Contains(s.validation, "custom") && slices.Contains(s.validation, "score")
}

// keyOf is the key that gives the problem a type; "" if it is not of it.
func (s *settings) keyOf(typ string) string {
	switch {
	case slices.Contains(s.validation, typ):
		return "validation"
	case slices.Contains(s.types, typ):
		return "type"
	}
	return ""
}

func (s *settings) read(p *Problem, f field) (err error) {
	switch f.name {
	case "name":
		p.Name, err = nameOf(f)
	case "type":
		s.types, err = f.words()
		for _, t := range s.types {
			if err == nil && !slices.Contains([]string{"pass-fail", "scoring", "interactive", "multi-pass", "submit-answer"}, t) {
				err = f.fault("want pass-fail, scoring, interactive, multi-pass or submit-answer (got %s)", clip(t))
			}
		}
	case "validation":
		s.validation, err = f.words()
		for _, v := range s.validation {
			if err == nil && !slices.Contains([]string{"default", "custom", "score", "interactive", "multi-pass"}, v) {
				err = f.fault("want default or custom (got %s)", clip(v))
			}
		}
	case "validator_flags":
		s.flags, err = f.words()
	case "grading":
		err = readObjective(f)
	case "languages":
		p.Languages, err = f.words()
		if slices.Equal(p.Languages, []string{"all"}) {
			p.Languages = nil
		}
	case "constants":
		err = readConstants(f, p.constants)
	case "limits":
		err = readLimits(f, p)
	}
	return err
}

// nameOf takes the English name where there are several.
func nameOf(f field) (string, error) {
	if !f.given() || f.node.Kind != yaml.MappingNode {
		return f.text()
	}
	names, err := f.fields()
	if err != nil || len(names) == 0 {
		return "", err
	}
	for _, n := range names {
		if n.name == "en" {
			return n.text()
		}
	}
	return names[0].text()
}

func readObjective(f field) error {
	all, err := f.fields()
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.name == "objective" {
			if o, err := g.word("max", "min"); err != nil {
				return err
			} else if o == "min" {
				return unsupported(f.file, g.key, "problems with the least score as the best are")
			}
		}
	}
	return nil
}

var constantName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// readConstants takes {name: value} and {name: {value: v, variant: w}}.
func readConstants(f field, constants map[string]string) error {
	all, err := f.fields()
	if err != nil {
		return err
	}
	for _, c := range all {
		name := c.name
		if !constantName.MatchString(name) {
			return c.fault("want a name of letters, digits and _")
		}
		if !c.given() || c.node.Kind != yaml.MappingNode {
			if constants[name], err = constant(c); err != nil {
				return err
			}
			continue
		}
		variants, err := c.fields()
		if err != nil {
			return err
		}
		for _, v := range variants {
			key := name + "." + v.name
			if v.name == "value" {
				key = name
			}
			if constants[key], err = constant(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// constant reads the value of one.
func constant(f field) (string, error) {
	value, err := f.text()
	if err == nil && len(value) > maxConstant {
		err = f.fault("has %d bytes; a constant has up to %d", len(value), maxConstant)
	}
	return value, err
}

var constantUse = regexp.MustCompile(`\{\{([a-zA-Z_][a-zA-Z0-9_]*(?:\.[a-zA-Z_][a-zA-Z0-9_]*)?)\}\}`)

// replaceConstants leaves those that are not known. What it makes of a file is up to so many bytes, and counts as read.
func (r *reader) replaceConstants(p *Problem, file string, text []byte, most int64) ([]byte, error) {
	if len(p.constants) == 0 {
		return text, nil
	}
	var made []byte
	had := int64(len(text))
	for at := constantUse.FindIndex(text); at != nil; at = constantUse.FindIndex(text) {
		use := text[at[0]:at[1]]
		made = append(made, text[:at[0]]...)
		if value, ok := p.constants[string(use[2:len(use)-2])]; ok {
			made = append(made, value...)
		} else {
			made = append(made, use...)
		}
		if text = text[at[1]:]; int64(len(made)) > most {
			break
		}
	}
	if made = append(made, text...); int64(len(made)) > most {
		return nil, faultf(file, "", "is larger than %d bytes once constants are replaced", most)
	}
	return made, r.count(file, int64(len(made))-had)
}

const (
	mostSeconds = 3600
	mostMB      = 1 << 20
)

func readLimits(f field, p *Problem) error {
	all, err := f.fields()
	if err != nil {
		return err
	}
	l := &p.Limits
	whole := func(f field, into *int64, most int64) error {
		n, err := f.whole(most)
		if err == nil && n > 0 {
			*into = n
		}
		return err
	}
	for _, f := range all {
		switch f.name {
		case "memory":
			err = whole(f, &l.MemoryMB, mostMB)
		case "output":
			err = whole(f, &l.OutputMB, mostMB)
		case "code":
			err = whole(f, &l.CodeKB, mostMB)
		case "compilation_time":
			err = whole(f, &l.CompilationTimeS, mostSeconds)
		case "compilation_memory":
			err = whole(f, &l.CompilationMB, mostMB)
		case "time_limit":
			err = l.setTime(f)
		case "time_resolution":
			l.Timing.Resolution, err = f.number(l.Timing.Resolution, 0.001, mostSeconds)
		case "time_multiplier":
			l.Timing.ToLimit, err = f.number(l.Timing.ToLimit, 1, 1000)
		case "time_safety_margin":
			l.Timing.ToTLE, err = f.number(l.Timing.ToTLE, 1, 1000)
		case "time_multipliers":
			err = readMultipliers(f, &l.Timing)
		case "validation_time":
			err = whole(f, &l.ValidationTimeS, mostSeconds)
		case "validation_memory":
			err = whole(f, &l.ValidationMB, mostMB)
		case "validation_passes":
			err = whole(f, &l.Passes, job.MaxPasses)
		case "validation_output":
			err = whole(f, &l.ValidationOutputMB, mostMB)
		default:
			if p.Version == V2025 {
				err = f.fault("there is no such limit")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Limits) setTime(f field) error {
	seconds, err := f.number(0, 0.001, mostSeconds)
	if err == nil && f.given() {
		l.Time, l.TimeFrom = inSeconds(seconds), f.file
	}
	return err
}

func inSeconds(s float64) time.Duration {
	return time.Duration(math.Round(s*1000)) * time.Millisecond
}

func readMultipliers(f field, t *Timing) error {
	all, err := f.fields()
	if err != nil {
		return err
	}
	for _, m := range all {
		switch m.name {
		case "ac_to_time_limit":
			t.ToLimit, err = m.number(t.ToLimit, 1, 1000)
		case "time_limit_to_tle":
			t.ToTLE, err = m.number(t.ToTLE, 1, 1000)
		default:
			err = m.fault("there is no such multiplier")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// timeBeside reads the time limit that judges keep beside problem.yaml, where that has none.
func (r *reader) timeBeside(p *Problem) error {
	if p.Limits.Time > 0 {
		return nil
	}
	for _, beside := range []struct {
		file string
		line *regexp.Regexp
	}{
		{".timelimit", regexp.MustCompile(`^\s*([0-9.]+)\s*$`)},
		{"domjudge-problem.ini", regexp.MustCompile(`(?m)^\s*timelimit\s*=\s*['"]?([0-9.]+)['"]?\s*$`)},
	} {
		text, ok, err := r.read(beside.file, maxYAML)
		if err != nil {
			return err
		}
		found := beside.line.FindSubmatch(text)
		if ok && found == nil && beside.file == ".timelimit" {
			return faultf(beside.file, "", "want seconds (got %s)", clip(strings.TrimSpace(string(text))))
		}
		if found == nil {
			continue
		}
		seconds, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil || seconds < 0.001 || seconds > mostSeconds {
			return faultf(beside.file, "timelimit", "want seconds from 0.001 to %d (got %s)", mostSeconds, clip(string(found[1])))
		}
		p.Limits.Time, p.Limits.TimeFrom = inSeconds(seconds), beside.file
		return nil
	}
	return nil
}
