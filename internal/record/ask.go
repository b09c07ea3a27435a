package record

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// atOnce is how many keys or tenants one round trip asks about: few enough that Redis has
// time for others in between.
const atOnce = 500

// ask asks the same of each of these, in one round trip. It fails where Redis didn't
// answer. What it answered is in the commands, errors too.
func ask[C redis.Cmder](ctx context.Context, s *Store, of []string, question func(pipe redis.Pipeliner, one string) C) ([]C, error) {
	pipe := s.rdb.Pipeline()
	answers := make([]C, len(of))
	for i, one := range of {
		answers[i] = question(pipe, one)
	}
	return answers, unanswered(pipe.Exec(ctx))
}

// askScript runs a script for each of these tenants, in one round trip and one to load it.
func askScript(ctx context.Context, s *Store, run *script, tenants []string, of func(tenant string) args, rest ...any) ([]*redis.Cmd, error) {
	if err := run.load(ctx, s.rdb); err != nil {
		return nil, err
	}
	return ask(ctx, s, tenants, func(pipe redis.Pipeliner, tenant string) *redis.Cmd {
		return run.pipe(ctx, pipe, tenant, of(tenant), rest...)
	})
}

// unanswered is the first error of commands that is not Redis' own.
func unanswered(commands []redis.Cmder, _ error) error {
	for _, c := range commands {
		var answer redis.Error // also redis.Nil
		if err := c.Err(); err != nil && !errors.As(err, &answer) {
			return err
		}
	}
	return nil
}
