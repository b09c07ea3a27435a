package api

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// Watch is [facade.Host.Watch].
func (h *facadeHost) Watch(ctx context.Context, id string, every time.Duration) iter.Seq2[producer.Event, error] {
	return func(yield func(producer.Event, error) bool) {
		if err := h.watch(ctx, id, every, func(e producer.Event) bool { return yield(e, nil) }); err != nil {
			yield(producer.Event{}, err)
		}
	}
}

// watch tells what happens until tell has enough, or the job has ended.
func (h *facadeHost) watch(ctx context.Context, id string, every time.Duration, tell func(producer.Event) bool) error {
	release, err := h.api.watchers.acquire(h.caller.tenant)
	if err != nil {
		return err
	}
	defer release()
	watching, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	defer context.AfterFunc(h.api.draining, cancel)() //nolint:contextcheck // it ends the watch, beside ctx
	told := make(chan happening)
	watch.Go(func() {
		defer close(told)
		for e, err := range h.api.answering(watching, h.caller.tenant).Watch(watching, id, "") {
			select {
			case told <- happening{e, err}:
			case <-watching.Done():
				return
			}
		}
	})
	beat, look := time.NewTicker(every), time.NewTicker(h.api.look)
	defer beat.Stop()
	defer look.Stop()
	for {
		var next happening
		more := true
		select {
		case next, more = <-told:
			beat.Reset(every)
		case <-beat.C:
		case <-look.C:
			if err := h.goesOn(ctx); err != nil {
				return err
			}
			continue
		}
		switch {
		case h.api.draining.Err() != nil:
			return &job.Error{Code: job.CodeUnavailable, Message: "this api process is ending"}
		case !more:
			return ctx.Err()
		case next.err != nil:
			return next.err
		case !tell(next.event):
			return nil
		}
	}
}

// goesOn fails once the request would not be admitted any more.
func (h *facadeHost) goesOn(ctx context.Context) error {
	c := h.caller
	token, _ := facade.Token(h.r)
	if h.session != "" {
		if _, err := h.api.bySession(ctx, token, h.session); isWrong(err) {
			return err
		}
	}
	if h.session != "" || c.token.ID == anonymousID {
		c.token.ID = "" // there is none to look up
	}
	return h.api.stillGood(ctx, token, c)
}
