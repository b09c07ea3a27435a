package piston

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

func newTalk() *talk {
	t := &talk{first: make(chan []byte, 1), shorten: func() {}}
	t.more = sync.Cond{L: &t.mu}
	return t
}

// TestTake: what clients send becomes input in its order, in pieces that a job takes.
func TestTake(t *testing.T) {
	t.Parallel()
	talk, first := newTalk(), true
	long := strings.Repeat("x", job.MaxInputBytes-1)
	for _, text := range []string{
		`{"type":"init"}`, `{"type":"data","stream":"stdin","data":"1\n"}`, `{"type":"data","stream":"stdin","data":""}`, `{"type":"signal","signal":"SIGINT"}`,
		`{"type":"data","stream":"stdin","data":"` + long + `äö"}`, `{"type":"data","stream":"stdin","data":7}`, `{"type":"wave"}`, `{"type":7}`,
	} {
		if err := talk.take([]byte(text), &first); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	want := []job.Input{{Data: "1\n"}, {Signal: "SIGINT"}, {DataBase64: "x"}, {DataBase64: "y"}}
	if len(talk.waiting) != len(want) {
		t.Fatalf("got %d inputs, want %d", len(talk.waiting), len(want))
	}
	if diff := cmp.Diff(want[:2], talk.waiting[:2]); diff != "" {
		t.Error(diff)
	}
	var cut []byte
	for _, in := range talk.waiting[2:] {
		data, err := in.Bytes()
		if err != nil || in.Check() != nil {
			t.Errorf("%v, %v", err, in.Check())
		}
		cut = append(cut, data...)
	}
	if string(cut) != long+"äö" {
		t.Error("what was cut is not what was sent")
	}
}

// FuzzTake: no message makes input that a job doesn't take, or more of it than a job may have.
func FuzzTake(f *testing.F) {
	for _, seed := range []string{
		"", "x", "{}", "null", "[]", `{"type":"init"}`, `{"type":"data","stream":"stdin","data":"1\n"}`, `{"type":"signal","signal":"SIGKILL"}`,
		`{"type":"data","stream":"stdin","data":"\ud800\u0000"}`, `{"type":"data","stream":"stdout","data":"1"}`, `{"type":"signal","signal":["SIGKILL"]}`,
		`{"type":"data","stream":"stdin","data":"` + strings.Repeat("ä", 40_000) + `"}`,
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, times int) {
		talk, first := newTalk(), false
		for range min(max(times, 1), 20) {
			err := talk.take(text, &first)
			var c closing
			if errors.As(err, &c) && (c.code < 4000 || c.code > 4999) {
				t.Errorf("closed with %d", c.code)
			}
			if err != nil {
				break
			}
		}
		had := 0
		for _, in := range talk.waiting {
			data, err := in.Bytes()
			if had += len(data) + job.InputCost; err != nil || in.Check() != nil {
				t.Errorf("%+v: %v, %v", in, err, in.Check())
			}
		}
		if had > job.MaxInputTotal {
			t.Errorf("%d bytes wait", had)
		}
	})
}
