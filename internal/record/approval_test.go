package record

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// heldJob creates a job that waits an hour for a decision.
func (s *Store) heldJob(t *testing.T, spec job.Spec) Record {
	t.Helper()
	return s.heldFor(t, spec, time.Hour)
}

// heldFor creates a job that waits that long for a decision.
func (s *Store) heldFor(t *testing.T, spec job.Spec, wait time.Duration) Record {
	t.Helper()
	spec.Runtime = "bash"
	id := job.NewID("default")
	text, err := job.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	held := &Held{Hold: job.Hold{Rule: "rule", ExpiresAt: s.now().Add(wait), InputHash: HashInput(id, text)}, By: "token"}
	created, err := s.CreateMany(t.Context(), "default", []NewJob{{ID: id, Spec: spec, JSON: text, Hold: held}})
	if err != nil || created[0].Err != nil {
		t.Fatal(err, created)
	}
	return s.mustGet(t, id)
}

func (s *Store) mustGet(t *testing.T, id string) Record {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func approvalOf(j Record) job.Approval {
	return job.Approval{Rule: j.Hold.Rule, By: "somebody", At: time.Now(), InputHash: j.Hold.InputHash}
}

// TestHeldJob: a job that is held is no worker's, counts as queued, and once approved it is queued as a new one is.
func TestHeldJob(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 4)
	ctx := t.Context()
	if _, err := s.CreateTenant(ctx, "default", job.Terms{}); err != nil {
		t.Fatal(err)
	}
	j := s.heldJob(t, job.Spec{Source: "echo", Priority: job.High, RetentionSeconds: 3600})
	if j.State != job.Held || j.Hold == nil || j.Hold.By != "token" || j.Approval != nil {
		t.Fatalf("got %+v", j)
	}
	if got := s.opened(t, "default"); len(got) != 0 || len(tasks(t, s, "high")) != 0 {
		t.Errorf("released are %v, tasks %v, want none", got, tasks(t, s, "high"))
	}
	if usage := s.usage(t, "default"); usage.JobsQueued != 1 || usage.BytesQueued == 0 {
		t.Errorf("got %+v, want the job counted as queued", usage)
	}
	if _, err := s.Start(ctx, j.ID, 1, "w"); !errors.Is(err, ErrStale) {
		t.Errorf("start: got %v, want ErrStale", err)
	}
	if err := s.Purge(ctx, j.ID); !errors.Is(err, job.ErrNotEnded) {
		t.Errorf("purge: got %v, want ErrNotEnded", err)
	}
	if held, err := s.HeldJobs(ctx, "default", 10); err != nil || len(held) != 1 || held[0].ID != j.ID {
		t.Errorf("got %v, %v, want the job", held, err)
	}
	if err := s.Approve(ctx, j, approvalOf(j)); err != nil {
		t.Fatal(err)
	}
	if got := tasks(t, s, "high"); !slices.Equal(got, []string{j.ID + ".1"}) {
		t.Errorf("got tasks %v, want the job's", got)
	}
	for name, err := range map[string]error{"approve": s.Approve(ctx, j, approvalOf(j)), "refuse": s.Refuse(ctx, j, &job.Error{Code: job.CodeRejected})} {
		if !errors.Is(err, job.ErrNotHeld) {
			t.Errorf("%s once more: got %v, want ErrNotHeld", name, err)
		}
	}
	started := s.mustStart(t, j.ID, 1)
	if started.Hold != nil || started.Approval == nil || started.Approval.By != "somebody" {
		t.Errorf("got %+v, want the approval and no hold", started)
	}
	if err := started.CheckApproved([]byte(started.SpecText)); err != nil {
		t.Error(err)
	}
	for name, spec := range map[string]string{"another source": strings.Replace(started.SpecText, "echo", "rm -r", 1), "a space more": started.SpecText + " "} {
		if err := started.CheckApproved([]byte(spec)); !errors.Is(err, job.ErrOtherInput) {
			t.Errorf("%s: got %v, want ErrOtherInput", name, err)
		}
	}
	s.mustEnd(t, started)
	if usage := s.usage(t, "default"); usage.JobsQueued != 0 || usage.BytesQueued != 0 {
		t.Errorf("got %+v, want nothing queued", usage)
	}
}

