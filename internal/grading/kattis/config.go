package kattis

import (
	"slices"
	"strconv"
	"strings"
)

// config is what a folder's testdata.yaml or test_group.yaml says.
type config struct {
	file string // "" if there is none

	// Legacy: what is not set is taken from the folder around it.
	onReject    string
	flagged     bool     // graderFlags are set
	graderFlags []string // of the default grader
	accept      *float64
	reject      *float64
	most        *float64 // the upper end of range, set here

	// 2025-09: nothing is inherited.
	maxScore    *float64
	unbounded   bool
	aggregation string
	require     []string
	full        *bool

	// Both.
	args      []string
	flags     []string // of the output validator
	flagsFrom string   // the file that says so
	style     string   // "legacy" or "new", by the keys for scores that are there
	styleKey  string
}

func (c *config) fullFeedback(folder string) bool {
	if c.full != nil {
		return *c.full
	}
	return folder == "sample" || strings.HasPrefix(folder, "sample/")
}

// config reads a folder's file. Both names occur in packages of every version.
func (r *reader) config(p *Problem, dir string) (config, error) {
	var c config
	for _, name := range []string{"testdata.yaml", "test_group.yaml"} {
		text, ok, err := r.read(dir+"/"+name, maxYAML)
		if err != nil {
			return c, err
		}
		if !ok {
			continue
		}
		at := dir + "/" + name
		if c.file != "" {
			return c, faultf(at, "", "is there beside %s; one of the two is wanted", c.file)
		}
		c.file = at
		if text, err = r.replaceConstants(p, at, text, maxYAML); err != nil {
			return c, err
		}
		root, err := parseYAML(at, text)
		if err != nil {
			return c, err
		}
		all, err := root.fields()
		if err != nil {
			return c, err
		}
		for _, f := range all {
			if err := c.read(f); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// The most that a package may give, as a contract of jobs has it.
const mostPoints = 1e9

func (c *config) read(f field) (err error) {
	switch f.name {
	case "on_reject":
		c.onReject, err = f.word("break", "continue")
	case "grading":
		var how string
		if how, err = f.word("default", "custom"); how == "custom" {
			err = unsupported(f.file, f.key, "custom graders are")
		}
	case "grader_flags":
		c.graderFlags, err = f.words()
		c.flagged = f.given()
		for _, flag := range c.graderFlags {
			if err == nil && !slices.Contains(graderFlags, flag) {
				err = f.fault("want %s (got %s)", strings.Join(graderFlags, ", "), clip(flag))
			}
		}
	case "accept_score":
		c.accept, err = points(f)
	case "reject_score":
		c.reject, err = points(f)
	case "range":
		c.most, err = upperEnd(f)
	case "max_score":
		if s, _ := f.text(); s == "unbounded" {
			c.unbounded = true
		} else {
			c.maxScore, err = points(f)
		}
	case "score_aggregation":
		c.aggregation, err = f.word("pass-fail", "sum", "min")
	case "require_pass":
		c.require, err = f.words()
	case "static_validation_score", "static_validator_args":
		err = unsupported(f.file, f.key, "static validators are")
	case "args":
		c.args, err = f.words()
	case "output_validator_args", "output_validator_flags":
		c.flags, err = f.words()
		c.flagsFrom = f.file
	case "full_feedback":
		var full bool
		full, err = f.boolean(false)
		if f.given() {
			c.full = &full
		}
	case "input_validator_flags", "input_validator_args", "input_visualizer_args", "output_visualizer_args", "description", "hint":
	default:
		err = f.fault("there is no such key")
	}
	switch f.name {
	case "grader_flags", "accept_score", "reject_score", "range":
		c.style, c.styleKey = styleLegacy, f.name
	case "max_score", "score_aggregation", "require_pass":
		c.style, c.styleKey = styleNew, f.name
	}
	return err
}

const (
	styleLegacy = "legacy"
	styleNew    = "new"
)

var graderFlags = []string{
	"worst_error", "first_error", "always_accept", "accept_if_any_accepted", "sum", "avg", "min", "max", "ignore_sample",
}

// points reads a score, which legacy packages write as a string.
func points(f field) (*float64, error) {
	if !f.given() {
		return nil, nil
	}
	x, err := f.number(0, 0, mostPoints)
	return &x, err
}

// upperEnd reads "0 100"; nil for one without end. Scores below 0 are not graded: its lower end is not
// looked at.
func upperEnd(f field) (*float64, error) {
	ends, err := f.words()
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	want := func() error { return f.fault("want two numbers (got %s)", clip(strings.Join(ends, " "))) }
	if len(ends) != 2 {
		return nil, want()
	}
	for _, e := range ends {
		if _, err := strconv.ParseFloat(e, 64); err != nil {
			return nil, want()
		}
	}
	x, _ := strconv.ParseFloat(ends[1], 64) // it has been looked at
	switch {
	case !(x <= mostPoints): // infinite, or no number
		return nil, nil
	case x < 0:
		return nil, unsupported(f.file, f.key, "scores below 0 are")
	}
	return &x, nil
}

// inherit takes what is not set from the folder around it, except for what test_group.yaml says.
func (c *config) inherit(from config) {
	if c.onReject == "" {
		c.onReject = from.onReject
	}
	if !c.flagged {
		c.graderFlags, c.flagged = from.graderFlags, from.flagged
	}
	if c.accept == nil {
		c.accept = from.accept
	}
	if c.reject == nil {
		c.reject = from.reject
	}
	if c.flagsFrom == "" && !strings.HasSuffix(c.file, "/test_group.yaml") {
		c.flags, c.flagsFrom = from.flags, from.flagsFrom
	}
	if c.file == "" { // a folder without a file is as the one around it
		c.args, c.full = from.args, from.full
	}
}
