package grading

import (
	"math"
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

// Judgement holds what the tests of one submission came to, and says which of them have still to be
// run and what the whole comes to. That depends on the verdicts alone, not on the order in which they
// came. Not safe for concurrent use.
//
// Scores are float64. A sum or an average is rounded to 9 decimals (the nearest, ties to even), so that
// three thirds of 100 are 100 and 0.1 + 0.2 is 0.3. No score is above its max_score, or below 0.
type Judgement struct {
	tests []job.Test
	set   []verdict
	root  *node
	now   *evaluation // of what is set; nil: not evaluated yet
}

type verdict struct {
	is    job.Verdict // "": not set
	score *float64
}

// Whole is what a submission came to.
type Whole struct {
	Verdict         job.Verdict
	Score, MaxScore float64
	Tests           []Scored          // as the tests of the job
	Groups          []job.GroupResult // all but the root, each after the groups around it
}

// Scored is what a test came to, as it counts: one that a group's rule leaves out is skipped, even
// where it was run.
type Scored struct {
	Verdict         job.Verdict
	Score, MaxScore float64
}

// NewJudgement begins with no verdict. The error is a [job.Invalid].
func NewJudgement(tests []job.Test, groups []job.Group) (*Judgement, error) {
	if errs := job.CheckGrading(tests, groups, nil); len(errs) > 0 {
		return nil, job.Invalid(errs)
	}
	return &Judgement{tests: tests, set: make([]verdict, len(tests)), root: newTree(tests, groups)}, nil
}

// Set says what test i came to. score is the checker's own for it; nil leaves it to the test's points
// and its group's accept_score and reject_score. What is above the test's points counts as them; where
// it has none, its own score may be above what else it gives, and is its max_score then. What is no
// number, below 0 or above [job.MaxPoints] makes the test a judge_error.
func (j *Judgement) Set(i int, v job.Verdict, score *float64) {
	if score != nil && (math.IsNaN(*score) || *score < 0 || *score > job.MaxPoints) {
		v = job.JudgeError
	}
	if v == job.JudgeError || v == job.SkippedTest {
		score = nil
	}
	j.set[i], j.now = verdict{v, score}, nil
}

// Wanted reports whether test i has to be run, after what was set so far: no test before it makes its
// group end (on_reject), no group that its group requires was rejected.
func (j *Judgement) Wanted(i int) bool { return j.evaluate().wanted[i] }

// Most is what test i gives at most, as long as it has no score of its own.
func (j *Judgement) Most(i int) float64 { return j.evaluate().tests[i].MaxScore }

// Whole adds up what was set so far. A test that is not set counts as skipped.
func (j *Judgement) Whole() Whole {
	e := j.evaluate()
	root := e.results[j.root]
	w := Whole{Verdict: root.verdict, Score: root.score, MaxScore: root.max, Tests: slices.Clone(e.tests)}
	j.root.walk(func(n *node) {
		if r := e.results[n]; n != j.root {
			w.Groups = append(w.Groups, job.GroupResult{Name: n.rules.Name, Verdict: r.verdict, Score: r.score, MaxScore: r.max})
		}
	})
	return w
}

func (j *Judgement) evaluate() *evaluation {
	if j.now != nil {
		return j.now
	}
	e := &evaluation{
		Judgement: j, wanted: make([]bool, len(j.tests)), tests: make([]Scored, len(j.tests)),
		results: map[*node]outcome{}, passed: map[string]outcome{},
	}
	e.group(j.root, true)
	j.now = e
	return e
}

// evaluation is one pass over the tree, in the order of the tests.
type evaluation struct {
	*Judgement
	wanted  []bool
	tests   []Scored
	results map[*node]outcome
	passed  map[string]outcome // the groups that are done, by name
}

// outcome is what a test or a group came to.
type outcome struct {
	verdict    job.Verdict
	score, max float64
	done       bool // nothing of it has still to be run
}

func (o outcome) rejected() bool { return o.done && o.verdict != job.Accepted }

// group adds up the children of n, in their order. reached is false where a group around it has ended.
func (e *evaluation) group(n *node, reached bool) outcome {
	for _, name := range n.rules.RequirePass {
		if e.passed[name].rejected() {
			reached = false
		}
	}
	var counted []outcome
	var most []float64
	done, goOn := true, reached
	for _, c := range n.children {
		var o outcome
		if c.group != nil {
			o = e.group(c.group, goOn)
		} else {
			o = e.test(c.test, n.rules, goOn)
		}
		most = append(most, o.max)
		if goOn { // one after the end of the group doesn't count, not even as a zero
			counted = append(counted, o)
			done = done && o.done
		}
		if o.rejected() && n.rules.OnReject == "break" {
			goOn = false
		}
	}
	o := outcome{verdict: n.verdict(counted), max: n.most(most), done: done}
	if !reached && len(n.children) > 0 {
		o.verdict = job.SkippedTest
	}
	o.score = min(n.score(o.max, counted, len(counted) == len(n.children)), o.max)
	e.results[n] = o
	e.passed[n.rules.Name] = o
	return o
}

func (e *evaluation) test(i int, rules job.Group, reached bool) outcome {
	set := e.set[i]
	accept, reject := 1.0, 0.0
	switch t := e.Judgement.tests[i]; {
	case t.Points != nil:
		accept = *t.Points
	case rules.AcceptScore != nil:
		accept = *rules.AcceptScore
	}
	if rules.RejectScore != nil {
		reject = *rules.RejectScore
	}
	e.wanted[i] = reached
	o := outcome{verdict: set.is, max: max(accept, reject), done: !reached || set.is != ""}
	switch {
	case !reached || set.is == "" || set.is == job.SkippedTest:
		o.verdict = job.SkippedTest
	case set.is == job.JudgeError: // the judge's fault is no score
	case set.score != nil:
		if e.Judgement.tests[i].Points == nil {
			o.max = max(o.max, *set.score)
		}
		o.score = min(*set.score, o.max)
	case set.is == job.Accepted:
		o.score = accept
	default:
		o.score = reject
	}
	e.tests[i] = Scored{o.verdict, o.score, o.max}
	return o
}

// severity orders the verdicts, the worst first.
var severity = []job.Verdict{
	job.JudgeError, job.VerdictCompileFailed, job.RunTimeError, job.TestOutOfMemory, job.TestTimedOut, job.OutputLimit, job.WrongAnswer,
}

// worse reports whether a is worse than b. A verdict that is not known is like wrong_answer.
func worse(a, b job.Verdict) bool { return rank(a) < rank(b) }

func rank(v job.Verdict) int {
	switch at := slices.Index(severity, v); {
	case at >= 0:
		return at
	case v == job.SkippedTest:
		return len(severity)
	case v == job.Accepted:
		return len(severity) + 1
	default:
		return len(severity) - 1
	}
}
