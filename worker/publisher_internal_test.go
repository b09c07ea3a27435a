package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// published is a Redis that does what a test tells it.
type published struct {
	mu     sync.Mutex
	fail   func(call int) error
	calls  int
	events []record.Event
	out    map[record.EventType]*bytes.Buffer
	faults []string
}

func (p *published) publish(_ context.Context, first int, events []record.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	err := error(nil)
	if p.fail != nil {
		err = p.fail(p.calls)
	}
	if len(events) > maxBatchEvents+1 {
		p.faults = append(p.faults, fmt.Sprintf("a batch of %d events", len(events)))
	}
	for i, e := range events {
		if first+i <= len(p.events) { // again, as the answer got lost
			if was := p.events[first+i-1]; was.Type != e.Type || !bytes.Equal(was.Data, e.Data) || was.Offset != e.Offset {
				p.faults = append(p.faults, fmt.Sprintf("event %d is another the second time", first+i))
			}
			continue
		}
		if first+i != len(p.events)+1 {
			p.faults = append(p.faults, fmt.Sprintf("event %d after %d", first+i, len(p.events)))
		}
		p.events = append(p.events, e)
		if out := p.out[e.Type]; out != nil {
			if int64(out.Len()) != e.Offset || len(e.Data) == 0 || len(e.Data) > maxEventBytes {
				p.faults = append(p.faults, fmt.Sprintf("%d bytes at %d, want %d", len(e.Data), e.Offset, out.Len()))
			}
			out.Write(e.Data)
		}
	}
	return err
}

func newPublished() *published {
	return &published{out: map[record.EventType]*bytes.Buffer{record.EventStdout: {}, record.EventStderr: {}}}
}

// eventPublisherTest is a live, what it publishes to, and the output that it reads.
func eventPublisherTest(t *testing.T) (*published, *eventPublisher, *output, *sync.WaitGroup) {
	t.Helper()
	p := newPublished()
	l := newEventPublisher(p.publish, 1, slog.New(slog.DiscardHandler))
	o := newOutput(&Worker{Config: Config{SpoolDir: t.TempDir()}}, artifacts.Keys{}, 1, l, nil, false)
	running := &sync.WaitGroup{}
	t.Cleanup(func() {
		l.finish()
		running.Wait()
		if err := o.close(); err != nil {
			t.Error(err)
		}
		if p.faults != nil {
			t.Errorf("%q", p.faults)
		}
	})
	return p, l, o, running
}

func (p *published) types() (types []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		types = append(types, string(e.Type))
	}
	return types
}

