package record

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// inputPatience is how long what a job was sent is kept, should the job never end.
	inputPatience = 24 * time.Hour
	// inputReserve is what inputs without data may take beyond job.MaxInputTotal: a program that is sent no more data can still be
	// told so, or interrupted.
	inputReserve = 4 << 10
	// inputsAtOnce is how many inputs are read at once; all of a job are job.MaxInputTotal at most.
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
		"id": id, "bytes": len(data), "eof": in.EOF, "input": text,
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

// SentInput is an input, and the try at the job that it was sent to.
type SentInput struct {
	job.Input

	Epoch int
}

// Inputs returns what the job was sent behind the first n inputs, oldest first, some of it if it is much; and how many inputs there
// are in all, fewer than n where Redis has lost some.
func (s *Store) Inputs(ctx context.Context, id string, n int) (list []SentInput, all int, err error) {
	tenant, ok := job.TenantOf(id)
	if !ok {
		return nil, 0, job.ErrNotFound
	}
	pipe := s.rdb.Pipeline()
	length := pipe.LLen(ctx, inputKey(tenant, id))
	texts := pipe.LRange(ctx, inputKey(tenant, id), int64(n), int64(n+inputsAtOnce-1))
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, 0, fmt.Errorf("read inputs: %w", err)
	}
	list = make([]SentInput, len(texts.Val()))
	for i, text := range texts.Val() {
		epoch, input, _ := strings.Cut(text, " ")
		list[i].Epoch, err = strconv.Atoi(epoch)
		if err == nil {
			err = json.Unmarshal([]byte(input), &list[i].Input)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read input %d of job %s: %w: %w", n+i, id, ErrUnreadable, err)
		}
	}
	return list, int(length.Val()), nil
}
