package jobstream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/internal/jobstream"
)

const most = 1000

// read splits a batch, and returns its head, its jobs and the error it ended with.
func read(open func(io.Reader, int64) (*jobstream.Reader, error), from io.Reader) (head string, jobs []string, err error) {
	r, err := open(from, most)
	if err != nil {
		return "", nil, err
	}
	for {
		item, err := r.Next()
		if err != nil {
			if _, again := r.Next(); !errors.Is(again, err) {
				return "", nil, fmt.Errorf("the error changed from %w to %w", err, again)
			}
			return string(r.Head), jobs, err
		}
		if item.Index != len(jobs) {
			return "", nil, fmt.Errorf("job %d has index %d", len(jobs), item.Index)
		}
		jobs = append(jobs, string(item.JSON))
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	long := `{"source":"` + strings.Repeat("a", most-13) + `"}` // as long as may be
	for _, c := range []struct {
		name, lines, object string // "" for a form in which the case can't be
		head                string
		jobs                []string
		fault               string // in the error, "" for a complete batch
	}{
		{name: "two", lines: "{\"a\":1}\n{\"b\":2}\n", object: `{"jobs":[{"a":1},{"b":2}]}`, jobs: []string{`{"a":1}`, `{"b":2}`}},
		{name: "no line's end", lines: "{\"a\":1}\n{\"b\":2}", jobs: []string{`{"a":1}`, `{"b":2}`}},
		{name: "space", lines: "\n \r\n {\"a\":1} \r\n\n", object: " { \"jobs\" : [ {\"a\":1} \n ] } \n", jobs: []string{`{"a":1}`}},
		{name: "none", lines: "\n", object: `{"jobs":[]}`},
		{name: "nothing", lines: ""},
		{name: "head", lines: "\n{\"batch\":{\"metadata\":{\"k\":\"v\"}}}\n{\"a\":1}\n", object: `{"metadata":{"k":"v"},"jobs":[{"a":1}]}`, head: `{"metadata":{"k":"v"}}`, jobs: []string{`{"a":1}`}},
		{name: "head alone", lines: `{"batch":{}}`, head: `{}`},
		{name: "fields twice are the reader's to see", object: `{"a":1,"a":2,"jobs":[]}`, head: `{"a":1,"a":2}`},
		{name: "a head later on is a job", lines: "{}\n{\"batch\":{}}\n", jobs: []string{`{}`, `{"batch":{}}`}},
		{name: "other values are the reader's to refuse", lines: "1\nnull\n", object: `{"jobs":[1,null]}`, jobs: []string{"1", "null"}},
		{name: "as long as may be", lines: long + "\n" + long, object: `{"jobs":[` + long + `,` + long + `]}`, jobs: []string{long, long}},
		{name: "too long", lines: "{}\n" + long[:5] + "a" + long[5:], object: `{"jobs":[{},` + long[:5] + "a" + long[5:] + `]}`, jobs: []string{"{}"}, fault: "jobs[1]"},
		{name: "far too long", lines: "{}\n\"" + strings.Repeat("a", 1<<20), object: `{"jobs":[{},"` + strings.Repeat("a", 1<<20), jobs: []string{"{}"}, fault: "jobs[1]"},
		{name: "broken", lines: "{}\n{\"a\":\n{}\n", object: `{"jobs":[{},{"a":]]}`, jobs: []string{"{}"}, fault: "jobs[1]"},
		{name: "cut off", lines: "{}\n{\"a\":1", object: `{"jobs":[{},{"a":1`, jobs: []string{"{}"}, fault: "jobs[1]"},
		{name: "the list cut off", object: `{"jobs":[{},`, jobs: []string{"{}"}, fault: "jobs[1]"},
		{name: "the object cut off", object: `{"jobs":[{}]`, jobs: []string{"{}"}, fault: "body ends too early"},
		{name: "no comma", object: `{"jobs":[{} {}]}`, jobs: []string{"{}"}, fault: "jobs[1]"},
		{name: "two in a line", lines: "{} {}\n", fault: "jobs[0] (line 1)"},
		{name: "another field behind", object: `{"jobs":[],"metadata":{}}`, fault: "goes on behind jobs"},
		{name: "something behind", object: `{"jobs":[]}{}`, fault: "goes on behind its end"},
		{name: "no jobs", object: `{"metadata":{}}`, fault: "has no jobs"},
		{name: "a list", object: `[{}]`, fault: "is not an object"},
		{name: "jobs that are no list", object: `{"jobs":{}}`, fault: "is not an array"},
		{name: "no JSON", lines: "jobs", object: "jobs", fault: "is not JSON"},
		{name: "a head beside others", lines: `{"batch":{},"runtime":"python"}`, fault: "other fields beside batch"},
		{name: "a huge head", object: `{"metadata":"` + strings.Repeat("a", 1<<20) + `","jobs":[]}`, fault: "too large"},
	} {
		for form, open := range map[string]func(io.Reader, int64) (*jobstream.Reader, error){"lines": jobstream.Lines, "object": jobstream.Object} {
			text := map[string]string{"lines": c.lines, "object": c.object}[form]
			if text == "" && c.name != "nothing" || form == "object" && c.name == "nothing" {
				continue
			}
			t.Run(c.name+" "+form, func(t *testing.T) {
				t.Parallel()
				for slowly, from := range map[string]io.Reader{"": strings.NewReader(text), " byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
					head, jobs, err := read(open, from)
					var syntax *jobstream.SyntaxError
					switch {
					case c.fault == "" && !errors.Is(err, io.EOF):
						t.Errorf("got %v%s, want a complete batch", err, slowly)
					case c.fault != "" && (!errors.As(err, &syntax) || !strings.Contains(err.Error(), c.fault) || syntax.Allowed == ""):
						t.Errorf("got %v%s, want a SyntaxError that says %q and what is allowed", err, slowly, c.fault)
					case c.fault != "" && strings.Contains(c.name, "too long") != syntax.TooLarge && !strings.Contains(c.name, "huge"):
						t.Errorf("got %+v%s", syntax, slowly)
					}
					if diff := cmp.Diff(c.jobs, jobs); diff != "" {
						t.Errorf("jobs%s: %s", slowly, diff)
					}
					if c.fault == "" && form == "lines" && head != c.head || c.head != "" && head != c.head {
						t.Errorf("got head %s%s, want %s", head, slowly, c.head)
					}
				}
			})
		}
	}
}

// A connection that breaks is no end, wherever it does.
func TestBroken(t *testing.T) {
	t.Parallel()
	broke := errors.New("connection broke")
	for form, c := range map[string]struct {
		open func(io.Reader, int64) (*jobstream.Reader, error)
		text string
	}{
		"lines":  {jobstream.Lines, "{\"batch\":{}}\n{\"a\":1}\n{\"b\":2}\n"},
		"object": {jobstream.Object, `{"metadata":{},"jobs":[{"a":1},{"b":2}]}`},
	} {
		for i := range c.text {
			if _, _, err := read(c.open, io.MultiReader(strings.NewReader(c.text[:i]), iotest.ErrReader(broke))); !errors.Is(err, broke) {
				t.Errorf("%s of %d bytes: got %v, want that the connection broke", form, i, err)
			}
		}
	}
}

// What is read is never more than a job, a head and some: whatever is sent.
func TestReadsNoMoreThanAJob(t *testing.T) {
	t.Parallel()
	for form, open := range map[string]func(io.Reader, int64) (*jobstream.Reader, error){"lines": jobstream.Lines, "object": jobstream.Object} {
		begin := map[string]string{"lines": `{"a":"`, "object": `{"jobs":[{"a":"`}[form]
		endless := &counter{r: io.MultiReader(strings.NewReader(begin), endlessly('a'))}
		if _, _, err := read(open, endless); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v, want an error", form, err)
		}
		if endless.n > 1<<20 {
			t.Errorf("%s: %d bytes were read of a job of at most %d", form, endless.n, most)
		}
	}
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

type endlessly byte

func (e endlessly) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// FuzzRead: whatever comes, jobs are JSON, bounded, and those that encoding/json finds in a
// batch that is complete.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"{\"a\":1}\n{\"b\":2}\n", "{\"batch\":{\"metadata\":{}}}\n{}\n", "\n\n", `{"jobs":[{},1,[2]],"x":3}`, `{"metadata":{},"jobs":[{"a":"\u0000"}]}`,
		`{"jobs":[{}]} x`, "{}\xff\n", `{"jobs":[`, "[[[[", `{"batch":1}`, `{"\ud800":1,"jobs":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		head, jobs, err := read(jobstream.Object, bytes.NewReader(b))
		if errors.Is(err, io.EOF) {
			var want struct{ Jobs []json.RawMessage }
			dec := json.NewDecoder(bytes.NewReader(b))
			if err := dec.Decode(&want); err != nil {
				t.Fatalf("the object was taken though %v", err)
			}
			if !json.Valid([]byte(head)) {
				t.Errorf("got head %q", head)
			}
			checkJobs(t, jobs, nil)
		} else if err == nil {
			t.Fatal("it ended without io.EOF")
		}
		head, jobs, err = read(jobstream.Lines, bytes.NewReader(b))
		if err == nil {
			t.Fatal("it ended without io.EOF")
		}
		if errors.Is(err, io.EOF) {
			var want []string
			for line := range bytes.Lines(b) {
				if line = bytes.TrimSpace(line); len(line) > 0 {
					want = append(want, string(line))
				}
			}
			if head != "" {
				want = want[1:]
			}
			checkJobs(t, jobs, want)
		}
	})
}

func checkJobs(t *testing.T, jobs, want []string) {
	t.Helper()
	for _, j := range jobs {
		if !json.Valid([]byte(j)) || len(j) > most {
			t.Errorf("got job %q", j)
		}
	}
	if want != nil && !slices.Equal(jobs, want) {
		t.Errorf("got %q, want %q", jobs, want)
	}
}

// holding is a source that lets so many bytes of a job be held.
type holding struct {
	io.Reader
	most, asked int64
}

var errNoRoom = errors.New("no room")

func (h *holding) Hold(bytes int64) error {
	h.asked = max(h.asked, bytes)
	if bytes > h.most {
		return errNoRoom
	}
	return nil
}

// A source is asked before a job is held that no buffer holds, however it comes, and its
// refusal ends the batch.
func TestHold(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	small, large := `{"a":1}`, `{"source":"`+strings.Repeat("x", 1<<19)+`"}`
	for form, text := range map[string]string{"lines": small + "\n" + large + "\n" + small, "object": `{"jobs":[` + small + "," + large + "," + small + "]}"} {
		for _, c := range []struct {
			room int64
			want int
		}{{most, 3}, {100_000, 1}} {
			src := &holding{Reader: strings.NewReader(text), most: c.room}
			read := jobstream.Lines
			if form == "object" {
				read = jobstream.Object
			}
			r, err := read(src, most)
			if err != nil {
				t.Fatal(err)
			}
			jobs := 0
			for ; err == nil; jobs++ {
				_, err = r.Next()
			}
			if jobs--; jobs != c.want || errors.Is(err, errNoRoom) != (c.want < 3) {
				t.Errorf("%s with room for %d: got %d jobs, %v; want %d", form, c.room, jobs, err, c.want)
			}
			if c.want == 3 && (src.asked < 1<<19 || src.asked > 3<<19) {
				t.Errorf("%s: asked for %d bytes, want those of the large job", form, src.asked)
			}
		}
	}
}
