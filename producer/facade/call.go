package facade

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

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
	// Anonymous is a request without a token, which GLOVEBOX_FACADE_TENANT let in.
	Anonymous bool
	// Host is the api; nil outside of a request.
	Host Host
}

// Host is what the api does for a façade.
type Host interface {
	// Body reads the request's body whole, within the bounds that bodies of jobs have. The memory that it
	// takes is held until done, which may be called more than once, and is called at the latest
	// when the request is answered.
	Body(ctx context.Context) (text []byte, done func(), err error)
	// Hold takes so many bytes of the memory for answers, until the request is answered.
	Hold(ctx context.Context, bytes int64) error
	// Wait returns the job when it has ended, or as it is when d has passed or the api drains.
	Wait(ctx context.Context, id string, d time.Duration) (producer.Job, error)
	// MaxWait is how long an answer may be held.
	MaxWait() time.Duration
	// May fails unless the token is good for that, too.
	May(scope job.Scope) error
	// Note tells the audit log which job or file the request is about.
	Note(object string)
	// Problem says what err means to the client, and sets the headers that belong to it, such as
	// Retry-After. What is a fault of Glovebox is logged.
	Problem(ctx context.Context, err error) *producer.Problem
}

// Output returns a whole stream of a result, producer.Stdout or producer.Stderr, as its bytes were,
// without the line that Glovebox adds to stderr when time is up.
func (c *Call) Output(ctx context.Context, r job.Result, stream string) ([]byte, error) {
	text, url := r.Stdout, r.StdoutURL
	if stream == producer.Stderr {
		text, url = r.Stderr, r.StderrURL
	}
	b := []byte(text)
	if url != "" {
		var err error
		if b, err = c.download(ctx, r.ID, stream); err != nil {
			return nil, err
		}
	}
	if stream == producer.Stderr && r.Status == job.TimedOut {
		b = bytes.TrimSuffix(b, []byte("Execution timed out\n"))
	}
	return b, nil
}

// CompileOutput is what the compile step printed, without the line that Glovebox adds when time is up.
func CompileOutput(r job.Result) string {
	if r.Compile == nil {
		return ""
	}
	return string(bytes.TrimSuffix([]byte(r.Compile.Output), []byte("Compilation timed out\n")))
}

// download reads a file of a job whole.
func (c *Call) download(ctx context.Context, id, path string) ([]byte, error) {
	file, err := c.Client.Open(ctx, id, path)
	if err != nil {
		return nil, fmt.Errorf("read %s of job %s: %w", path, id, err)
	}
	defer file.Close()
	if c.Host != nil {
		if err := c.Host.Hold(ctx, outputWeight*file.Size); err != nil {
			return nil, err
		}
	}
	b := make([]byte, file.Size)
	if _, err := io.ReadFull(file, b); err != nil {
		return nil, fmt.Errorf("read %s of job %s: %w", path, id, err)
	}
	return b, nil
}

// outputWeight is how many times its size an output takes: as it is, and encoded to be sent.
const outputWeight = 3