// TestHeldJobEnds: rejected, canceled, past its deadline, not decided about in time: it ends once, with its reason, and counts no longer.
func TestHeldJobEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(*Sweeper, Record) error
		code string
	}{
		"rejected": {func(w *Sweeper, j Record) error {
			return w.Records.Refuse(t.Context(), j, &job.Error{Code: job.CodeRejected, Message: "no"})
		}, job.CodeRejected},
		"canceled": {func(w *Sweeper, j Record) error {
			return w.Records.EndUnrun(t.Context(), j.ID, j.Epoch, job.Canceled, &job.Error{Code: job.CodeCanceled})
		}, job.CodeCanceled},
		"expired": {func(w *Sweeper, _ Record) error {
			w.forward(time.Hour + time.Second)
			w.pass(t.Context(), approvalPass, w.sweepApprovals)
			return nil
		}, job.CodeApprovalExpired},
		"past its deadline": {func(w *Sweeper, _ Record) error {
			w.forward(31 * time.Minute)
			w.pass(t.Context(), approvalPass, w.sweepApprovals)
			w.passDue(t.Context())
			return nil
		}, job.CodeDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storeOf(t, 4)
			w, _ := sweepingOver(s)
			if _, err := s.CreateTenant(t.Context(), "default", job.Terms{}); err != nil {
				t.Fatal(err)
			}
			j := s.heldJob(t, job.Spec{Source: "echo", Deadline: time.Now().Add(30 * time.Minute), Callback: &job.Callback{URL: "https://example.com/"}})
			if err := s.rdb.HDel(t.Context(), script.Key("default", "job:"+j.ID), "deadline").Err(); err != nil {
				t.Fatal(err)
			}
			if name != "past its deadline" {
				s.rdb.Del(t.Context(), script.Key("default", "deadline"))
			}
			if err := c.end(w, j); err != nil {
				t.Fatal(err)
			}
			got := s.mustGet(t, j.ID)
			if got.State != job.Canceled || !strings.Contains(string(got.Result), `"`+c.code+`"`) {
				t.Errorf("got %s, %s, want canceled with %s", got.State, got.Result, c.code)
			}
			if n := s.rdb.ZCard(t.Context(), script.Key("default", "outbox")).Val(); n != 1 {
				t.Errorf("%d deliveries wait, want one", n)
			}
			if usage := s.usage(t, "default"); usage.JobsQueued != 0 || usage.BytesQueued != 0 {
				t.Errorf("got %+v, want nothing queued", usage)
			}
			if err := s.Approve(t.Context(), j, approvalOf(j)); !errors.Is(err, job.ErrNotHeld) {
				t.Errorf("approve: got %v, want ErrNotHeld", err)
			}
		})
	}
}

// TestHeldForLater: approval does not make a job run before its time.
func TestHeldForLater(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 4)
	w := &Sweeper{Records: s, Log: s.log}
	j := s.heldJob(t, job.Spec{RunAt: time.Now().Add(30 * time.Minute)})
	if err := s.Approve(t.Context(), j, approvalOf(j)); err != nil {
		t.Fatal(err)
	}
	w.passDue(t.Context())
	if got := tasks(t, s, "normal"); len(got) != 0 {
		t.Errorf("got tasks %v before its time", got)
	}
	w.forward(31 * time.Minute)
	w.passDue(t.Context())
	if got := tasks(t, s, "normal"); !slices.Equal(got, []string{j.ID + ".1"}) {
		t.Errorf("got tasks %v, want the job's", got)
	}
}

// TestApprovedAsShown: what is in the record as it is approved is what was decided about.
func TestApprovedAsShown(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 4)
	j := s.heldJob(t, job.Spec{Source: "echo"})
	if err := s.rdb.HSet(t.Context(), script.Key("default", "job:"+j.ID), "hold", `{"rule":"another"}`).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Approve(t.Context(), j, approvalOf(j)); !errors.Is(err, job.ErrNotHeld) {
		t.Errorf("got %v, want ErrNotHeld", err)
	}
}

// TestHeldExecution: an execution that is held holds those behind it, and what becomes of it lets them go on.
func TestHeldExecution(t *testing.T) {
	t.Parallel()
	for name, approves := range map[string]bool{"approved": true, "rejected": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRoles(t)
			ctx := t.Context()
			x := r.api.openSession(t, "acme")
			r.worker.mustClaim(t, x.ID)
			spec := pythonSession.Spec(job.SessionExecution{Code: "held"})
			id := job.NewID("acme")
			if err := r.api.AddTurn(ctx, x.ID, id, spec, NewTurn{Hold: &Held{Hold: job.Hold{Rule: "rule", ExpiresAt: time.Now().Add(time.Hour)}}}); err != nil {
				t.Fatal(err)
			}
			next := r.api.execute(t, x.ID, "next")
			if _, err := r.worker.TakeTurn(ctx, x.ID, "w1", "", nil, Rest{Slot: true}); !errors.Is(err, ErrTurnHeld) {
				t.Fatalf("got %v, want ErrTurnHeld", err)
			}
			j := r.api.mustGet(t, id)
			if approves {
				if err := r.api.Approve(ctx, j, approvalOf(j)); err != nil {
					t.Fatal(err)
				}
				r.worker.take(t, x.ID, "", id)
				return
			}
			if err := r.api.Refuse(ctx, j, &job.Error{Code: job.CodeRejected}); err != nil {
				t.Fatal(err)
			}
			r.worker.take(t, x.ID, "", next)
		})
	}
	t.Run("its session ends", func(t *testing.T) {
		t.Parallel()
		r := openRoles(t)
		ctx := t.Context()
		x := r.api.openSession(t, "acme")
		id := job.NewID("acme")
		if err := r.api.AddTurn(ctx, x.ID, id, pythonSession.Spec(job.SessionExecution{Code: "held"}), NewTurn{Hold: &Held{Hold: job.Hold{Rule: "rule", ExpiresAt: time.Now().Add(time.Hour)}}}); err != nil {
			t.Fatal(err)
		}
		if err := r.api.EndSession(ctx, x.ID, "", job.SessionEnd{Reason: job.EndDeleted}); err != nil {
			t.Fatal(err)
		}
		if j := r.api.mustGet(t, id); j.State != job.Canceled || !strings.Contains(string(j.Result), job.CodeSessionEnded) {
			t.Errorf("got %s, %s, want it canceled", j.State, j.Result)
		}
	})
}

