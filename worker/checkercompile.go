package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

const (
	// worthKeeping is how long a compile step has to take for what it made to be kept: to unpack that takes some 30 ms.
	worthKeeping = 200 * time.Millisecond
	// packTime is the least that tar has, however little the checker has for a check: 0.4 s were measured on a busy machine.
	packTime = 10 * time.Second
)

// compiledArchive is the file in which a sandbox gets what was compiled in another.
const compiledArchive = ".glovebox-compiled.tar"

// A program that is run on tests has what is in these two directories after its compile step. When a file was changed is kept to the
// nanosecond: a program that looks older than its source would be made anew by some that run it.
var (
	packCommand   = []string{"/bin/bash", "-c", `cd / && shopt -s dotglob nullglob && exec tar --format=posix -T /dev/null -cf - -- work/* tmp/*`}
	unpackCommand = []string{"/bin/bash", "-c", `cd / && exec 3<work/` + compiledArchive + ` && rm work/` + compiledArchive + ` && exec tar -xpf - <&3`}
)

// run makes the checks that s gets, in a sandbox that has what the compile step made for an earlier job, if that is kept. A panic counts as
// an error of the job: otherwise it would end the worker, and the next one that has the job.
func (c *checkerProgram) run(ctx context.Context, s *checkerSandbox) (_ sandbox.Outcome, err error) {
	defer caught("run checker: ", &err)
	program := c.program
	program.Tests = s
	if len(program.Compile) == 0 {
		return c.worker.runProgram(ctx, c.started, program, s)
	}
	tar, wanted := c.worker.compiled.get(c.key, !c.packed)
	if wanted {
		c.packed = true
		tar = c.pack(ctx)
	}
	if tar != nil {
		unpacked := program
		unpacked.Compile, unpacked.Files = unpackCommand, []sandbox.File{{Name: compiledArchive, Content: tar}}
		o, err := c.worker.runProgram(ctx, c.started, unpacked, s)
		if s.asked {
			c.worker.Metrics.CheckerCompiled(!wanted)
		}
		if err != nil || s.asked {
			return o, err
		}
		if !o.Silent { // else the host's doing
			c.worker.compiled.unusable(c.key, tar)
		}
		c.worker.Log.Warn("what a checker's compile step made can't be unpacked: it is compiled", "job_id", program.JobID, "epoch", program.Epoch, "status", o.Status)
	}
	c.worker.Metrics.CheckerCompiled(false)
	o, err := c.worker.runProgram(ctx, c.started, program, s)
	if err == nil && o.Silent && o.Status == job.CompileFailed { // the submission is tried again: it has no part in that
		err = errors.New("nothing was heard of the checker's compile step")
	}
	return o, err
}

// pack compiles the checker in a sandbox that sees nothing of any test, and keeps what that made. It returns nil if there is nothing to
// keep, or no use in it: the step is quick, or makes too much.
func (c *checkerProgram) pack(ctx context.Context) []byte {
	program, kept := c.program, &c.worker.compiled
	program.Command, program.Interactive = packCommand, false
	l := &program.Limits
	l.OutputKB = maxCompiled >> 10
	l.WallMS, l.CPUMS = max(l.WallMS, packTime.Milliseconds()), max(l.CPUMS, packTime.Milliseconds())
	p := &packer{}
	program.Tests = p
	o, err := c.worker.Sandboxes.Run(ctx, program, p)
	switch {
	case ctx.Err() != nil, errors.Is(err, sandbox.ErrUnavailable), err == nil && (o.Silent || o.ImageDigest != c.image): // it was built anew meanwhile
		kept.failed(c.key, false)
	case err == nil && p.end.Status == job.OutputLimitExceeded:
		kept.giveUp(c.key)
	case err != nil || p.end.Status != job.Succeeded || p.tar.Len() == 0 || o.Compile == nil: // the checker's own sandbox will say what is wrong
		kept.failed(c.key, true)
		c.slow = err == nil && overdueCompile(o)
		c.worker.Log.Warn("what a checker's compile step makes can't be kept", "job_id", program.JobID, "epoch", program.Epoch, "status", o.Status, "tar", p.end.Status, "error", err)
	case o.Compile.WallMS < worthKeeping.Milliseconds():
		kept.giveUp(c.key)
	default:
		tar := bytes.Clone(p.tar.Bytes()) // without the room that the buffer has
		kept.put(c.key, tar)
		return tar
	}
	return nil
}

// packer runs one test, which prints the archive.
type packer struct {
	begun bool
	tar   bytes.Buffer
	end   sandbox.TestOutcome
}

// Next is [sandbox.Tests.Next].
func (p *packer) Next(context.Context) (t sandbox.Test, ok bool, err error) {
	ok, p.begun = !p.begun, true
	t.Stdin.Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(nil)), nil }
	return t, ok, nil
}

// Ended is [sandbox.Tests.Ended].
func (p *packer) Ended(_ context.Context, o sandbox.TestOutcome) error {
	p.end = o
	return nil
}

// Stdout keeps the archive, whose length the sandbox bounds.
func (p *packer) Stdout(b []byte) error {
	p.tar.Write(b)
	return nil
}

// Stderr is of no use to anybody: what the compiler says comes in the outcome.
func (p *packer) Stderr([]byte) error { return nil }

// Artifact is never called: programs with tests have none.
func (p *packer) Artifact(context.Context, string, int64, io.Reader) error {
	return errors.New("a compile step has no artifacts")
}

// compiledKeyOf is the same for programs of one tenant whose compile steps are given the same. image is the digest of its image.
func compiledKeyOf(tenant, image string, p sandbox.Program) (compiledKey, error) {
	type file struct {
		Name   string
		SHA256 [sha256.Size]byte
	}
	given := struct {
		Tenant, Image string
		Isolation     job.Isolation
		Compile       []string
		Env           map[string]string
		Limits        job.Limits
		Files         []file
	}{tenant, image, p.Isolation, p.Compile, p.Env, p.Limits.Compile(), nil}
	given.Limits.OutputKB = 0 // a compiler's output has a bound of its own
	for _, f := range p.Files {
		given.Files = append(given.Files, file{f.Name, sha256.Sum256(f.Content)})
	}
	b, err := json.Marshal(given)
	return sha256.Sum256(b), err
}
