package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
)

// DrainHandedOver calls end with each run that waits for workers that offer the name, and removes its task
// after that. It ends with the first error of end.
func (c *Client) DrainHandedOver(ctx context.Context, name string, end func(Run) error) error {
	inspector := asynq.NewInspectorFromRedisClient(c.rdb)
	for priority := range Jobs() {
		queue := handedOver(priority, name)
		for {
			tasks, err := inspector.ListPendingTasks(queue) // the first page: those before are gone
			if errors.Is(err, asynq.ErrQueueNotFound) {
				break
			}
			if err != nil {
				return fmt.Errorf("list tasks that were handed over for %q: %w", name, err)
			}
			if len(tasks) == 0 {
				break
			}
			for _, t := range tasks {
				if err := ctx.Err(); err != nil {
					return err
				}
				var run Run
				if err := json.Unmarshal(t.Payload, &run); err != nil {
					c.unreadable.PassOver("a task that was handed over", err)
				} else if err := end(run); err != nil {
					return err
				}
				if err := inspector.DeleteTask(queue, t.ID); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
					return fmt.Errorf("remove a task that was handed over for %q: %w", name, err)
				}
			}
		}
	}
	return nil
}
