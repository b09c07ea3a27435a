package record

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

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
