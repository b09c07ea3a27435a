package queue

import (
	"context"
	"fmt"
	"log/slog"
)

// asynqLog passes what asynq says to our log.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.say(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.say(slog.LevelDebug, args) }
func (l asynqLog) Warn(args ...any)  { l.say(slog.LevelWarn, args) }
func (l asynqLog) Error(args ...any) { l.say(slog.LevelError, args) }

// Fatal is only said: what to do about it is not asynq's to decide.
func (l asynqLog) Fatal(args ...any) { l.say(slog.LevelError, args) }

func (l asynqLog) say(level slog.Level, args []any) {
	l.log.Log(context.Background(), level, "asynq", "said", fmt.Sprint(args...))
}
