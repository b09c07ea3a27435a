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
	list, all, err := s.Inputs(t.Context(), id, 0)
	if err != nil || all != len(want) {
		t.Fatalf("got %d inputs, %v, want %d", all, err, len(want))
	}
	got := []job.Input{}
	for _, in := range list {
		got = append(got, in.Input)
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
	heard.Subscribed(t, s.Redis(), "gb:turn:w1")
	woken, forget := heard.Wait(id)
	defer forget()
	start(t, s, id, 1, "w1")
	sent(t, s, id)
	send(id, one, nil)
	<-woken
	send(id, two, nil)
	sent(t, s, id, one, two)
	if rest, all, err := s.Inputs(t.Context(), id, 1); err != nil || all != 2 || len(rest) != 1 || rest[0] != (record.SentInput{Input: two, Epoch: 1}) {
		t.Errorf("behind the first: got %+v of %d, %v", rest, all, err)
	}
	if rest, all, err := s.Inputs(t.Context(), id, 5); err != nil || all != 2 || len(rest) != 0 {
		t.Errorf("behind more than there are: got %+v of %d, %v", rest, all, err)
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
	for _, text := range []string{strings.Repeat("x", job.MaxInputBytes), strings.Repeat("x", 1000), strings.Repeat("\x01", 10_000), ""} {
		size := len(text)
		id := create(t, s, interactive())
		start(t, s, id, 1, "w1")
		in := job.Input{Data: text, Signal: "SIGCONT"}
		asJSON, err := job.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		room := job.MaxInputTotal
		if text == "" { // there is some more for what has no data
			room += 4 << 10
		}
		most := room / (len(asJSON) + job.InputCost)
		n := 0
		for ; ; n++ {
			if err := s.SendInput(t.Context(), id, in); errors.Is(err, job.ErrInputFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if len(text) > 0 {
			for _, in := range []job.Input{{Signal: "SIGINT"}, {EOF: true}} { // there is room for these all the same
				if err := s.SendInput(t.Context(), id, in); err != nil {
					t.Errorf("%+v: %v", in, err)
				}
			}
			most, n = most+2, n+2
		}
		if n != most {
			t.Errorf("got %d inputs of %d bytes, want %d", n, size, most)
		}
		read := 0
		for {
			list, _, err := s.Inputs(t.Context(), id, read)
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
