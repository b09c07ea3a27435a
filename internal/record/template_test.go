package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/job"
)

// TestTemplatesAreBounded: of a template the newest revisions are kept, and of a tenant so many
// templates and bytes.
func TestTemplatesAreBounded(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	template := func(name, source string) job.Template {
		return job.Template{Name: name, Spec: job.TemplateSpec{Spec: job.Spec{Runtime: "python", Source: source}}}
	}
	for i := range job.MaxTemplateRevisions + 2 {
		stored, err := s.SetTemplate(ctx, "acme", template("many", fmt.Sprint(i)))
		if err != nil || stored.Revision != int64(i+1) {
			t.Fatalf("revision %d: got %d, %v", i+1, stored.Revision, err)
		}
	}
	for revision, want := range map[int64]error{1: job.ErrNoTemplate, 2: job.ErrNoTemplate, 3: nil, 52: nil, 53: job.ErrNoTemplate, 0: nil} {
		if _, err := s.Template(ctx, "acme", "many", revision); !errors.Is(err, want) {
			t.Errorf("revision %d: got %v, want %v", revision, err, want)
		}
	}

	for i := 1; i < job.MaxTemplates; i++ {
		if _, err := s.SetTemplate(ctx, "acme", template(fmt.Sprint("t", i), "1")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.SetTemplate(ctx, "acme", template("more", "1")); !errors.Is(err, job.ErrTooManyTemplates) {
		t.Errorf("one more template: got %v", err)
	}
	if _, err := s.SetTemplate(ctx, "acme", template("t1", "2")); err != nil {
		t.Errorf("a revision of one that is there: %v", err)
	}
	if err := s.DeleteTemplate(ctx, "acme", "t2"); err != nil {
		t.Error(err)
	}
	if _, err := s.SetTemplate(ctx, "acme", template("more", "1")); err != nil {
		t.Errorf("in the place of one that is deleted: %v", err)
	}

	large := func(i int) string { return fmt.Sprint(i) + strings.Repeat("x", job.MaxTemplateBytes-1024) }
	var full error
	stored := 0
	for i := 0; full == nil && i < 200; i++ {
		if _, full = s.SetTemplate(ctx, "other", template(fmt.Sprint("t", i/40), large(i))); full == nil {
			stored++
		}
	}
	if !errors.Is(full, job.ErrTooManyTemplates) || stored != job.MaxTemplatesBytes/job.MaxTemplateBytes {
		t.Errorf("got %v after %d large ones, want ErrTooManyTemplates after %d", full, stored, job.MaxTemplatesBytes/job.MaxTemplateBytes)
	}
	if _, err := s.SetTemplate(ctx, "acme", template("huge", large(0)+strings.Repeat("x", 1024))); !errors.As(err, new(job.Invalid)) {
		t.Errorf("one that is too large: got %v", err)
	}
}

// TestRevisionsOfATemplateGoOn: what revisions weigh is counted as they come and go, however many there
// have been, and a count below 0, as earlier versions left it, is no obstacle.
func TestRevisionsOfATemplateGoOn(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	ctx := t.Context()
	options, err := redis.ParseURL(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	template := func(name string, i int) job.Template {
		return job.Template{Name: name, Spec: job.TemplateSpec{Spec: job.Spec{Runtime: "python", Source: fmt.Sprintf("%06d", i)}}}
	}
	heads := "gb:{acme}:templates"
	for i := range 10 * job.MaxTemplateRevisions {
		if _, err := s.SetTemplate(ctx, "acme", template("many", i)); err != nil {
			t.Fatalf("revision %d: %v", i+1, err)
		}
	}
	kept, err := rdb.HVals(ctx, "gb:{acme}:template:many").Result()
	if err != nil {
		t.Fatal(err)
	}
	head, err := rdb.HGet(ctx, heads, "many").Result()
	if want := fmt.Sprintf("%d %d ", 10*job.MaxTemplateRevisions, len(strings.Join(kept, ""))); err != nil || !strings.HasPrefix(head, want) {
		t.Errorf("got %q, %v, want %q and when", head, err, want)
	}

	if err := rdb.HSet(ctx, heads, "many", "500 -900 1700000000000").Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"other", "many"} {
		if _, err := s.SetTemplate(ctx, "acme", template(name, -1)); err != nil {
			t.Errorf("%s, with a count below 0: %v", name, err)
		}
	}
}

// A template that is deleted and stored again goes on counting: what names a revision never finds another program.
func TestRevisionsGoOn(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	ctx := t.Context()
	options, err := redis.ParseURL(server.Admin())
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	const most = 10 * job.MaxTemplates // names that are known after they were deleted
	set := func(name, source string, want int64) {
		t.Helper()
		stored, err := s.SetTemplate(ctx, "acme", job.Template{Name: name, Spec: job.TemplateSpec{Spec: job.Spec{Runtime: "python", Source: source}}})
		if err != nil || stored.Revision != want {
			t.Fatalf("%s: got revision %d, %v, want %d", name, stored.Revision, err, want)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := s.DeleteTemplate(ctx, "acme", name); err != nil {
			t.Fatal(err)
		}
	}
	set("a", "1", 1)
	set("a", "2", 2)
	remove("a")
	set("a", "other", 3)
	for _, revision := range []int64{1, 2} {
		if _, err := s.Template(ctx, "acme", "a", revision); !errors.Is(err, job.ErrNoTemplate) {
			t.Errorf("revision %d: got %v, want it gone", revision, err)
		}
	}
	if _, err := s.Template(ctx, "acme", "a", 0); err != nil {
		t.Error(err)
	}
	remove("a")
	if err := s.DeleteTemplate(ctx, "acme", "a"); !errors.Is(err, job.ErrNoTemplate) {
		t.Errorf("got %v, want ErrNoTemplate", err)
	}
	set("b", "1", 1)
	// However many names a tenant goes through, what is known of them is bounded, and still no number comes twice.
	for i := range most + 2 {
		name := fmt.Sprint("t", i)
		if _, err := s.SetTemplate(ctx, "acme", job.Template{Name: name, Spec: job.TemplateSpec{Spec: job.Spec{Runtime: "python", Source: "1"}}}); err != nil {
			t.Fatal(err)
		}
		remove(name)
	}
	if n, err := rdb.HLen(ctx, "gb:{acme}:revisions").Result(); err != nil || n > most {
		t.Errorf("got %d, %v, want %d at most", n, err, most)
	}
	set("a", "once more", 4)
}
