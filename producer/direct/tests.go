package direct

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/job"
)

// holdsAtOnce is how many uploads of one job are looked at together.
const holdsAtOnce = 16

// holdTests finds the uploads that tests read and expect, and those of a checker's program, and keeps them until a while after they are
// used. Their names are their digests, so nothing has to be noted in the spec. It fails with job.Invalid.
func (c *Client) holdTests(ctx context.Context, spec job.Spec) error {
	fields := map[string][]string{} // by upload, those that name it
	for i, t := range spec.Tests {
		for field, upload := range map[string]string{"stdin_upload": t.StdinUpload, "answer_upload": t.AnswerUpload} {
			if upload != "" {
				fields[upload] = append(fields[upload], fmt.Sprintf("tests[%d].%s", i, field))
			}
		}
	}
	if program := spec.CheckerProgram(); program != nil {
		for i, f := range program.Files {
			if f.Upload != "" {
				fields[f.Upload] = append(fields[f.Upload], fmt.Sprintf("checker.program.files[%d].upload", i))
			}
		}
	}
	if len(fields) == 0 {
		return nil
	}
	runAt := spec.RunAt // by itself: what a goroutine refers to is allocated, with a job in each call
	var mu sync.Mutex
	var invalid job.Invalid
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(holdsAtOnce)
	for upload, names := range fields {
		group.Go(func() error {
			f := job.File{Upload: upload}
			problems, err := c.pinUpload(ctx, &f, runAt)
			if err != nil {
				return fmt.Errorf("look for %s: %w", names[0], err)
			}
			if len(problems) == 0 && f.Size > job.MaxTestBytes {
				problems = job.Invalid{{Value: fmt.Sprintf("%d bytes", f.Size), Message: "is too large", Allowed: fmt.Sprintf("%d bytes", job.MaxTestBytes)}}
			}
			mu.Lock()
			defer mu.Unlock()
			for _, p := range problems {
				p.Field = names[0]
				invalid = append(invalid, p)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if invalid != nil {
		slices.SortFunc(invalid, func(a, b job.FieldError) int { return strings.Compare(a.Field, b.Field) })
		return invalid
	}
	return nil
}
