package tools

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/producer"
)

const (
	// progressInterval is how often progress is told at most.
	progressInterval = 500 * time.Millisecond
	// maxProgress bounds a line of progress, in bytes.
	maxProgress = 200
)

// tell tells of a job's progress until it ends, or ctx: the last line that it printed, once that may be told. No error is
// reported: the result has all.
func (c Caller) tell(ctx context.Context, id string) {
	defer c.recovered()
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer c.recovered()
		for e, err := range c.Glovebox.Watch(ctx, id, "") {
			if err != nil {
				return
			}
			line := lastLine(string(e.Data))
			if e.Type != producer.EventStdout || line == "" {
				continue
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	var pending string
	var last time.Time
	var due <-chan time.Time // nil: nothing is pending
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			if pending = line; due == nil {
				due = time.After(progressInterval - time.Since(last))
			}
		case <-due:
			c.Progress(pending)
			last, due = time.Now(), nil
		}
	}
}

// recovered reports a panic: the call that made progress goes on.
func (c Caller) recovered() {
	if v := recover(); v != nil {
		c.report(fmt.Errorf("progress of a tool: panic: %v\n%s", v, debug.Stack()))
	}
}

// lastLine is the last line of a text that holds more than blanks.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	line := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	return strings.ToValidUTF8(line[:min(len(line), maxProgress)], "")
}
