package kattis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// groups translates how a scoring problem adds up. Packages marked 2023-07-draft have the rules of
// either side: those whose keys are there. scores says that the package's own validator gives each accepted test one.
func (d dataset) groups(version string, validated, scores bool) ([]job.Group, error) {
	var legacy, newer *config
	d.root.walk(func(f *folder) {
		switch f.config.style {
		case styleLegacy:
			legacy = cmp.Or(legacy, &f.config)
		case styleNew:
			newer = cmp.Or(newer, &f.config)
		}
	})
	switch {
	case legacy != nil && newer != nil:
		return nil, faultf(newer.file, newer.styleKey, "is of format 2025-09, and %s in %s of an older one: one of the two is wanted", legacy.styleKey, legacy.file)
	case legacy == nil && (newer != nil || version == V2025):
		return d.newGroups(validated)
	}
	groups := d.legacyGroups()
	for i := range groups {
		if validated && scores {
			groups[i].CheckerScore = "required"
		}
	}
	return groups, nil
}

// ends are the groups of a pass-fail problem whose older package says how they come to a verdict; nil where none does, as all
// tests are one group then.
func (d dataset) ends(version string) []job.Group {
	said := false
	d.root.walk(func(f *folder) { said = said || f.config.onReject != "" || len(f.config.graderFlags) > 0 })
	if version == V2025 || !said {
		return nil
	}
	groups := d.legacyGroups()
	for i := range groups { // it has no scores
		groups[i].Score, groups[i].AcceptScore, groups[i].RejectScore, groups[i].MaxScore = "", nil, nil, nil
	}
	return groups
}

// legacyGroups: each folder, data/ too, is graded from its direct children.
func (d dataset) legacyGroups() []job.Group {
	var groups []job.Group
	ignoreSample := slices.Contains(d.root.config.graderFlags, "ignore_sample")
	d.root.walk(func(f *folder) {
		g := job.Group{Name: f.path, Score: "sum", Verdict: "worst", OnReject: cmp.Or(f.config.onReject, "break"), AcceptScore: f.config.accept, RejectScore: f.config.reject, MaxScore: f.config.most}
		for _, flag := range f.config.graderFlags { // of those that conflict, the last wins
			switch flag {
			case "worst_error":
				g.Verdict = "worst"
			case "first_error":
				g.Verdict = "first"
			case "always_accept":
				g.Verdict = "always"
			case "accept_if_any_accepted":
				g.AcceptAny = true
			case "sum", "avg", "min", "max":
				g.Score = flag
			}
		}
		if ignoreSample {
			switch {
			case f.path == "": // secret alone counts: of one child, every sum, average or extreme is its score
				g.Score, g.AcceptAny = "sum", false
			case f.path == "sample" || strings.HasPrefix(f.path, "sample/"): // whatever score a validator gives there
				g.Verdict, g.Score, g.AcceptScore, g.RejectScore, g.MaxScore = "always", "sum", zero(), zero(), zero()
			}
		}
		groups = append(groups, g)
	})
	return groups
}

func zero() *float64 { return new(float64) }

