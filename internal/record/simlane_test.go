package record

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// lane is one thing at a time that a process does.
type lane struct {
	p    *process
	ops  []op
	busy bool
	at   string       // the command that it waits with
	want chan string  // it has a command to run
	turn chan verdict // what becomes of it
	done chan struct{}
}

// op is something that a process does, in any number of commands.
type op struct {
	name   string
	weight int
	do     func(ctx context.Context, l *lane)
}

// verdict is what becomes of a command.
type verdict int

const (
	runs       verdict = iota
	answerLost         // Redis runs it, and the process hears of an error
	neverSent          // the process hears of an error
	diesBefore
	diesAfter
)

type laneKey struct{}

// begin starts one of the lane's operations, which waits with its first command.
func (l *lane) begin() {
	total := 0
	for _, o := range l.ops {
		total += o.weight
	}
	n := l.p.w.rng.IntN(total)
	for _, o := range l.ops {
		if n -= o.weight; n < 0 {
			l.start(o)
			return
		}
	}
}

func (l *lane) start(o op) {
	l.want, l.turn, l.done = make(chan string), make(chan verdict), make(chan struct{})
	l.busy = true
	l.p.w.note("%s begins %s", l.p.name, o.name)
	go func() {
		defer close(l.done)
		o.do(context.WithValue(context.Background(), laneKey{}, l), l)
	}()
	l.wait()
}

// resume says what becomes of the command that the lane waits with, and waits for its next.
func (l *lane) resume(v verdict) {
	l.turn <- v
	l.wait()
}

// wait returns once the lane has another command, or no more.
func (l *lane) wait() {
	select {
	case l.at = <-l.want:
	case <-l.done:
		l.busy = false
	}
}

// ask is where a lane waits for its turn.
func (l *lane) ask(what string) verdict {
	if l.p.w.free || l.p.dead {
		return runs
	}
	l.want <- what
	return <-l.turn
}

// pause is a step in which the lane sends nothing. It is false where its process dies in it.
func (l *lane) pause(what string) bool {
	if v := l.ask(what); v == diesBefore || v == diesAfter {
		l.p.dead = true
	}
	return !l.p.dead
}

// simHook is where each command of a process waits for its turn.
type simHook struct{ p *process }

// errSim is what a process hears instead of an answer. It is of Redis, not of the network:
// after those a Store makes a pause.
type errSim string

func (e errSim) Error() string { return string(e) }
func (errSim) RedisError()     {}

var errDead = errSim("SIM the process is dead")

func (simHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h simHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := h.command(ctx, describe(cmd), func() error { return next(ctx, cmd) })
		var sim errSim
		if errors.As(err, &sim) {
			cmd.SetErr(err)
		}
		return err
	}
}

func (h simHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := h.command(ctx, describe(cmds...), func() error { return next(ctx, cmds) })
		var sim errSim
		if errors.As(err, &sim) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func (h simHook) command(ctx context.Context, what string, send func() error) error {
	v := runs
	// What a new connection says of itself is no command of the lane's.
	if l, ok := ctx.Value(laneKey{}).(*lane); ok && !strings.HasPrefix(what, "client") && !strings.HasPrefix(what, "hello") {
		v = l.ask(what)
	}
	if h.p.dead || v == diesBefore {
		h.p.dead = true
		return errDead
	}
	if v == neverSent {
		return errSim("SIM the command was not sent")
	}
	if strings.Contains(what, "purge") {
		h.p.w.look() //nolint:contextcheck // what is purged can't be looked at after; no step of the lane's
	}
	err := send()
	switch v {
	case answerLost:
		return errSim("SIM the answer got lost")
	case diesAfter:
		h.p.dead = true
		return errDead
	case runs, neverSent, diesBefore:
	}
	return err
}

// describe names commands in the trace; scripts by what they are.
func describe(cmds ...redis.Cmder) string {
	var words []string
	for _, cmd := range cmds {
		args := cmd.Args()
		word := fmt.Sprint(args[0])
		if len(args) > 1 && strings.HasPrefix(strings.ToLower(word), "eval") {
			if name, ok := scriptNames[fmt.Sprint(args[1])]; ok {
				word = name
			}
		}
		words = append(words, word)
	}
	if len(words) > 4 {
		return fmt.Sprintf("%s … (%d)", strings.Join(words[:3], "+"), len(words))
	}
	return strings.Join(words, "+")
}

// scriptNames are the scripts by their hash.
var scriptNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range scripts.Names("*") {
		names[scripts.Load(name).Hash()] = strings.ReplaceAll(name, "_", " ")
	}
	return names
}()
