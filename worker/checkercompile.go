package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// worthKeeping is how long a compile step has to take for what it made to be kept: to unpack that takes some 30 ms.
const worthKeeping = 200 * time.Millisecond

// compiledArchive is the file in which a sandbox gets what was compiled in another.
const compiledArchive = ".glovebox-compiled.tar"

// A program that is run on tests has what is in these two directories after its compile step.
var (
	packCommand   = []string{"/bin/bash", "-c", `cd / && shopt -s dotglob nullglob && exec tar -cf - -- work/* tmp/*`}
	unpackCommand = []string{"/bin/bash", "-c", `cd / && tar -xpf work/` + compiledArchive + ` && rm work/` + compiledArchive}
)

// run makes the checks that s gets, in a sandbox that has what the compile step made for an earlier job, if that is kept.
func (c *checkerProgram) run(ctx context.Context, s *checkerSandbox) (sandbox.Outcome, error) {
	program := c.program
	program.Tests = s
	if len(program.Compile) == 0 {
		return c.worker.Sandboxes.Run(ctx, program, s)
	}
	kept := &c.worker.compiled
	tar, wanted := kept.get(c.key)
	if wanted {
		var err error
		if tar, err = c.pack(ctx); err != nil {
			kept.forget(c.key)
			return sandbox.Outcome{}, fmt.Errorf("compile the checker: %w", err)
		}
		kept.put(c.key, tar)
	}
	c.worker.Metrics.CheckerCompiled(tar != nil && !wanted)
	if tar == nil || len(tar) > maxCompiled {
		return c.worker.Sandboxes.Run(ctx, program, s)
	}
	unpacked := program
	unpacked.Compile, unpacked.Files = unpackCommand, []sandbox.File{{Name: compiledArchive, Content: tar}}
	o, err := c.worker.Sandboxes.Run(ctx, unpacked, s)
	if err != nil || s.ready {
		return o, err
	}
	kept.put(c.key, nil) // its directory has no room for both, most likely
	return c.worker.Sandboxes.Run(ctx, program, s)
}

// pack compiles the checker in a sandbox that sees nothing of any test, and returns what that made; nil if there is no use in
// keeping it: the step fails, is quick, or makes too much.
func (c *checkerProgram) pack(ctx context.Context) ([]byte, error) {
	program := c.program
	program.Command, program.Interactive = packCommand, false
	program.Limits.OutputKB = maxCompiled >> 10
	p := &packer{}
	program.Tests = p
	o, err := c.worker.Sandboxes.Run(ctx, program, p)
	if err != nil {
		return nil, err
	}
	if p.end.Status != job.Succeeded || o.Compile == nil || o.Compile.WallMS < worthKeeping.Milliseconds() {
		return nil, nil //nolint:nilnil // there is nothing to keep
	}
	return p.tar.Bytes(), nil
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
	}{tenant, image, p.Isolation, p.Compile, p.Env, p.Limits, nil}
	for _, f := range p.Files {
		given.Files = append(given.Files, file{f.Name, sha256.Sum256(f.Content)})
	}
	b, err := json.Marshal(given)
	return sha256.Sum256(b), err
}
