package producer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// readSSE is every event of a stream, comments left out, and how the stream ended.
func readSSE(r io.Reader) (events []string, err error) {
	s := newSSEReader(r)
	for {
		e, err := s.next()
		if err != nil {
			return events, err
		}
		if e.data != nil {
			events = append(events, fmt.Sprintf("%s|%s|%s", e.id, e.name, e.data))
		}
	}
}

func TestSSE(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"nothing", "", nil},
		{"an event", "id: 1\nevent: a\ndata: x\n\n", []string{"1|a|x"}},
		{"ends of lines", "data: a\r\ndata: b\rdata: c\n\r\n\rdata: d\r\r", []string{"||a\nb\nc", "||d"}},
		{"a byte order mark", "\ufeffdata: a\n\n", []string{"||a"}},
		{"a mark that is not first", "data: a\n\n\ufeffdata: b\n\n", []string{"||a"}},
		{"spaces", "data:a\n\ndata:  b\n\ndata\n\ndata:\n\n", []string{"||a", "|| b", "||", "||"}},
		{"comments", ": one\n\ndata: a\n:two\ndata: b\n\n:\n", []string{"||a\nb"}},
		{"without data", "id: 1\nevent: a\n\ndata: x\n\n", []string{"||x"}},
		{"unknown fields", "retry: 10\nfoo: bar\ndata: x\n data: y\nDATA: z\n\n", []string{"||x"}},
		{"an id with a NUL", "id: 1\nid: \x00\ndata: x\n\n", []string{"1||x"}},
		{"colons", "data: {\"a\":1}\n\n", []string{`||{"a":1}`}},
		{"cut off", "data: a\n\ndata: b\n", []string{"||a"}},
		{"cut off in a line", "data: a\n\ndata: b", []string{"||a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for name, r := range map[string]io.Reader{"at once": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
				got, err := readSSE(r)
				if diff := cmp.Diff(c.want, got); !errors.Is(err, io.EOF) || diff != "" {
					t.Errorf("%s: got %v, want io.EOF; %s", name, err, diff)
				}
			}
		})
	}
}

func TestSSEIsBounded(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]io.Reader{
		"a line without end":    io.MultiReader(strings.NewReader("data: "), endless("x")),
		"an event without end":  endless("data: x\n"),
		"a comment without end": io.MultiReader(strings.NewReader(":"), endless("x")),
		"fields without end":    io.MultiReader(strings.NewReader("data: x\n"), endless("foo: bar\n")),
		"a long id":             strings.NewReader("id: " + strings.Repeat("1", 1000) + "\ndata: x\n\n"),
		"a long type":           strings.NewReader("event: " + strings.Repeat("1", 1000) + "\ndata: x\n\n"),
	} {
		if events, err := readSSE(r); !errors.Is(err, errSSETooLong) || len(events) > 0 {
			t.Errorf("%s: got %d events, %v, want errSSETooLong", name, len(events), err)
		}
	}
	whole := "data: " + strings.Repeat("x", maxAnswer) + "\n\n"
	if events, err := readSSE(strings.NewReader(whole)); len(events) != 1 || !errors.Is(err, io.EOF) {
		t.Errorf("the largest result: got %d events, %v", len(events), err)
	}
}

type endless string

func (e endless) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat(string(e), len(p)/len(e)+1)), nil
}

// FuzzSSE: whatever comes in whatever pieces, the reader says the same, and what the API
// writes of an event is read as that event.
func FuzzSSE(f *testing.F) {
	for _, seed := range []string{"id: 1-1\nevent: stdout\ndata: {\"offset\":0,\"text\":\"x\"}\n\n", ": still here\n\n", "\xef\xbb\xbfdata\r\r\n\n", "data: \xff\x00\r\nid: \x00\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := readSSE(bytes.NewReader(in))
		pieces, piecesErr := readSSE(iotest.OneByteReader(bytes.NewReader(in)))
		if !slices.Equal(whole, pieces) || err.Error() != piecesErr.Error() {
			t.Errorf("at once: %q, %v; byte by byte: %q, %v", whole, err, pieces, piecesErr)
		}
		for _, e := range whole { // whatever the data, it is decoded or refused
			_, data, _ := strings.Cut(e, "|")
			name, data, _ := strings.Cut(data, "|")
			for _, kind := range []EventType{EventType(name), EventStatus, EventStdout, EventArtifact, EventDisplay, EventGap, EventResult} {
				_ = (&Event{Type: kind}).unmarshalData([]byte(data))
			}
		}
		for _, e := range []Event{{Type: EventStdout, Data: in, Offset: int64(len(in))}, {Type: EventArtifact, Artifact: job.Artifact{Name: string(in)}}} {
			data, err := e.MarshalData()
			if err != nil {
				t.Fatal(err)
			}
			events, err := readSSE(strings.NewReader(fmt.Sprintf("id: 1\nevent: %s\ndata: %s\n\n", e.Type, data)))
			if !errors.Is(err, io.EOF) || len(events) != 1 || events[0] != fmt.Sprintf("1|%s|%s", e.Type, data) {
				t.Fatalf("got %q, %v, want one event with %s", events, err, data)
			}
			got := Event{Type: e.Type}
			if err := got.unmarshalData(data); err != nil || !bytes.Equal(got.Data, e.Data) || got.Offset != e.Offset {
				t.Errorf("got %+v, %v, want %+v", got, err, e)
			}
		}
	})
}
