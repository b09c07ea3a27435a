package worker

import (
	"context"
	"errors"
)

// errDrainedByOperator is the reason of a pause that ends when the operator says so.
var errDrainedByOperator = errors.New("drained by its operator, until `glovebox fleet resume`")

// obey pauses the worker once its operator has drained it. That it is resumed, the next probe finds.
func (w *Worker) obey(ctx context.Context) error {
	drained, err := w.Records.Fleet.Drained(ctx, w.ID)
	if err != nil {
		return err
	}
	if w.drained.Swap(drained) != drained && drained {
		w.pause(errDrainedByOperator)
	}
	return nil
}
