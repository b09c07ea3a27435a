package record_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

func interactive() job.Spec {
	s := spec()
	s.Interactive = true
	return s
}

func sent(t *testing.T, s *record.Store, id string, want ...job.Input) {
	t.Helper()
	got, err := s.Inputs(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append([]job.Input{}, want...), got); diff != "" {
		t.Error(diff)
	}
}

// TestInput: a job that runs is sent input, which wakes its worker, and which another worker reads again; one that doesn't run, or
// doesn't take any, isn't.
func TestInput(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	send := func(id string, in job.Input, want error) {
		t.Helper()
		if err := s.SendInput(t.Context(), id, in); !errors.Is(err, want) || want == nil && err != nil || want != nil && err.Error() != want.Error() {
			t.Errorf("%+v: got %v, want %v", in, err, want)
		}
	}
	one, two, end := job.Input{Data: "one\n"}, job.Input{DataBase64: "AP8="}, job.Input{Data: "end", EOF: true, Signal: "SIGINT"}
	id := create(t, s, interactive())
	send(id, one, job.ErrNotRunning)
	send("default-"+strings.Repeat("a", 26), one, job.ErrNotFound)
	send("x", one, job.ErrNotFound)

	heard := s.ListenTurns(t.Context(), "w1")
	defer heard.Close()
	woken, forget := heard.Wait(id)
	defer forget()
	<-woken // the subscription is there
	start(t, s, id, 1, "w1")
	sent(t, s, id)
	send(id, one, nil)
	<-woken
	send(id, two, nil)
	sent(t, s, id, one, two)
	if rest, err := s.Inputs(t.Context(), id, 1); err != nil || len(rest) != 1 || rest[0] != two {
		t.Errorf("behind the first: got %+v, %v", rest, err)
	}

	if answer, err := s.Requeue(t.Context(), id, 1, "w1", record.CostAttempt, 0); err != nil || answer != record.RequeueOK {
		t.Fatal(answer, err)
	}
	send(id, one, job.ErrNotRunning)
	j := start(t, s, id, 2, "w2")
	sent(t, s, id, one, two)
	send(id, end, nil)
	send(id, one, job.ErrInputClosed)
	send(id, job.Input{EOF: true}, job.ErrInputClosed)
	send(id, job.Input{Signal: "SIGTERM"}, nil)
	sent(t, s, id, one, two, end, job.Input{Signal: "SIGTERM"})
	if life, err := s.Redis().PTTL(t.Context(), "gb:{default}:input:"+id).Result(); err != nil || life < 23*time.Hour || life > 24*time.Hour {
		t.Errorf("the inputs of a job that runs go in %s, %v, want a day", life, err)
	}
	if err := s.End(t.Context(), j, record.Ending{Status: job.Succeeded, ResultRef: "k"}); err != nil {
		t.Fatal(err)
	}
	send(id, one, job.ErrEnded)
	sent(t, s, id)
	if n, err := s.Redis().Exists(t.Context(), "gb:{default}:input:"+id).Result(); err != nil || n != 0 {
		t.Errorf("the inputs of a job that has ended: got %d, %v", n, err)
	}

	other := create(t, s, spec())
	start(t, s, other, 1, "w1")
	send(other, one, job.ErrNotInteractive)
}

func TestInputIsBounded(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for size, most := range map[int]int{job.MaxInputBytes: 3, 1000: job.MaxInputTotal / (1000 + job.InputCost), 0: job.MaxInputTotal / job.InputCost} {
		id := create(t, s, interactive())
		start(t, s, id, 1, "w1")
		in := job.Input{Data: strings.Repeat("x", size), Signal: "SIGCONT"}
		n := 0
		for ; ; n++ {
			if err := s.SendInput(t.Context(), id, in); errors.Is(err, job.ErrInputFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if n != most {
			t.Errorf("got %d inputs of %d bytes, want %d", n, size, most)
		}
		read := 0
		for {
			list, err := s.Inputs(t.Context(), id, read)
			if err != nil {
				t.Fatal(err)
			}
			if read += len(list); len(list) == 0 {
				break
			}
		}
		if read != most {
			t.Errorf("read %d of %d", read, most)
		}
		bytes, err := s.Redis().MemoryUsage(t.Context(), "gb:{default}:input:"+id, 0).Result()
		if err != nil || bytes > 400<<10 {
			t.Errorf("inputs of %d bytes take %d bytes of Redis, %v, want some 256 KiB", size, bytes, err)
		}
		t.Logf("%d inputs of %d bytes take %d bytes of Redis", n, size, bytes)
	}
}
