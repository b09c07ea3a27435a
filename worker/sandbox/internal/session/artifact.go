package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// artifact passes one file on, while it arrives.
func (s *Session) artifact(ctx context.Context, a agentwire.ArtifactBegin) error {
	r := &artifactReader{ctx: ctx, session: s}
	if err := s.task.Sink.Artifact(ctx, a.Name, a.Size, r); err != nil {
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			err = r.err // the sink failed because the sandbox did
		}
		return fmt.Errorf("pass artifact %q on: %w", a.Name, err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("read artifact %q: %w", a.Name, err)
	}
	return nil
}

// artifactReader reads one artifact's bytes, and grants their credit again as they are read.
type artifactReader struct {
	ctx     context.Context //nolint:containedctx // an io.Reader has no other way to be cancelled
	session *Session
	frame   agentwire.Frame
	left    []byte
	err     error
}

func (r *artifactReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.err = r.next(); r.err != nil {
			return 0, r.err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	if len(r.left) == 0 {
		r.session.returnCredit(r.frame)
	}
	return n, nil
}

func (r *artifactReader) next() error {
	e, err := r.session.next(r.ctx)
	if err != nil {
		return fmt.Errorf("wait for an artifact's bytes: %w", err)
	}
	switch e.Type {
	case agentwire.TypeArtifactData:
		r.frame, r.left = e.Frame, e.Payload
		return nil
	case agentwire.TypeArtifactEnd:
		return io.EOF
	}
	return r.session.unexpected(e)
}