// TestSpoiledHold: whatever a worker writes into what a decision reads, an approved job is queued, and others' approvals are listed.
func TestSpoiledHold(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 4)
	w, _ := sweepingOver(s)
	ctx := t.Context()
	key := func(name, id string) string { return script.Key("default", name+":"+id) }
	for name, spoil := range map[string]func(id string) error{
		"events": func(id string) error { return s.rdb.Set(ctx, key("events", id), "x", 0).Err() },
		"charge": func(id string) error { return s.rdb.HSet(ctx, key("job", id), "charge", "x").Err() },
		"run_at": func(id string) error { return s.rdb.HSet(ctx, key("job", id), "run_at", "").Err() },
	} {
		j := s.heldJob(t, job.Spec{Source: "echo", Priority: job.Low})
		if err := spoil(j.ID); err != nil {
			t.Fatal(err)
		}
		if err := s.Approve(ctx, j, approvalOf(j)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.opened(t, "default"); !slices.Contains(got, j.ID) {
			t.Errorf("%s: released are %v, want the job", name, got)
		}
	}
	good, bad := s.heldJob(t, job.Spec{Source: "echo"}), s.heldJob(t, job.Spec{Source: "echo"})
	if err := s.rdb.HSet(ctx, key("job", bad.ID), "hold", "{").Err(); err != nil {
		t.Fatal(err)
	}
	if held, err := s.HeldJobs(ctx, "default", 10); err != nil || len(held) != 1 || held[0].ID != good.ID {
		t.Errorf("got %v, %v, want the other one", held, err)
	}
	w.forward(time.Hour + time.Second)
	w.pass(ctx, approvalPass, w.sweepApprovals)
	for _, id := range []string{good.ID, bad.ID} {
		if j := s.mustGet(t, id); j.State != job.Canceled {
			t.Errorf("got %s, want it canceled: nobody decided", j.State)
		}
	}
}

// TestApprovedTooLate: who decides after the time is over decides nothing, however late the sweeper comes.
func TestApprovedTooLate(t *testing.T) {
	t.Parallel()
	s := storeOf(t, 4)
	j := s.heldJob(t, job.Spec{Source: "echo"})
	s.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if err := s.Approve(t.Context(), j, approvalOf(j)); !errors.Is(err, job.ErrNotHeld) {
		t.Errorf("got %v, want ErrNotHeld", err)
	}
}

// TestHeldExecutionEnds: what waits behind it is told, and the worker of a session that ends can end it, too.
func TestHeldExecutionEnds(t *testing.T) {
	t.Parallel()
	r := openRoles(t)
	ctx := t.Context()
	x := r.api.openSession(t, "acme")
	r.worker.mustClaim(t, x.ID)
	held := func() (id string) {
		t.Helper()
		id = job.NewID("acme")
		if err := r.api.AddTurn(ctx, x.ID, id, pythonSession.Spec(job.SessionExecution{Code: "held"}), NewTurn{Hold: &Held{Hold: job.Hold{Rule: "rule", ExpiresAt: time.Now().Add(time.Hour)}}}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := r.api.mustGet(t, held())
	listener := r.worker.ListenTurns(ctx, "w1")
	defer listener.Close()
	woken, stop := listener.Wait(x.ID)
	defer stop()
	if err := r.api.Refuse(ctx, first, &job.Error{Code: job.CodeRejected}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-woken:
	case <-time.After(gbtest.Patience):
		t.Error("nobody told the session's worker")
	}
	second := held()
	if err := r.worker.EndSession(ctx, x.ID, "w1", job.SessionEnd{Reason: job.EndTTL}); err != nil {
		t.Fatal(err)
	}
	if j := r.api.mustGet(t, second); j.State != job.Canceled {
		t.Errorf("got %s, want it canceled with its session", j.State)
	}
}
