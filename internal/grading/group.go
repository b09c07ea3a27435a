package grading

import (
	"cmp"
	"strconv"

	"github.com/glovebox-run/glovebox/job"
)

// node is a group of the tree of paths.
type node struct {
	rules    job.Group // with its defaults
	children []child   // in the order of the tests
}

// child is a test or a group, directly below a group.
type child struct {
	group *node // nil for a test
	test  int
}

// newTree makes the tree of the groups that tests are in, or that groups names.
func newTree(tests []job.Test, groups []job.Group) *node {
	rules := map[string]job.Group{}
	for _, g := range groups {
		rules[g.Name] = g
	}
	onReject := "break"
	if Scoring(tests, groups) {
		onReject = "continue"
	}
	nodes := map[string]*node{}
	at := func(name string) (n *node, isNew bool) {
		if n := nodes[name]; n != nil {
			return n, false
		}
		r := rules[name]
		r.Name = name
		r.Score, r.Verdict, r.OnReject = cmp.Or(r.Score, "sum"), cmp.Or(r.Verdict, "first"), cmp.Or(r.OnReject, onReject)
		nodes[name] = &node{rules: r}
		return nodes[name], true
	}
	root, _ := at("")
	enter := func(group string) *node {
		in := root
		for _, name := range job.GroupPath(group) {
			n, isNew := at(name)
			if isNew {
				in.children = append(in.children, child{group: n})
			}
			in = n
		}
		return in
	}
	for i, t := range tests {
		in := enter(t.Group)
		in.children = append(in.children, child{test: i})
	}
	for _, g := range groups { // those without a test come last
		enter(g.Name)
	}
	return root
}

// Scoring reports whether the job is about points, not about all or nothing.
func Scoring(tests []job.Test, groups []job.Group) bool {
	for _, t := range tests {
		if t.Points != nil {
			return true
		}
	}
	for _, g := range groups {
		if g.Score != "" || g.AcceptScore != nil || g.RejectScore != nil || g.MaxScore != nil {
			return true
		}
	}
	return false
}

// walk visits the groups, each before those in it.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, c := range n.children {
		if c.group != nil {
			c.group.walk(visit)
		}
	}
}

// verdict is what the counted children come to. The judge's fault comes through every rule: a verdict
// that might be wrong is none.
func (n *node) verdict(counted []outcome) job.Verdict {
	first, worst, anyAccepted := job.Accepted, job.Accepted, false
	for _, o := range counted {
		anyAccepted = anyAccepted || o.verdict == job.Accepted
		if first == job.Accepted || first == job.SkippedTest && o.verdict != job.Accepted {
			first = o.verdict // why a group was skipped is in another that was rejected
		}
		if worse(o.verdict, worst) {
			worst = o.verdict
		}
	}
	switch {
	case worst == job.JudgeError:
		return worst
	case n.rules.Verdict == "always", n.rules.AcceptAny && anyAccepted:
		return job.Accepted
	case n.rules.Verdict == "worst":
		return worst
	default:
		return first
	}
}

// most is what the group gives if all of its children give their most.
func (n *node) most(children []float64) float64 {
	switch {
	case n.rules.MaxScore != nil:
		return *n.rules.MaxScore
	case n.rules.Score == "pass_fail":
		return sum(children)
	}
	return aggregate(n.rules.Score, children)
}

// score adds up the counted children; all says that they are all there are.
func (n *node) score(most float64, counted []outcome, all bool) float64 {
	scores := make([]float64, len(counted))
	for i, o := range counted {
		scores[i] = o.score
		all = all && o.verdict == job.Accepted
	}
	switch {
	case n.rules.Score == "pass_fail" && all && len(counted) > 0:
		return most
	case n.rules.Score == "pass_fail":
		return 0
	}
	return aggregate(n.rules.Score, scores)
}

// aggregate is 0 for no score.
func aggregate(how string, scores []float64) float64 {
	if len(scores) == 0 {
		return 0
	}
	lowest, highest := scores[0], scores[0]
	for _, s := range scores {
		lowest, highest = min(lowest, s), max(highest, s)
	}
	switch how {
	case "min":
		return lowest
	case "max":
		return highest
	case "avg":
		return rounded(sum(scores) / float64(len(scores)))
	default:
		return sum(scores)
	}
}

func sum(scores []float64) float64 {
	total := 0.0
	for _, s := range scores {
		total += s
	}
	return rounded(total)
}

// decimals is how many a sum or an average keeps.
const decimals = 9

// rounded goes by way of decimal digits, as multiplying by 1e9 would be off for large scores.
func rounded(x float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', decimals, 64), 64)
	if err != nil {
		return x // not a finite number: points are bounded, so there is none
	}
	return r
}
