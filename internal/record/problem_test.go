package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// An upload that a problem has is kept, and looking for it costs no more commands the more problems there are.
func TestUploadsOfManyProblems(t *testing.T) {
	t.Parallel()
	const n = 200
	s := store(t)
	upload := func(i int) Upload { return Upload{Tenant: "default", SHA256: fmt.Sprintf("%064x", i), Size: 1} }
	hold := func(i int) {
		t.Helper()
		if err := s.HoldUpload(t.Context(), upload(i), false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n + 1 {
		hold(i)
	}
	set := func(i int) {
		t.Helper()
		if _, err := s.SetProblem(t.Context(), "default", job.ProblemHead{Digest: fmt.Sprintf("%064x", i)}, []string{upload(i).SHA256, upload(0).SHA256}); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(i int) (answer string, cost spent) {
		t.Helper()
		now := s.now()
		cost = s.spends(t, func() {
			var err error
			if answer, err = claimUploadScript.Run(t.Context(), s.rdb, "default", script.Args{"upload": uploadPrefix + upload(i).SHA256, "again": now.Add(365 * day), "later": now.Add(366 * day)}).Text(); err != nil {
				t.Fatal(err)
			}
		})
		return answer, cost
	}
	hold(n + 1)
	if answer, _ := claim(n + 1); answer != "ok" { // the script is loaded, too
		t.Errorf("with no problem: got %s", answer)
	}
	for i := 1; i < n; i++ {
		set(i)
	}
	answer, cost := claim(n)
	if answer != "ok" || cost.commands > 12 {
		t.Errorf("got %s, %d commands with %d problems; want ok, as many as with few", answer, cost.commands, n)
	}
	t.Logf("%d commands with %d problems", cost.commands, n)
	for _, i := range []int{0, 1, n - 1} {
		if answer, _ := claim(i); answer != "held" {
			t.Errorf("upload %d, which a problem has: got %s, want held", i, answer)
		}
		s.rdb.ZAdd(t.Context(), garbageKey("default"), redis.Z{Member: uploadPrefix + upload(i).SHA256}) // due again
	}
	s.rdb.ZAdd(t.Context(), garbageKey("default"), redis.Z{Member: uploadPrefix + upload(2).SHA256})
	if err := s.DeleteProblem(t.Context(), "default", fmt.Sprintf("%064x", 1)); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]string{0: "held", 1: "ok", 2: "held"} {
		if answer, _ := claim(i); answer != want {
			t.Errorf("upload %d once one problem is deleted: got %s, want %s", i, answer, want)
		}
	}
	if keys := s.rdb.Keys(t.Context(), script.Key("default", "problem:*")).Val(); len(keys) != n-2 {
		t.Errorf("%d sets of uploads are left, want %d", len(keys), n-2)
	}
}

// What a problem graded is known of so many jobs at most, and is paid for by the problem: jobs that are submitted, canceled and purged
// leave no more than that.
func TestGradedIsBounded(t *testing.T) {
	t.Parallel()
	s := store(t)
	digest := strings.Repeat("a", 64)
	form := Upload{Tenant: "default", SHA256: strings.Repeat("f", 64), Size: 1}
	if err := s.HoldUpload(t.Context(), form, false); err != nil {
		t.Fatal(err)
	}
	before := s.recorded(t)
	if _, err := s.SetProblem(t.Context(), "default", job.ProblemHead{Digest: digest, Form: form.SHA256}, []string{form.SHA256}); err != nil {
		t.Fatal(err)
	}
	if head, err := s.Problem(t.Context(), "default", digest); err != nil || head.Form != form.SHA256 {
		t.Errorf("got %+v, %v", head, err)
	}
	counted := func(when string, jobs int) {
		t.Helper()
		if got, want := s.recorded(t)-before, int64(problemCost+pinCost+jobs*gradedCost); got != want {
			t.Errorf("%s: %d bytes are counted, want %d", when, got, want)
		}
	}
	submit := func(problem string) {
		t.Helper()
		id := newJob(t, s, job.Spec{Runtime: "python", Source: "1", Problem: problem, RunAt: time.Now().Add(time.Hour)})
		_, err := s.Cancel(t.Context(), id, []byte("{}"))
		if err := errors.Join(err, s.Purge(t.Context(), id), s.Purged(t.Context(), id)); err != nil {
			t.Fatal(err)
		}
	}
	submit(digest)
	submit(digest)
	counted("two jobs that are gone", 2)
	submit(strings.Repeat("b", 64)) // a problem that was deleted a moment ago
	counted("a job of no problem", 2)
	key, some := gradedKey("default", digest), make([]redis.Z, mostGraded)
	for i := range some {
		some[i] = redis.Z{Score: float64(ms(time.Now().Add(time.Minute))), Member: strconv.Itoa(i)}
	}
	if err := s.rdb.ZAdd(t.Context(), key, some...).Err(); err != nil {
		t.Fatal(err)
	}
	submit(digest)
	if n := s.rdb.ZCard(t.Context(), key).Val(); n != mostGraded {
		t.Errorf("%d jobs are known, want %d", n, mostGraded)
	}
	if jobs, err := s.GradedBy(t.Context(), "default", digest); err != nil || len(jobs) != mostGraded {
		t.Errorf("%d jobs are listed, want %d, %v", len(jobs), mostGraded, err)
	}
	counted("as many as may be, of which most came by no job", 0)
	if err := s.rdb.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteProblem(t.Context(), "default", digest); err != nil {
		t.Fatal(err)
	}
	if got := s.recorded(t); got != before {
		t.Errorf("%d bytes are counted once the problem is gone, want %d", got, before)
	}
	if keys := s.rdb.Keys(t.Context(), "gb:{default}:*"+digest).Val(); len(keys) > 0 {
		t.Errorf("keys are left: %v", keys)
	}
}
