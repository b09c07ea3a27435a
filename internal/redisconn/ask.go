package redisconn

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// AtOnce is how many keys or tenants one round trip asks about: few enough that Redis has
// time for others in between.
const AtOnce = 500

// Ask asks the same of each of these, in one round trip. It fails where Redis didn't
// answer. What it answered is in the commands, errors too.
func Ask[C redis.Cmder](ctx context.Context, rdb redis.UniversalClient, of []string, question func(pipe redis.Pipeliner, one string) C) ([]C, error) {
	pipe := rdb.Pipeline()
	answers := make([]C, len(of))
	for i, one := range of {
		answers[i] = question(pipe, one)
	}
	return answers, Unanswered(pipe.Exec(ctx))
}

// Unanswered is the first error of commands that is not Redis' own.
func Unanswered(commands []redis.Cmder, _ error) error {
	for _, c := range commands {
		var answer redis.Error // also redis.Nil
		if err := c.Err(); err != nil && !errors.As(err, &answer) {
			return err
		}
	}
	return nil
}
