package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// eventPage is how many events are read at once.
	eventPage = 16
	// pageBytes is more than they hold of output mostly.
	pageBytes = 512 << 10
)

// Watch is [producer.Watcher.Watch]. It is woken by Redis and, once it has told something, bears with
// outages of up to 30 s.
func (c *Client) Watch(ctx context.Context, id, after string) iter.Seq2[producer.Event, error] {
	return func(yield func(producer.Event, error) bool) {
		w := &watcher{client: c, id: id, after: after, yield: yield}
		if err := w.watch(ctx); err != nil && !w.left {
			yield(producer.Event{}, err)
		}
	}
}

// Watching returns a Client whose caller watches what it submits: nothing that a job prints is missed, however soon it ends. It needs no Close of its own.
func (c *Client) Watching() *Client {
	other := c.For(c.tenant)
	other.watching = true
	return other
}

// watcher reads one job's events for one who watches it.
type watcher struct {
	client *Client
	id     string
	after  string // ID of the last event that was read
	yield  func(producer.Event, error) bool
	begun  bool // something was told
	left   bool // yield has said that it is enough

	look       time.Time // when to look at the record again
	now        record.Watching
	placed     bool // epoch and seq are known
	epoch, seq int  // of the last event that was read; 0 if there was none
	whole      bool // nothing is missing after it, if the job has ended
	told       record.StatusChange
}

