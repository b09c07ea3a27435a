package record

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// inputPatience is how long what a job was sent is kept, should the job never end.
	inputPatience = 24 * time.Hour
	// inputsAtOnce is how many inputs are read at once: 4 MiB of data at most.
	inputsAtOnce = 64
)

// SendInput appends what the program of a job that runs is sent, and wakes its worker. It fails with job.ErrNotFound, job.ErrEnded,
// job.ErrNotRunning, job.ErrNotInteractive, job.ErrInputClosed or job.ErrInputFull.
func (s *Store) SendInput(ctx context.Context, id string, in job.Input) error {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return job.ErrNotFound
	}
	data, err := in.Bytes()
	if err != nil {
		return fmt.Errorf("send input: %w", err)
	}
	text, err := job.Marshal(in)
	if err != nil {
		return fmt.Errorf("send input: %w", err)
	}
	answer, err := sendInputScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": id, "size": len(data), "eof": in.EOF, "data": len(data) > 0 || in.EOF, "input": text,
	}).Text()
	if err != nil {
		return fmt.Errorf("send input: %w", err)
	}
	switch answer {
	case "ok":
		return nil
	case "missing":
		return job.ErrNotFound
	case "ended":
		return job.ErrEnded
	case "none":
		return job.ErrNotInteractive
	case "waits":
		return job.ErrNotRunning
	case "closed":
		return job.ErrInputClosed
	case "full":
		return job.ErrInputFull
	}
	return fmt.Errorf("send input: the script answered %q", answer)
}

// Inputs returns what the job was sent behind the first n inputs, oldest first, some of it if it is much.
func (s *Store) Inputs(ctx context.Context, id string, n int) ([]job.Input, error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return nil, job.ErrNotFound
	}
	texts, err := s.rdb.LRange(ctx, inputKey(tenant, id), int64(n), int64(n+inputsAtOnce-1)).Result()
	if err != nil {
		return nil, fmt.Errorf("read inputs: %w", err)
	}
	list := make([]job.Input, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &list[i]); err != nil {
			return nil, fmt.Errorf("read input %d of job %s: %w: %w", n+i, id, ErrUnreadable, err)
		}
	}
	return list, nil
}
