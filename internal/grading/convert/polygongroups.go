package convert

import (
	"fmt"
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

// polygonGroup is how the tests of a group give points.
type polygonGroup struct {
	Name         string `xml:"name,attr"`
	Points       string `xml:"points,attr"`
	Policy       string `xml:"points-policy,attr"`
	Dependencies []struct {
		Group string `xml:"group,attr"`
	} `xml:"dependencies>dependency"`
}

// The policies of groups: all or nothing, or each test by itself.
const (
	completeGroup = "complete-group"
	eachTest      = "each-test"
)

// polygonGroups makes the groups of the package. Tests that are samples are shown; where there are points they are in
// their groups, too, as what is shown gives none.
func (p *problem) polygonGroups(set *polygonTestset) error {
	scoring := false
	for _, t := range set.Tests {
		scoring = scoring || t.points > 0
		if t.Sample == "true" {
			p.samples = append(p.samples, t.test)
		}
	}
	described := map[string]*polygonGroup{}
	for i := range set.Groups {
		g := &set.Groups[i]
		at := fmt.Sprintf("judging.testset.groups[%d]", i)
		if described[g.Name] != nil {
			return faultf(polygonFile, at, "has the name %s of another group", clip(g.Name))
		}
		if g.Points != "" {
			points, err := polygonNumber(g.Points, at+".points", 0, job.MaxPoints)
			if err != nil {
				return err
			}
			scoring = scoring || points > 0
		}
		described[g.Name] = g
	}
	if !scoring {
		var secret group
		for _, t := range set.Tests {
			if t.Sample != "true" || len(p.samples) == len(set.Tests) {
				secret.tests = append(secret.tests, t.test)
			}
		}
		if len(secret.tests) > 0 {
			p.groups = []group{secret}
		}
		return nil
	}
	sample := 0
	for _, t := range set.Tests {
		if t.Sample != "true" {
			continue
		}
		if g := described[t.Group]; g != nil && g.Policy == eachTest {
			p.samples[sample].checker = []string{atAll}
		}
		sample++
	}
	made := map[string][]int{} // of each group of Polygon, those of the package
	for i, t := range set.Tests {
		if t.Group == "" {
			p.groups = append(p.groups, group{points: t.points, how: "pass-fail", tests: []test{t.test}})
			continue
		}
		if made[t.Group] != nil {
			continue
		}
		g := described[t.Group]
		if g == nil {
			return faultf(polygonFile, fmt.Sprintf("judging.testset.tests[%d].group", i), "groups says nothing of %s", clip(t.Group))
		}
		var members []polygonTest
		for _, other := range set.Tests {
			if other.Group == t.Group {
				members = append(members, other)
			}
		}
		groups, err := g.make(members)
		if err != nil {
			return err
		}
		requires, err := g.requires(made)
		if err != nil {
			return err
		}
		for _, next := range groups {
			next.requires = requires
			made[t.Group] = append(made[t.Group], len(p.groups))
			p.groups = append(p.groups, next)
		}
	}
	return nil
}

// make makes one group of a group's tests, or one of each if they give different points by themselves.
func (g *polygonGroup) make(members []polygonTest) ([]group, error) {
	var tests []test
	total, equal := 0.0, true
	for _, t := range members {
		tests = append(tests, t.test)
		total += t.points
		equal = equal && t.points == members[0].points
	}
	at := "judging.testset.groups (" + clip(g.Name) + ").points-policy"
	switch g.Policy {
	case completeGroup:
		if g.Points != "" {
			points, err := polygonNumber(g.Points, at, 0, job.MaxPoints)
			if err != nil {
				return nil, err
			}
			if points > 0 { // else it is the sum of its tests
				total = points
			}
		}
		return []group{{name: g.Name, points: total, how: "pass-fail", tests: tests}}, nil
	case eachTest:
		if equal {
			return []group{{name: g.Name, points: total, how: "sum", checker: []string{partly}, tests: tests}}, nil
		}
		var groups []group
		for _, t := range members {
			groups = append(groups, group{name: fmt.Sprintf("%s-%d", g.Name, t.number), points: t.points, how: "sum", checker: []string{partly}, tests: []test{t.test}})
		}
		return groups, nil
	}
	return nil, faultf(polygonFile, at, "want %s or %s (got %s)", completeGroup, eachTest, clip(g.Policy))
}

// requires are the groups of the package that have to be passed, by what those of Polygon were made into.
func (g *polygonGroup) requires(made map[string][]int) ([]int, error) {
	var all []int
	for _, d := range g.Dependencies {
		before := made[d.Group]
		if before == nil {
			return nil, faultf(polygonFile, "judging.testset.groups ("+clip(g.Name)+").dependencies", "want groups with tests that all come before its own (got %s)", clip(d.Group))
		}
		for _, i := range before {
			if !slices.Contains(all, i) {
				all = append(all, i)
			}
		}
	}
	slices.Sort(all)
	return all, nil
}