func TestPublisher(t *testing.T) {
	t.Parallel()
	p, l, o, running := eventPublisherTest(t)
	l.start(running)
	l.start(running) // once
	text := []byte(strings.Repeat("aé😀\xff", 40_000))
	for rest := text; len(rest) > 0; {
		n := min(1+len(rest)%4099, len(rest))
		if err := errors.Join(o.Stdout(rest[:n]), o.Stderr(rest[:min(n, 3)])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	l.addArtifact(job.Artifact{Name: "a", URL: "artifacts/a"})
	l.addShown([]job.Shown{{Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": {Text: "2"}}}})
	l.finish()
	types := p.types()
	if n := len(types); types[0] != "status" || types[n-3] != "artifact" || types[n-2] != "display" || types[n-1] != "end" {
		t.Errorf("got %q", types)
	}
	if !bytes.Equal(p.out[record.EventStdout].Bytes(), text) || int64(p.out[record.EventStderr].Len()) != o.stderr.size {
		t.Errorf("got %d and %d bytes", p.out[record.EventStdout].Len(), p.out[record.EventStderr].Len())
	}
	var status record.StatusChange
	if err := json.Unmarshal(p.events[0].Data, &status); err != nil || status != (record.StatusChange{Status: job.Running, Attempt: 1}) {
		t.Errorf("got %s, %v", p.events[0].Data, err)
	}
	if strings.Contains(string(p.events[len(p.events)-3].Data), "url") {
		t.Errorf("got %s, want no URL: there is none yet", p.events[len(p.events)-3].Data)
	}
	if got := string(p.events[len(p.events)-2].Data); got != `{"kind":"value","data":{"text/plain":"2"}}` {
		t.Errorf("got %s", got)
	}
}

// TestPublisherLateWatcher: a late watcher sees what was printed before, though that may be in a file by now.
func TestPublisherLateWatcher(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, job.InlineOutput, job.InlineOutput + 1, 600 << 10} {
		p, l, o, running := eventPublisherTest(t)
		text := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		if size > 0 {
			if err := o.Stdout(text); err != nil {
				t.Fatal(err)
			}
		}
		if p.calls != 0 {
			t.Error("it publishes although nobody watches")
		}
		l.start(running)
		l.finish()
		if !bytes.Equal(p.out[record.EventStdout].Bytes(), text) || !slices.Contains(p.types(), "end") {
			t.Errorf("size %d: got %d bytes, %q", size, p.out[record.EventStdout].Len(), p.types())
		}
	}
}

// TestPublisherFullDisk: who watches an execution whose output the worker's disk has no room for sees its head, and all that comes behind it.
func TestPublisherFullDisk(t *testing.T) {
	t.Parallel()
	p, l, o, running := eventPublisherTest(t)
	o.stdout.dir, o.stdout.cuts = fullDisk(t, job.InlineOutput>>10+4), true
	l.start(running)
	head := strings.Repeat("x", job.InlineOutput)
	for _, out := range []error{o.Stdout([]byte(head)), o.Stdout(bytes.Repeat([]byte("x"), spoolBuffer-10)), o.Stderr([]byte("said")), o.Stdout([]byte("more"))} {
		if out != nil {
			t.Fatal(out)
		}
	}
	gbtest.Eventually(t, "what comes behind it is published", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.out[record.EventStderr].String() == "said"
	})
	if err := errors.Join(o.Stdout([]byte("more")), o.end(sandbox.Outcome{})); err != nil {
		t.Fatal(err)
	}
	l.addShown([]job.Shown{{Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": {Text: "2"}}}})
	l.finish()
	types := p.types()
	if n := len(types); types[n-2] != "display" || types[n-1] != "end" || !o.stdout.cut {
		t.Errorf("got %q, cut off: %t", types, o.stdout.cut)
	}
	if got := p.out[record.EventStdout].String(); got != head {
		t.Errorf("got %d bytes, want the %d of the head", len(got), len(head))
	}
}

// TestPublisherIsPrompt: output that nothing follows is published without it.
func TestPublisherIsPrompt(t *testing.T) {
	t.Parallel()
	p, l, o, running := eventPublisherTest(t)
	l.start(running)
	want := ""
	for i := range 5 {
		line := fmt.Sprintf("line %d\n", i)
		want += line
		if err := o.Stdout([]byte(line)); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			p.mu.Lock()
			got := p.out[record.EventStdout].String()
			p.mu.Unlock()
			if got == want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	}
	l.finish()
	if p.calls > 8 {
		t.Errorf("%d batches for 5 lines", p.calls)
	}
}

// TestPublisherWithoutRedis: a Redis that fails, loses answers or hangs holds nothing up, and
// what it took counts once.
func TestPublisherWithoutRedis(t *testing.T) {
	t.Parallel()
	failed := errors.New("Redis is away")
	for name, c := range map[string]struct {
		fail  func(call int) error
		whole bool
	}{
		"an answer is lost": {func(call int) error {
			if call == 1 {
				return failed
			}
			return nil
		}, true},
		"it is away":           {func(int) error { return failed }, false},
		"it hangs":             {func(int) error { time.Sleep(2 * publishTimeout); return failed }, false},
		"the job is another's": {func(int) error { return record.ErrStale }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, l, o, running := eventPublisherTest(t)
				p.fail = c.fail
				began := time.Now()
				l.start(running)
				text := strings.Repeat("x", 1<<20)
				for range 8 {
					if err := o.Stdout([]byte(text)); err != nil {
						t.Fatal(err)
					}
				}
				if c.whole { // else there is nothing to wait for
					for l.failing.Load() || len(p.types()) < 2 {
						time.Sleep(time.Millisecond)
					}
				}
				finishing := time.Now()
				l.finish()
				if took := time.Since(finishing); took > 3*publishTimeout/2 {
					t.Errorf("the end of the run took %s", took)
				}
				if took := finishing.Sub(began); !c.whole && took > publishTimeout {
					t.Errorf("the run took %s", took)
				}
				running.Wait()
				if whole := slices.Contains(p.types(), "end") && p.out[record.EventStdout].Len() == 8<<20; whole != c.whole {
					t.Errorf("got the end %v, want %v", whole, c.whole)
				}
			})
		})
	}
}

func TestPublisherNeverStarted(t *testing.T) {
	t.Parallel()
	p, l, o, running := eventPublisherTest(t)
	if err := o.Stdout([]byte("x")); err != nil {
		t.Fatal(err)
	}
	l.finish()
	l.start(running) // a watcher that comes too late
	running.Wait()
	if p.calls > 0 {
		t.Errorf("got %q of a run that is over", p.types())
	}
}

func TestCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"a", "a"},
		{"aé", "aé"},
		{"a\xc3", "a"},
		{"\xc3", ""},
		{"😀", "😀"},
		{"a\xf0\x9f\x98", "a"},
		{"a\xf0\x9f", "a"},
		{"a\xf0", "a"},
		{"a\xff", "a\xff"},
		{"\x80\x80\x80\x80", "\x80\x80\x80\x80"},
		{"a\xe2\x82", "a"},
		{"a\xe2\x28", "a\xe2\x28"},
	} {
		if got := string(wholeCharacters([]byte(c.in), false)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
		if got := string(wholeCharacters([]byte(c.in), true)); got != c.in {
			t.Errorf("%q at the end: got %q", c.in, got)
		}
	}
}

// FuzzCharacters: pieces of text are text.
func FuzzCharacters(f *testing.F) {
	f.Add("aé😀", 3)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at < 0 || at > len(text) {
			return
		}
		piece := wholeCharacters([]byte(text[:at]), false)
		if utf8.ValidString(text) && !utf8.Valid(piece) {
			t.Errorf("%q of %q", piece, text)
		}
		if !strings.HasPrefix(text, string(piece)) || at-len(piece) > 3 {
			t.Errorf("%q of %q, cut at %d", piece, text, at)
		}
	})
}

// BenchmarkOutput is what a worker does with what a program prints.
func BenchmarkOutput(b *testing.B) {
	for _, watched := range []bool{false, true} {
		for _, size := range []int{10, 4 << 10} {
			b.Run(fmt.Sprintf("watched=%v/%d", watched, size), func(b *testing.B) {
				p := &published{}
				l := newEventPublisher(func(context.Context, int, []record.Event) error { p.calls++; return nil }, 1, slog.New(slog.DiscardHandler))
				o := newOutput(&Worker{Config: Config{SpoolDir: b.TempDir()}}, artifacts.Keys{}, 1, l, nil, false)
				var running sync.WaitGroup
				if watched {
					l.start(&running)
				}
				data := bytes.Repeat([]byte("x"), size)
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := o.Stdout(data); err != nil {
						b.Fatal(err)
					}
				}
				l.finish()
				running.Wait()
				if err := o.close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
