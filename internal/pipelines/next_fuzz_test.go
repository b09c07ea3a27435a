package pipelines_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/job"
)

// FuzzNext runs random graphs, whose jobs end in any order, some actions of which are lost and others done
// twice. Each run ends, once, and with the same items: what becomes of a step doesn't depend on order.
func FuzzNext(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkRun(t, seed) })
}

// TestNextGraphs is FuzzNext for 1,000 graphs, or a quarter of them.
func TestNextGraphs(t *testing.T) {
	t.Parallel()
	graphs := uint64(1000)
	if testing.Short() {
		graphs = 250
	}
	for seed := range graphs {
		checkRun(t, seed)
	}
}

func checkRun(t *testing.T, seed uint64) {
	t.Helper()
	p := randomPipeline(rand.New(rand.NewPCG(seed, 0)))
	d, err := pipelines.Parse(p)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	first, status := simulate(t, d, seed, 1, false)
	for order := range uint64(4) {
		again, other := simulate(t, d, seed, 2+order, false)
		if !p.FailFast && (status != other || !cmp.Equal(first, again)) {
			t.Fatalf("seed %d: %s in one order, %s in another: %s", seed, status, other, cmp.Diff(first, again))
		}
	}
	if s, status := simulate(t, d, seed, 7, true); s.Cancel && status != pipelines.Canceled {
		t.Fatalf("seed %d: a run that was canceled ended as %s", seed, status)
	}
}

// simulate carries out what Next says, in some order.
func simulate(t *testing.T, d *pipelines.Definition, seed, order uint64, cancel bool) (pipelines.State, pipelines.StepStatus) {
	t.Helper()
	p := d.Pipeline
	r := rand.New(rand.NewPCG(seed, order))
	s := pipelines.State{Steps: map[string]pipelines.StepState{}}
	made := map[string]bool{}
	var stopped bool
	for range 100_000 {
		actions := pipelines.Next(p, s)
		flying := underWay(s)
		if len(actions) == 0 && len(flying) == 0 {
			t.Fatalf("seed %d: the run stands still: %+v", seed, s)
		}
		r.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
		for _, a := range actions {
			if r.IntN(4) == 0 && a.Do != pipelines.End {
				continue // it is lost: the next pass says it again
			}
			switch a.Do {
			case pipelines.Decide:
				decide(t, d, s, a.Step, seed)
			case pipelines.Create:
				create(t, p, s, a, made)
			case pipelines.Stop:
				stopped = true
				if r.IntN(2) == 0 {
					end(s, a.Step, a.Index, job.Canceled)
				}
			case pipelines.End:
				if len(actions) != 1 || len(flying) != 0 {
					t.Fatalf("seed %d: a run ends that is under way: %+v", seed, actions)
				}
				for name := range p.Steps {
					if status := s.Status(p, name); !status.Final() {
						t.Fatalf("seed %d: the run ends, and step %s is %s", seed, name, status)
					}
				}
				return s, a.Status
			}
		}
		if cancel && !s.Cancel && (r.IntN(5) == 0 || len(underWay(s)) > 0) {
			s.Cancel = true
		}
		for name, items := range underWay(s) {
			for i, try := range items {
				if r.IntN(3) == 0 {
					end(s, name, i, becomes(seed, name, i, try))
				}
			}
		}
	}
	t.Fatalf("seed %d: the run doesn't end (stopped: %t)", seed, stopped)
	return s, ""
}

// decide is the verdict about a step: some are skipped, some fan out, some to nothing.
func decide(t *testing.T, d *pipelines.Definition, s pipelines.State, name string, seed uint64) {
	t.Helper()
	p := d.Pipeline
	if s.Steps[name].Verdict.Word != "" {
		t.Fatalf("step %s is decided about twice", name)
	}
	for _, need := range p.Steps[name].Needs {
		if !s.Status(p, need).Final() {
			t.Fatalf("seed %d: step %s is decided about, and %s, which it needs, has not ended", seed, name, need)
		}
	}
	c := pipelines.Context{Params: map[string]any{"list": make([]any, hash(seed, name)%7)}, Needs: map[string]pipelines.Need{}}
	for _, need := range p.Steps[name].Needs {
		c.Needs[need] = s.Need(p, need)
	}
	s.Steps[name] = pipelines.StepState{Verdict: d.Decide(name, s, c, s.Begun()), Items: map[int]pipelines.Item{}}
}

