package record

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/queue"
	"github.com/glovebox-run/glovebox/job"
)

// released is a job that has left its tenant's backlog, or never was in it, and wants a task.
type released struct {
	id        string
	epoch     int
	priority  job.Priority
	placement string
}

// enqueueReleased gives jobs their task that a script released. Those for which that fails
// are the sweeper's work.
func (s *Store) enqueueReleased(ctx context.Context, answer []any) error {
	list, unread := parseReleased(answer)
	if len(list) > 0 {
		failpoint.Hit(failpoint.Released)
	}
	tasks := make([]queue.Task, len(list))
	for i, r := range list {
		tasks[i] = queue.RunTask(r.id, r.epoch, r.priority, time.Time{}).InPool(r.placement)
	}
	return errors.Join(unread, s.Queue.EnqueueAll(ctx, tasks))
}

// parseReleased reads those that can be read: one record that can't must not leave the jobs of
// others without a task.
func parseReleased(answer []any) ([]released, error) {
	var errs []error
	list := make([]released, 0, len(answer))
	for _, a := range answer {
		var words [4]string
		fields, _ := a.([]any)
		for i := range words {
			if i < len(fields) {
				words[i], _ = fields[i].(string)
			}
		}
		epoch, err := strconv.Atoi(words[1])
		if err != nil || words[0] == "" {
			errs = append(errs, fmt.Errorf("a script says that it released %.100q in epoch %.20q", words[0], words[1]))
			continue
		}
		list = append(list, released{words[0], epoch, job.Priority(words[2]), words[3]})
	}
	return list, errors.Join(errs...)
}
