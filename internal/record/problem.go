package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// gradedSlack is how long a job may wait for its worker, and be known to its problem all the same until its retention is over.
const gradedSlack = 7 * 24 * time.Hour

// MissingUpload says that an upload which a problem names is not there.
type MissingUpload struct{ SHA256 string }

func (e *MissingUpload) Error() string { return "no such upload: " + e.SHA256 }

// mostGraded is how many jobs a problem is known to have graded, those that are of use longest: a batch takes no more.
const mostGraded = job.MaxBatch

// storedHead is a head as Redis has it.
type storedHead struct {
	job.ProblemHead
	Form string `json:"form"`
}

func parseHead(text string) (job.ProblemHead, error) {
	var stored storedHead
	err := json.Unmarshal([]byte(text), &stored)
	stored.ProblemHead.Form = stored.Form
	return stored.ProblemHead, err
}

// SetProblem stores the head of a problem, unless there is one of that digest, and returns what is stored. What was uploaded for it, which has to
// be held before, is kept as long as the problem is; its own canonical form is one of these uploads. It fails with job.ErrTooManyProblems, a
// *MissingUpload, or a *job.Error of code quota_exceeded.
func (s *Store) SetProblem(ctx context.Context, tenant string, head job.ProblemHead, uploads []string) (job.ProblemHead, error) {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return head, fmt.Errorf("store problem: %w", err)
	}
	head.CreatedAt = s.now().UTC().Truncate(time.Millisecond)
	text, err := job.Marshal(storedHead{head, head.Form})
	if err != nil {
		return head, fmt.Errorf("encode problem's head: %w", err)
	}
	var rest []any
	for _, upload := range uploads {
		rest = append(rest, uploadPrefix+upload)
	}
	most := s.mostRecorded(terms)
	answer, err := setProblemScript.Run(ctx, s.lasting, tenant, script.Args{"digest": head.Digest, "head": text, "most_recorded": most}, rest...).StringSlice()
	if err != nil {
		return head, fmt.Errorf("store problem: %w", err)
	}
	switch answer[0] {
	case "there":
		head, err = parseHead(answer[1])
	case "full":
		err = job.ErrTooManyProblems
	case "missing":
		err = &MissingUpload{strings.TrimPrefix(answer[1], uploadPrefix)}
	case "bytes_recorded":
		err = overRecorded(most)
	}
	return head, err
}

// Problem returns the head of a problem, or job.ErrNoProblem.
func (s *Store) Problem(ctx context.Context, tenant, digest string) (head job.ProblemHead, err error) {
	text, err := s.rdb.HGet(ctx, problemsKey(tenant), digest).Result()
	if errors.Is(err, redis.Nil) {
		return head, job.ErrNoProblem
	}
	if err == nil {
		head, err = parseHead(text)
	}
	if err != nil {
		return head, fmt.Errorf("read problem: %w", err)
	}
	return head, nil
}

// Problems lists a tenant's problems, the newest first.
func (s *Store) Problems(ctx context.Context, tenant string) ([]job.ProblemHead, error) {
	all, err := s.rdb.HGetAll(ctx, problemsKey(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list problems: %w", err)
	}
	list := make([]job.ProblemHead, 0, len(all))
	for digest, text := range all {
		head, err := parseHead(text)
		if err != nil {
			return nil, fmt.Errorf("read problem %s: %w", digest, err)
		}
		list = append(list, head)
	}
	slices.SortFunc(list, func(a, b job.ProblemHead) int {
		if n := b.CreatedAt.Compare(a.CreatedAt); n != 0 {
			return n
		}
		return strings.Compare(a.Digest, b.Digest)
	})
	return list, nil
}

// DeleteProblem forgets a problem. Its uploads are kept as if somebody had asked for them now. It fails with job.ErrNoProblem.
func (s *Store) DeleteProblem(ctx context.Context, tenant, digest string) error {
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return fmt.Errorf("delete problem: %w", err)
	}
	until := s.now().Add(max(uploadLife, s.Retention(terms)))
	n, err := deleteProblemScript.Run(ctx, s.lasting, tenant, script.Args{"digest": digest, "keep_until": until}).Int()
	switch {
	case err != nil:
		return fmt.Errorf("delete problem: %w", err)
	case n == 0:
		return job.ErrNoProblem
	}
	return nil
}

// Graded is a job that a problem graded, or will.
type Graded struct {
	ID string
	// State is "" of a job that is no longer kept.
	State             job.Status
	Created, Finished time.Time // Finished is zero until it has ended
	// Stored says that a worker has stored a result.
	Stored bool
}

// GradedBy lists the jobs that a problem graded or will, [job.MaxBatch] at most, those that were created last first.
func (s *Store) GradedBy(ctx context.Context, tenant, digest string) ([]Graded, error) {
	ids, err := s.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
		Key: gradedKey(tenant, digest), ByScore: true, Rev: true, Start: "+inf", Stop: "(" + strconv.FormatInt(ms(s.now()), 10), Count: mostGraded,
	}).Result()
	if err != nil {
		return nil, fmt.Errorf("list what a problem graded: %w", err)
	}
	jobs := make([]Graded, 0, len(ids))
	for some := range slices.Chunk(ids, listChunk) {
		answers, err := redisconn.Ask(ctx, s.rdb, some, func(pipe redis.Pipeliner, id string) *redis.SliceCmd {
			return pipe.HMGet(ctx, jobKey(tenant, id), "state", "created", "result_ref", "finished")
		})
		if err != nil {
			return nil, fmt.Errorf("read what a problem graded: %w", err)
		}
		for i, id := range some {
			j := Graded{ID: id}
			if answers[i].Err() != nil { // no record
				s.unreadable.PassOver("a record", answers[i].Err())
			} else {
				f := answers[i].Val()
				state, _ := f[0].(string)
				created, _ := f[1].(string)
				at, _ := strconv.ParseInt(created, 10, 64) // a spoiled one is the oldest
				j.State, j.Created, j.Stored = job.Status(state), time.UnixMilli(at).UTC(), f[2] != nil && f[2] != ""
				if finished, _ := f[3].(string); finished != "" {
					at, _ := strconv.ParseInt(finished, 10, 64)
					j.Finished = time.UnixMilli(at).UTC()
				}
			}
			jobs = append(jobs, j)
		}
	}
	slices.SortStableFunc(jobs, func(a, b Graded) int { return b.Created.Compare(a.Created) })
	return jobs, nil
}