func create(t *testing.T, p job.Pipeline, s pipelines.State, a pipelines.Action, made map[string]bool) {
	t.Helper()
	id := fmt.Sprintf("%s %d %d", a.Step, a.Index, a.Try)
	if made[id] {
		t.Fatalf("%s is made twice", id)
	}
	made[id] = true
	s.Steps[a.Step].Items[a.Index] = pipelines.Item{Try: a.Try, Status: job.Queued}
	step, n := p.Steps[a.Step], len(underWay(s)[a.Step])
	if step.Parallel > 0 && n > step.Parallel {
		t.Fatalf("%d jobs of step %s are under way, want %d at most", n, a.Step, step.Parallel)
	}
	if most := 1; step.Retry == nil && a.Try > most || step.Retry != nil && a.Try > step.Retry.Max+1 {
		t.Fatalf("%s is made, which is a try too many", id)
	}
}

func end(s pipelines.State, name string, index int, status job.Status) {
	item := s.Steps[name].Items[index]
	item.Status = status
	s.Steps[name].Items[index] = item
}

// underWay are the tries that have not ended, by step and index.
func underWay(s pipelines.State) map[string]map[int]int {
	flying := map[string]map[int]int{}
	for name, state := range s.Steps {
		for i, item := range state.Items {
			if !item.Status.Final() {
				if flying[name] == nil {
					flying[name] = map[int]int{}
				}
				flying[name][i] = item.Try
			}
		}
	}
	return flying
}

// becomes is how a job ends: always the same way.
func becomes(seed uint64, name string, index, try int) job.Status {
	all := []job.Status{job.Succeeded, job.Succeeded, job.Succeeded, job.Failed, job.TimedOut, job.InternalError, job.Canceled}
	return all[hash(seed, name, index, try)%uint64(len(all))]
}

func hash(of ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, of...)
	return h.Sum64()
}

// randomPipeline is a graph of up to 12 steps, each of which needs some of those before.
func randomPipeline(r *rand.Rand) job.Pipeline {
	p := job.Pipeline{
		Params: []byte(`{"type":"object","properties":{"list":{"type":"array"}}}`), FailFast: r.IntN(4) == 0, Steps: map[string]job.Step{},
	}
	var names []string
	for i := range 1 + r.IntN(12) {
		var step job.Step
		step.Runtime, step.Source = "python", "print(1)"
		for _, before := range names {
			if r.IntN(3) == 0 {
				step.Needs = append(step.Needs, before)
			}
		}
		if r.IntN(3) == 0 {
			step.Each, step.Parallel = &job.Each{From: "/params/list"}, r.IntN(4)
		}
		if r.IntN(3) == 0 {
			step.Retry = &job.Retry{Max: 1 + r.IntN(3)}
		}
		if n := len(step.Needs); n > 0 && r.IntN(3) == 0 {
			step.When = "needs." + step.Needs[r.IntN(n)] + []string{".failed > 0", ".status == 'succeeded'", ".count >= 0", ".outputs.missing == 1"}[r.IntN(4)]
		}
		step.AllowFailure = r.IntN(5) == 0
		name := fmt.Sprintf("s%d", i)
		names, p.Steps[name] = append(names, name), step
	}
	return p
}

// TestNextTotal: for every set of ends there is something to do, or to wait for, or the run is over.
func TestNextTotal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 99))
		p := randomPipeline(r)
		s := pipelines.State{Cancel: r.IntN(4) == 0, Steps: map[string]pipelines.StepState{}}
		for _, name := range slices.Sorted(maps.Keys(p.Steps)) {
			if r.IntN(3) == 0 {
				continue
			}
			state := pipelines.StepState{Verdict: pipelines.Verdict{Word: []string{pipelines.Begin, pipelines.Begin, pipelines.Skip, pipelines.Fail}[r.IntN(4)]}, Items: map[int]pipelines.Item{}}
			if state.Verdict.Word == pipelines.Begin {
				state.Verdict.Count = r.IntN(4)
			}
			for i := range state.Verdict.Count {
				if r.IntN(2) == 0 {
					state.Items[i] = pipelines.Item{Try: 1 + r.IntN(4), Status: job.Statuses()[r.IntN(len(job.Statuses()))]}
				}
			}
			s.Steps[name] = state
		}
		if len(pipelines.Next(p, s)) == 0 && len(underWay(s)) == 0 {
			t.Fatalf("seed %d: nothing is to be done and nothing under way: %+v of %+v", seed, s, p)
		}
	}
}
