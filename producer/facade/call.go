package facade

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// Call is a request that was admitted. It is for one goroutine, until the request is answered.
type Call struct {
	// Client does what the tenant may have done. It takes memory for what it reads.
	Client *direct.Client
	// Tenant is whose request it is; "" on a Public route.
	Tenant string
	// Token is the ID of the token that it came with, as the audit log has it; "" on a Public route.
	Token string
	// Anonymous is a request without a token, which GLOVEBOX_FACADE_TENANT let in.
	Anonymous bool
	// Wait is how long a program may wait for a place, GLOVEBOX_FACADE_WAIT_SECONDS; 0 for as long as its façade says.
	Wait time.Duration
	// Host is the api; nil outside of a request.
	Host Host
}

// Host is what the api does for a façade.
type Host interface {
	// Body reads the request's body whole, within the bounds that bodies of jobs have. The memory that it
	// takes is held until done, which may be called more than once, and is called at the latest
	// when the request is answered.
	Body(ctx context.Context) (text []byte, done func(), err error)
	// Work takes so many bytes of the memory for bodies besides what the body itself takes, until done,
	// which may be called more than once, and is called at the latest when the request is answered.
	Work(ctx context.Context, bytes int64) (done func(), err error)
	// Hold takes so many bytes of the memory for answers, until the request is answered.
	Hold(ctx context.Context, bytes int64) error
	// Passing returns what gives back all that is held after this, by Hold or by the Client: for what is
	// one part of an answer of many, once that is sent.
	Passing() (giveBack func())
	// Wait returns the job when it has ended, or as it is when d has passed or the api drains.
	Wait(ctx context.Context, id string, d time.Duration) (producer.Job, error)
	// Watch tells what happens to a job as [producer.Watcher] does, with an event of no type each time that nothing was
	// told for so long as every. It is one of the tenant's watches, and fails like one: with a *job.Error of code
	// too_many_watchers, of code unavailable once the api drains, and as soon as the request's token is no longer good.
	Watch(ctx context.Context, id string, every time.Duration) iter.Seq2[producer.Event, error]
	// MaxWait is how long an answer may be held.
	MaxWait() time.Duration
	// May fails unless the token is good for that, too.
	May(scope job.Scope) error
	// SessionToken makes a token that is good until then for requests to this session only, and may there submit and read
	// as far as the request's own token may, while that is good.
	SessionToken(session string, until time.Time) (string, error)
	// Note tells the audit log which job or file the request is about.
	Note(object string)
	// Did tells the audit log what the request has done besides what its route says.
	Did(action, object string)
	// Problem says what err means to the client, and sets the headers that belong to it, such as
	// Retry-After. What is a fault of Glovebox is logged.
	Problem(ctx context.Context, err error) *producer.Problem
}

// TimeUp is the line that Glovebox adds to stderr when time is up. Other servers' clients are told so otherwise.
const TimeUp = "Execution timed out\n"

// Output returns a whole stream of a result, producer.Stdout or producer.Stderr, as its bytes were,
// without the line that Glovebox adds to stderr when time is up.
func (c *Call) Output(ctx context.Context, r job.Result, stream string) ([]byte, error) {
	return c.Head(ctx, r, stream, math.MaxInt64)
}

// Head is Output of a stream's first bytes, most of them at most.
func (c *Call) Head(ctx context.Context, r job.Result, stream string, most int64) ([]byte, error) {
	return c.read(ctx, r, stream, most, outputWeight, escapeWeight)
}

// HeadInBase64 is Head for callers that send it in base64, of which JSON escapes nothing.
func (c *Call) HeadInBase64(ctx context.Context, r job.Result, stream string, most int64) ([]byte, error) {
	return c.read(ctx, r, stream, most, outputWeight, 0)
}

// Bytes is Output for callers that write it with [Object.Text].
func (c *Call) Bytes(ctx context.Context, r job.Result, stream string) ([]byte, error) {
	return c.read(ctx, r, stream, math.MaxInt64, bytesWeight, 0)
}

