package worker_test

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// executeAt executes code in a context, perhaps of one generation.
func (g *glovebox) executeAt(session, context, code string, expect int) string {
	g.t.Helper()
	id := job.NewID("default")
	n := record.NewTurn{Expect: expect}
	if context != job.MainContext {
		n.Place = record.Place{Context: context, Language: "python"}
	}
	spec := job.SessionSettings{Runtime: "python"}.Spec(job.SessionExecution{Code: code})
	if err := g.records.AddTurn(g.t.Context(), session, id, spec, n); err != nil {
		g.t.Fatal(err)
	}
	return id
}

// generations are those of the session's contexts.
func (g *glovebox) generations(id string) map[string]int {
	g.t.Helper()
	x, err := g.records.GetSession(g.t.Context(), id)
	if err != nil {
		g.t.Fatal(err)
	}
	all := map[string]int{}
	for _, c := range x.Contexts {
		all[c.Name] = c.Generation
	}
	return all
}

// TestRestart: a restart ends what runs, and what comes after it has a new interpreter with the same files.
func TestRestart(t *testing.T) {
	t.Parallel()
	g := start(t, sessionWorker)
	ctx := t.Context()
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}})
	restart := func() {
		t.Helper()
		if err := g.records.RestartContext(ctx, id, job.MainContext, ""); err != nil {
			t.Fatal(err)
		}
	}
	restart() // nothing was executed
	if r := g.result(g.execute(id, "x = 1; open('f', 'w').write('kept')")); r.Status != job.Succeeded || r.Session.Generation != 1 {
		t.Fatalf("got %+v", r)
	}
	restart() // while it is idle
	if got := g.generations(id); got["main"] != 2 {
		t.Errorf("got %v", got)
	}
	if r := g.result(g.executeAt(id, "main", "print('x' in globals(), open('f').read()); x = 2", 2)); r.Stdout != "False kept\n" || r.Session.Generation != 2 || r.Session.State != job.StateKept {
		t.Errorf("after a restart: got %+v", r)
	}
	busy := g.execute(id, "print('begun', flush=True)\nwhile True: pass")
	waits, stale := g.execute(id, "print('x' in globals())"), g.executeAt(id, "main", "print('never')", 2)
	g.session(id, job.SessionBusy)
	g.begun(busy)
	restart() // while it executes
	if r := g.result(busy); r.Status != job.Canceled || r.Session == nil || r.Session.State != job.StateLost || r.Session.Generation != 2 || r.ExitCode == nil || *r.ExitCode != 137 {
		t.Errorf("what ran: got %+v, %+v", r, r.Session)
	}
	if r := g.result(waits); r.Stdout != "False\n" || r.Session.Generation != 3 {
		t.Errorf("what waited: got %+v, %+v", r, r.Session)
	}
	if r := g.result(stale); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeGenerationChanged || r.Stdout != "" {
		t.Errorf("what wanted the state before: got %+v", r)
	}
	var changed *job.GenerationError
	err := g.records.AddTurn(ctx, id, job.NewID("default"), job.Spec{Runtime: "python", Source: "1"}, record.NewTurn{Expect: 2})
	if !errors.As(err, &changed) || changed.Generation != 3 {
		t.Errorf("got %v, want that the generation is 3", err)
	}
	if got := g.generations(id); got["main"] != 3 {
		t.Errorf("a restart of what runs is one more: got %v", got)
	}
	if r := g.result(g.execute(id, "import os; os._exit(3)")); r.Session.State != job.StateLost {
		t.Errorf("got %+v", r)
	}
	if r := g.result(g.execute(id, "1")); r.Session.Generation != 4 {
		t.Errorf("a loss is one more: got %+v", r.Session)
	}
}

// TestSessionContexts: contexts have a state of their own and the same files, and the record knows of each.
func TestSessionContexts(t *testing.T) {
	t.Parallel()
	g := start(t, sessionWorker)
	ctx := t.Context()
	id := g.openSession(job.SessionSettings{Runtime: "python", Limits: job.Limits{WallMS: 60_000}})
	if err := g.records.MakeContext(ctx, id, "b", job.ContextSettings{Language: "python", Directory: "d"}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ context, code, want string }{
		{"main", "x = 1; open('f', 'w').write('of main')", "7\n"},
		{"a", "print('x' in globals(), open('f').read()); x = 2", "False of main\n"},
		{"b", "import os; print(os.getcwd(), 'x' in globals())", "/work/d False\n"},
		{"main", "print(x)", "1\n"},
		{"a", "print(x)", "2\n"},
	} {
		r := g.result(g.executeAt(id, step.context, step.code, 1))
		want := job.ExecutionState{ID: id, Sequence: r.Session.Sequence, Generation: 1, State: job.StateKept}
		if step.context != "main" {
			want.Context, want.Language = step.context, "python"
		}
		if r.Stdout != step.want || !reflect.DeepEqual(*r.Session, want) {
			t.Errorf("%+v: got %+v, %+v", step, r, r.Session)
		}
	}
	kill := "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit() and int(p) not in (1, os.getpid()): os.kill(int(p), 9)"
	if r := g.result(g.executeAt(id, "a", kill, 1)); r.Status != job.Succeeded || r.Session.State != job.StateKept || strings.Join(r.Session.LostContexts, " ") != "b main" {
		t.Errorf("a context that ends others: got %+v, %+v", r, r.Session)
	}
	g.session(id, job.SessionReady)
	if got := g.generations(id); !maps.Equal(got, map[string]int{"main": 2, "a": 1, "b": 2}) {
		t.Errorf("got %v", got)
	}
	if r := g.result(g.executeAt(id, "main", "print('x' in globals())", 2)); r.Stdout != "False\n" {
		t.Errorf("got %+v", r)
	}
	// One that is deleted while it executes ends, what waits for it never runs, and one that is made again has nothing of it.
	busy, waits := g.executeAt(id, "a", "print('begun', flush=True)\nwhile True: pass", 0), g.executeAt(id, "a", "print('never')", 0)
	g.begun(busy)
	if err := g.records.ForgetContext(ctx, id, "a"); err != nil {
		t.Fatal(err)
	}
	again := g.executeAt(id, "a", "print('x' in globals())", 0)
	if r := g.result(busy); r.Status != job.Canceled || r.Session.State != job.StateLost {
		t.Errorf("what ran: got %+v", r)
	}
	if r := g.result(waits); r.Status != job.Canceled || r.Error == nil || r.Error.Code != job.CodeNoContext {
		t.Errorf("what waited: got %+v", r)
	}
	if r := g.result(again); r.Stdout != "False\n" || r.Session.Generation != 2 {
		t.Errorf("made again: got %+v, %+v", r, r.Session)
	}
}
