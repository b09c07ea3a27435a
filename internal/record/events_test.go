package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

func stdout(offset int64, text string) record.Event {
	return record.Event{Type: record.EventStdout, Offset: offset, Data: []byte(text)}
}

func publish(t *testing.T, s *record.Store, j record.Record, first int, events ...record.Event) {
	t.Helper()
	if err := s.Publish(t.Context(), j, first, events); err != nil {
		t.Fatal(err)
	}
}

// stream is what the job's stream has after an event, in short.
func stream(t *testing.T, s *record.Store, id, after string) (short []string, events []record.Event) {
	t.Helper()
	events, err := s.Events(t.Context(), id, after, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		short = append(short, fmt.Sprintf("%d.%d %s %d %.40s", e.Epoch, e.Seq, e.Type, e.Offset, e.Data))
	}
	return short, events
}

func expectStream(t *testing.T, s *record.Store, id, after string, want ...string) {
	t.Helper()
	if got, _ := stream(t, s, id, after); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func eventLife(t *testing.T, s *record.Store, id string) time.Duration {
	t.Helper()
	d, err := s.Redis().PTTL(t.Context(), "gb:{default}:events:"+id).Result()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	id := create(t, s, spec())
	expectStream(t, s, id, "")
	j := start(t, s, id, 1, "w1")
	publish(t, s, j, 1, stdout(0, "one"), stdout(3, "\xff\x00\r\n"))
	publish(t, s, j, 2, stdout(3, "\xff\x00\r\n"), stdout(7, "two")) // the answer got lost
	want := []string{"1.1 stdout 0 one", "1.2 stdout 3 \xff\x00\r\n", "1.3 stdout 7 two"}
	expectStream(t, s, id, "", want...)
	_, events := stream(t, s, id, "")
	expectStream(t, s, id, events[0].ID, want[1:]...)
	expectStream(t, s, id, events[2].ID)
	if e, found, err := s.Event(t.Context(), id, events[1].ID); err != nil || !found || e.Seq != 2 {
		t.Errorf("got %+v, %v, %v", e, found, err)
	}
	if e, found, err := s.Event(t.Context(), id, "1-1"); err != nil || found {
		t.Errorf("an event that never was: got %+v, %v, %v", e, found, err)
	}
	if life := eventLife(t, s, id); life < 23*time.Hour || life > 24*time.Hour {
		t.Errorf("the stream of a job that runs goes in %s, want a day", life)
	}

	other := j
	other.Worker = "w2"
	if err := s.Publish(t.Context(), other, 4, []record.Event{stdout(10, "forged")}); !errors.Is(err, record.ErrStale) {
		t.Errorf("another worker: got %v, want ErrStale", err)
	}
	if answer, err := s.Requeue(t.Context(), id, 1, "w1", record.CostAttempt, 0); err != nil || answer != record.RequeueOK {
		t.Fatal(answer, err)
	}
	if err := s.Publish(t.Context(), j, 4, []record.Event{stdout(10, "late")}); !errors.Is(err, record.ErrStale) {
		t.Errorf("a worker whose job was taken: got %v, want ErrStale", err)
	}
	j = start(t, s, id, 2, "w2")
	publish(t, s, j, 1, stdout(0, "anew"))
	want = append(want, `2.0 status 0 {"status":"queued","attempt":1}`, "2.1 stdout 0 anew")
	expectStream(t, s, id, "", want...)

	if err := s.End(t.Context(), j, record.Ending{Status: job.Succeeded, ResultRef: "k"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(t.Context(), j, 2, []record.Event{stdout(4, "late")}); !errors.Is(err, record.ErrStale) {
		t.Errorf("after the end: got %v, want ErrStale", err)
	}
	expectStream(t, s, id, "", want...)
	if life := eventLife(t, s, id); life <= 0 || life > time.Minute {
		t.Errorf("the stream of a job that has ended goes in %s, want a minute at most", life)
	}
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, size := range []int{0, 1000, 32 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			s, _ := open(t)
			j := start(t, s, create(t, s, spec()), 1, "w1")
			data := string(bytes.Repeat([]byte("x"), size))
			n := 3*mib/(size+128) + 1
			for next := 1; next <= n; next += 100 {
				var batch []record.Event
				for i := next; i < next+100 && i <= n; i++ {
					batch = append(batch, stdout(int64((i-1)*size), data))
				}
				publish(t, s, j, next, batch...)
			}
			_, events := stream(t, s, j.ID, "")
			kept := len(events) * (size + 128)
			if kept < mib || kept > mib+size+128 {
				t.Errorf("got %d bytes of events, want as many as fit into 1 MiB", kept)
			}
			for i, e := range events {
				if e.Seq != n-len(events)+1+i {
					t.Fatalf("event %d has Seq %d: the oldest have to go", i, e.Seq)
				}
			}
			used, err := s.Redis().MemoryUsage(t.Context(), "gb:{default}:events:"+j.ID).Result()
			if err != nil || used > 2*mib {
				t.Errorf("the stream takes %d bytes of Redis, %v", used, err)
			}
			t.Logf("%d events of %d bytes take %d KiB of Redis", len(events), size, used>>10)
		})
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	if _, err := s.Watch(t.Context(), job.NewID("default")); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("no job: got %v, want ErrNotFound", err)
	}
	if n := s.Redis().Exists(t.Context(), "gb:{default}:jobs").Val(); n != 0 {
		t.Error("watching a job that is none made something")
	}
	id := create(t, s, spec())
	expect := func(status job.Status, epoch, attempt int) {
		t.Helper()
		w, err := s.Watch(t.Context(), id)
		if want := (record.Watching{StatusChange: record.StatusChange{Status: status, Attempt: attempt}, Epoch: epoch}); err != nil || w != want {
			t.Errorf("got %+v, %v, want %+v", w, err, want)
		}
	}
	words := s.Redis().Subscribe(t.Context(), "gb:cancel")
	defer words.Close()
	told := words.Channel()
	for s.Redis().PubSubNumSub(t.Context(), "gb:cancel").Val()["gb:cancel"] == 0 {
		time.Sleep(time.Millisecond)
	}
	expect(job.Queued, 1, 0)
	j := start(t, s, id, 1, "w1") // which finds that it is watched
	if !j.Watched(time.Now()) || j.Watched(time.Now().Add(2*time.Minute)) {
		t.Errorf("watched until %v", j.WatchedUntil)
	}
	expect(job.Running, 1, 1) // a word to the worker
	publish(t, s, j, 1, stdout(0, "x"))
	expect(job.Running, 1, 1) // and none, as it publishes
	if _, err := s.Requeue(t.Context(), id, 1, "w1", record.CostNothing, 0); err != nil {
		t.Fatal(err) // a word
	}
	expect(job.Queued, 2, 0)
	j = start(t, s, id, 2, "w1")
	expect(job.Running, 2, 1) // and a word
	if err := s.End(t.Context(), j, record.Ending{Status: job.Succeeded, ResultRef: "k"}); err != nil {
		t.Fatal(err)
	}
	expect(job.Succeeded, 2, 1)
	if err := s.Redis().Publish(t.Context(), "gb:cancel", "over").Err(); err != nil {
		t.Fatal(err)
	}
	var heard []string
	for m := range told {
		if heard = append(heard, m.Payload); m.Payload == "over" {
			break
		}
	}
	if want := []string{id, id, id, "over"}; !slices.Equal(heard, want) {
		t.Errorf("the worker was told %q, want %q", heard, want)
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	s, server := open(t)
	l := s.ListenDone(t.Context())
	defer l.Close()
	id := create(t, s, spec())
	j := start(t, s, id, 1, "w1")
	channel := "gb:events:" + id
	subscribers := func(want int64) {
		t.Helper()
		for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(time.Millisecond) {
			n, err := s.Redis().PubSubNumSub(t.Context(), channel).Result()
			if err == nil && n[channel] == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("got %d subscribers, %v, want %d", n[channel], err, want)
			}
		}
	}
	woken, stop := l.Follow(id)
	second, stopSecond := l.Follow(id)
	subscribers(1) // for both
	seen := 0
	// until waits until the stream has so many events, looking only when it is woken.
	until := func(n int) {
		t.Helper()
		for seen < n {
			select {
			case <-woken:
			case <-time.After(gbtest.Patience):
				t.Fatalf("not woken for event %d", n)
			}
			_, events := stream(t, s, id, "")
			seen = len(events)
		}
	}
	publish(t, s, j, 1, stdout(0, "1"))
	until(1)
	stop()
	woken = second
	publish(t, s, j, 2, stdout(1, "2"))
	until(2)
	server.Kill()
	server.Restart()
	for deadline := time.Now().Add(gbtest.Patience); ; time.Sleep(10 * time.Millisecond) {
		if err := s.Publish(t.Context(), j, 3, []record.Event{stdout(2, "3")}); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	until(3) // be it that the message came before the new subscription
	stopSecond()
	subscribers(0)
}