// watch returns nil once there is nothing more to tell, or nobody to tell it.
func (w *watcher) watch(ctx context.Context) error {
	if !w.client.owns(w.id) {
		return job.ErrNotFound
	}
	if w.after == producer.LastEvent {
		_, err := w.client.records.Get(ctx, w.id)
		return err
	}
	if err := producer.CheckEventID(w.after); err != nil {
		return err
	}
	// Before the first look, or what happens between the two would wake nobody.
	news, unfollow := w.client.done.Follow(w.id)
	defer unfollow()
	ended, stop := w.client.done.Wait(w.id)
	defer stop()
	var failing time.Time
	for {
		over, err := w.round(ctx)
		delay := time.Until(w.look)
		switch {
		case over || w.left:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, job.ErrNotFound), err != nil && !w.begun:
			return err
		case err == nil:
			failing = time.Time{}
		case !failing.IsZero() && time.Since(failing) > outage:
			return err
		default:
			delay = retryDelay
			if failing.IsZero() {
				failing = time.Now()
			}
		}
		select {
		case <-news:
		case <-ended:
			w.look = time.Time{}
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// round tells all that there is to tell by now. It is over after the result.
func (w *watcher) round(ctx context.Context) (over bool, err error) {
	first := w.now.Status == ""
	if !time.Now().Before(w.look) {
		if w.now, err = w.client.records.Watch(ctx, w.id); err != nil {
			return false, err
		}
		w.look = time.Now().Add(record.WatchInterval)
	}
	// Read after the record was: one that has ended has no events to come.
	final := w.now.Status.Final()
	if first && !final {
		w.tellStatus("", w.now.StatusChange)
	}
	if err := w.resume(ctx); err != nil {
		return false, err
	}
	if err := w.events(ctx); err != nil || w.left {
		return false, err
	}
	if !final {
		if w.epoch < w.now.Epoch { // its worker has published nothing, or not yet
			w.tellStatus("", w.now.StatusChange)
		}
		return false, nil
	}
	j, err := w.client.Get(ctx, w.id)
	if err != nil {
		return false, err
	}
	if !w.whole {
		w.tell(producer.Event{Type: producer.EventGap})
	}
	w.tellStatus("", w.now.StatusChange)
	w.tell(producer.Event{ID: producer.LastEvent, Type: producer.EventResult, Job: j})
	return true, nil
}

// resume finds the place after which to go on.
func (w *watcher) resume(ctx context.Context) error {
	if w.placed {
		return nil
	}
	w.whole = true
	if w.after != "" {
		e, found, err := w.client.records.Event(ctx, w.id, w.after)
		if err != nil {
			return err
		}
		w.epoch, w.seq, w.whole = e.Epoch, e.Seq, !found || e.Type == record.EventEnd || e.Seq == 0
		if !found {
			w.tell(producer.Event{Type: producer.EventGap})
			w.seq = unknownSeq
		}
	}
	w.placed = true
	return nil
}

// unknownSeq is the Seq of an event that is not there any more. A gap has been told then.
const unknownSeq = -1

// events tells what the job's stream has.
func (w *watcher) events(ctx context.Context) error {
	for more := true; more && !w.left; {
		var err error
		if more, err = w.page(ctx); err != nil {
			return err
		}
	}
	return nil
}

// page sends a page of it. A slow watcher holds that, and no more.
func (w *watcher) page(ctx context.Context) (more bool, err error) {
	held := &reservation{Memory: w.client.memory}
	if err := held.Take(ctx, answerWeight*pageBytes); err != nil {
		return false, err
	}
	defer held.keep(0)
	page, err := w.client.records.Events(ctx, w.id, w.after, eventPage)
	if err != nil {
		return false, err
	}
	needed := int64(0)
	for _, e := range page {
		needed += int64(len(e.Data))
	}
	held.keep(answerWeight * needed)
	for _, e := range page {
		if err := w.take(e); err != nil {
			return false, err
		}
	}
	return len(page) == eventPage, nil
}

// take tells one entry of the stream.
func (w *watcher) take(e record.Event) error {
	if w.left {
		return nil
	}
	follows := e.Epoch == w.epoch && e.Seq == w.seq+1 || e.Epoch > w.epoch && e.Seq <= 1
	if !follows && w.seq != unknownSeq {
		w.tell(producer.Event{Type: producer.EventGap})
	}
	if w.epoch > 0 && e.Epoch != w.epoch {
		w.told = record.StatusChange{} // each try says that it runs
	}
	w.epoch, w.seq, w.after = e.Epoch, e.Seq, e.ID
	w.whole = e.Type == record.EventEnd || e.Seq == 0
	switch e.Type {
	case record.EventStatus:
		var s record.StatusChange
		if err := json.Unmarshal(e.Data, &s); err != nil {
			return fmt.Errorf("read event %s of job %s: %w", e.ID, w.id, err)
		}
		w.tellStatus(e.ID, s)
	case record.EventStdout, record.EventStderr:
		w.tell(producer.Event{ID: e.ID, Type: producer.EventType(e.Type), Data: e.Data, Offset: e.Offset})
	case record.EventArtifact:
		told := producer.Event{ID: e.ID, Type: producer.EventArtifact}
		return w.tellData(e, &told, &told.Artifact)
	case record.EventDisplay:
		told := producer.Event{ID: e.ID, Type: producer.EventDisplay}
		return w.tellData(e, &told, &told.Shown)
	case record.EventCompiled:
		told := producer.Event{ID: e.ID, Type: producer.EventCompiled}
		return w.tellData(e, &told, &told.Compile)
	case record.EventEnd:
	}
	return nil
}

// tellData tells an event whose data, as JSON, is read into a field of it.
func (w *watcher) tellData(e record.Event, told *producer.Event, field any) error {
	if err := json.Unmarshal(e.Data, field); err != nil {
		return fmt.Errorf("read event %s of job %s: %w", e.ID, w.id, err)
	}
	w.tell(*told)
	return nil
}

// tellStatus tells a status that was not told last.
func (w *watcher) tellStatus(id string, s record.StatusChange) {
	if s != w.told {
		w.told = s
		w.tell(producer.Event{ID: id, Type: producer.EventStatus, Status: s.Status, Attempt: s.Attempt})
	}
}

func (w *watcher) tell(e producer.Event) {
	w.begun = true
	if !w.left {
		w.left = !w.yield(e, nil)
	}
}
