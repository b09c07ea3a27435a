package producer_test

import (
	"encoding/base64"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// all lists every job that the options fit, page by page.
func all(t *testing.T, jobs everything, o producer.ListOptions) (list []job.Summary) {
	t.Helper()
	for range 100 {
		page, err := jobs.List(t.Context(), o)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		if page.Jobs == nil {
			t.Error("a page has no list of jobs")
		}
		list = append(list, page.Jobs...)
		if page.Next == "" {
			return list
		}
		o.Cursor = page.Next
	}
	t.Fatal("there are more than 100 pages")
	return nil
}

func ids(list []job.Summary) []string {
	var ids []string
	for _, j := range list {
		ids = append(ids, j.ID)
	}
	return ids
}

func (s suite) list(t *testing.T) {
	before := ids(all(t, s.jobs, producer.ListOptions{})) // of the tests before
	time.Sleep(2 * time.Millisecond)                      // another time of creation
	began := time.Now()
	var want []string
	for range 5 {
		want = slices.Insert(want, 0, s.submit(t).ID)
		time.Sleep(2 * time.Millisecond)
	}
	if got := ids(all(t, s.jobs, producer.ListOptions{Limit: 2})); !slices.Equal(got, append(slices.Clone(want), before...)) {
		t.Errorf("got %v, want %v and %v", got, want, before)
	}
	if got := ids(all(t, s.jobs, producer.ListOptions{Since: began})); !slices.Equal(got, want) {
		t.Errorf("since: got %v, want %v", got, want)
	}
	s.w.End(t, s.w.Start(t, want[1]), nil, func(r *job.Result) { r.Status = job.TimedOut })
	running := s.w.Start(t, want[3])
	some := all(t, s.jobs, producer.ListOptions{Since: began, Status: []job.Status{job.TimedOut, job.Running}, Runtime: "python3", Limit: 1})
	if got := ids(some); !slices.Equal(got, []string{want[1], want[3]}) {
		t.Fatalf("by status and runtime: got %v, want %v", got, []string{want[1], want[3]})
	}
	if some[0].Timing.FinishedAt == nil || some[0].Status != job.TimedOut || some[0].Metadata["course"] != "cs1" || some[0].Runtime.Name != "python" {
		t.Errorf("got %+v", some[0])
	}
	j, err := s.jobs.Get(t.Context(), running.ID)
	if diff := cmp.Diff(j.Summary, some[1]); err != nil || diff != "" {
		t.Errorf("a listed job differs from the same by its id: %v %s", err, diff)
	}
	if got := all(t, s.jobs, producer.ListOptions{Since: began, Runtime: "bash"}); len(got) != 0 {
		t.Errorf("on another runtime: got %v", ids(got))
	}
}

func (s suite) listOfOthers(t *testing.T) {
	j := s.submit(t)
	if got := all(t, s.other, producer.ListOptions{}); len(got) != 0 {
		t.Errorf("another tenant sees %v", ids(got))
	}
	page, err := s.jobs.List(t.Context(), producer.ListOptions{Limit: 1})
	if err != nil || page.Next == "" || page.Jobs[0].ID != j.ID {
		t.Fatalf("got %+v, %v, want one job, and more", page, err)
	}
	var invalid job.Invalid
	if _, err := s.other.List(t.Context(), producer.ListOptions{Cursor: page.Next}); !errors.As(err, &invalid) {
		t.Errorf("with another tenant's cursor: got %v, want job.Invalid", err)
	}
}

func (s suite) invalidList(t *testing.T) {
	forged := base64.RawURLEncoding.EncodeToString([]byte("1700000000000:" + job.NewID("other")))
	for _, o := range []producer.ListOptions{
		{Limit: -1}, {Limit: producer.MaxPage + 1}, {Cursor: "x"}, {Cursor: forged}, {Cursor: "[" + forged}, {Status: []job.Status{"done"}},
	} {
		var invalid job.Invalid
		if _, err := s.jobs.List(t.Context(), o); !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0].Allowed == "" || invalid[0].Value == "" {
			t.Errorf("%+v: got %v, want job.Invalid that says what is allowed", o, err)
		}
	}
}