// read reads a stream's first bytes. weight is how many times their size they take, and escaped what is escaped of them.
func (c *Call) read(ctx context.Context, r job.Result, stream string, most, weight, escaped int64) ([]byte, error) {
	f, size, err := c.Stream(ctx, r, stream)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := c.HoldFor(ctx, r, stream, weight*min(size, most)); err != nil {
		return nil, err
	}
	b := make([]byte, min(size, most))
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("read %s of job %s: %w", stream, r.ID, err)
	}
	if escaped > 0 {
		if err := c.HoldFor(ctx, r, stream, escaped*escapes(b)); err != nil {
			return nil, err
		}
	}
	if size > most {
		return job.WholeCharacters(b), nil
	}
	if stream == producer.Stderr && r.Status == job.TimedOut {
		b = bytes.TrimSuffix(b, []byte(TimeUp))
	}
	return b, nil
}

// HoldFor takes so many bytes of the memory for answers for what is made of a stream, if the bucket has that: what the result has itself is held with it.
func (c *Call) HoldFor(ctx context.Context, r job.Result, stream string, bytes int64) error {
	if storedAt(r, stream) == "" || c.Host == nil {
		return nil
	}
	return c.Host.Hold(ctx, bytes)
}

// escapes is how many bytes an output is longer in JSON than it is: a control character is six there, and so many at most is what a
// façade may write for a byte that is not UTF-8.
func escapes(b []byte) int64 {
	n, text := 0, utf8.Valid(b)
	for _, c := range b {
		switch {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ', !text && c > '~':
			n += 5
		}
	}
	return int64(n)
}

// Stream opens a stream of a result, and says how long it is. The caller closes it. However slowly it reads, what is not its
// doing is bounded: each read takes streamTime at most.
func (c *Call) Stream(ctx context.Context, r job.Result, stream string) (f io.ReadCloser, size int64, err error) {
	if storedAt(r, stream) == "" {
		text := r.Stdout
		if stream == producer.Stderr {
			text = r.Stderr
		}
		return io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
	}
	f, err = timed(ctx, func(ctx context.Context) (io.ReadCloser, error) {
		file, err := c.Client.Open(ctx, r.ID, stream)
		if err == nil {
			size = file.Size
		}
		return file, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read %s of job %s: %w", stream, r.ID, err)
	}
	return f, size, nil
}

// timedStream is a stream whose reads take streamTime at most each.
type timedStream struct {
	io.ReadCloser

	cancel context.CancelFunc
	timer  *time.Timer // cancels while a read takes too long
}

// timed opens a stream, which may take as long as a read.
func timed(ctx context.Context, open func(context.Context) (io.ReadCloser, error)) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(streamTime, cancel)
	defer timer.Stop()
	f, err := open(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return timedStream{f, cancel, timer}, nil
}

func (t timedStream) Read(b []byte) (int, error) {
	t.timer.Reset(streamTime)
	defer t.timer.Stop()
	return t.ReadCloser.Read(b)
}

func (t timedStream) Close() error {
	defer t.cancel()
	return t.ReadCloser.Close()
}

// storedAt is the URL of a stream that the result has only the beginning of, or "".
func storedAt(r job.Result, stream string) string {
	if stream == producer.Stderr {
		return r.StderrURL
	}
	return r.StdoutURL
}

// CompileOutput is what the compile step printed, without the line that Glovebox adds when time is up.
func CompileOutput(r job.Result) string {
	if r.Compile == nil {
		return ""
	}
	return string(bytes.TrimSuffix([]byte(r.Compile.Output), []byte("Compilation timed out\n")))
}

// outputWeight is how many times its size an output takes: as it is, and encoded to be sent.
const outputWeight = 3

// bytesWeight is the same for what is written piece by piece: as it is, and once more where something is added to it.
const bytesWeight = 2

// escapeWeight is how many times what is escaped in an output is there: in the text of a façade that escapes it itself, in an encoder's
// buffer, and once more while that grows.
const escapeWeight = 3

// streamTime is how long a read of a stream may take: what a bucket that hangs would hold, others wait for.
const streamTime = time.Minute