// newGroups: secret is graded from its tests or from its groups, which are its folders; sample gives no
// score. Where one rejected test makes a zero of all, the others are not run.
func (d dataset) newGroups(validated bool) ([]job.Group, error) {
	groups := []job.Group{{Score: "sum", OnReject: "continue"}}
	for _, child := range d.root.children {
		f := child.(*folder)
		c := f.config
		if f.path == "sample" {
			if c.style == styleNew {
				return nil, faultf(c.file, c.styleKey, "is not for sample")
			}
			groups = append(groups, job.Group{Name: "sample", AcceptScore: zero(), RejectScore: zero(), MaxScore: zero(), OnReject: "continue"})
			continue
		}
		hundred := 100.0
		if c.maxScore == nil && !c.unbounded {
			c.maxScore = &hundred
		}
		inner, tests := f.split()
		if len(inner) > 0 && tests > 0 {
			return nil, faultf("data/secret", "", "has tests and folders; a scoring problem has one of the two there")
		}
		secret, err := newGroup(f, c, cmp.Or(c.aggregation, "sum"), len(inner) == 0, validated)
		if err != nil {
			return nil, err
		}
		groups = append(groups, secret)
		for _, g := range inner {
			if err := g.flatten(); err != nil {
				return nil, err
			}
			aggregation := cmp.Or(g.config.aggregation, "pass-fail")
			if secret.Score == "pass_fail" && aggregation != "pass-fail" {
				return nil, faultf(g.config.file, "score_aggregation", "want pass-fail, as secret has it (got %s)", aggregation)
			}
			switch {
			case g.config.maxScore != nil:
			case secret.Score == "pass_fail": // no score of a group counts
				g.config.maxScore = zero()
			case secret.MaxScore != nil && validated && aggregation != "pass-fail":
				return nil, faultf(g.rules(), "max_score", "is missing: secret has a largest score, so each of its groups has one")
			}
			group, err := newGroup(g, g.config, aggregation, true, validated)
			if err != nil {
				return nil, err
			}
			groups = append(groups, group)
		}
	}
	return groups, nil
}

// split returns the folders of f, and how many tests are directly in it.
func (f *folder) split() (inner []*folder, tests int) {
	for _, c := range f.children {
		if g, ok := c.(*folder); ok {
			inner = append(inner, g)
		} else {
			tests++
		}
	}
	return inner, tests
}

// flatten makes the tests in a group's folders the group's own, as 2025-09 has no groups in groups: as a group without
// rules, such a folder would give a point for each test. A file with rules there is refused, as its author takes the folder
// for a group.
func (f *folder) flatten() error {
	deeper := ""
	f.walk(func(in *folder) {
		if in != f {
			deeper = cmp.Or(deeper, in.config.file)
		}
	})
	if deeper != "" {
		return faultf(deeper, "", "is deeper than the group data/%s: want it in data/sample, data/secret or a folder directly in data/secret", f.path)
	}
	f.each(func(c *testCase) { c.Group = f.path })
	return nil
}

// rules is the file that has a group's rules, or would have them.
func (f *folder) rules() string { return cmp.Or(f.config.file, "data/"+f.path+"/test_group.yaml") }

// newGroup is a group of 2025-09. ofTests says that its tests count, not groups in it; validated, that the
// package's own validator may give scores, so that there need not be a largest one.
func newGroup(f *folder, c config, aggregation string, ofTests, validated bool) (job.Group, error) {
	switch {
	case c.maxScore != nil:
	case aggregation == "pass-fail":
		return job.Group{}, faultf(f.rules(), "max_score", "is missing: a group that is pass-fail has a largest score, which it gives")
	case !validated:
		return job.Group{}, faultf(f.rules(), "max_score", "is missing: without an output validator of its own, a package's group has a largest score")
	}
	g := job.Group{
		Name: f.path, Score: strings.ReplaceAll(aggregation, "-", "_"), MaxScore: c.maxScore,
		AcceptScore: zero(), RejectScore: zero(), OnReject: "break", RequirePass: c.require,
	}
	switch {
	case !ofTests && aggregation != "pass-fail": // a group that is rejected may give a part of its score
		g.OnReject = "continue"
	case aggregation == "sum" && c.maxScore == nil:
		g.OnReject = "continue"
	case aggregation == "sum":
		each := *c.maxScore / float64(f.count())
		g.AcceptScore, g.OnReject = &each, "continue"
		f.each(func(c *testCase) { c.Points = &each })
	case aggregation == "min" && c.maxScore != nil:
		g.AcceptScore = c.maxScore
	}
	if validated && ofTests {
		g.CheckerScore = checkerScore(c, aggregation)
	}
	return g, nil
}

// checkerScore is what a group takes of scores that a validator gives its tests.
func checkerScore(c config, aggregation string) string {
	switch {
	case aggregation == "pass-fail":
		return "none"
	case c.maxScore == nil:
		return "required"
	}
	return "within"
}
