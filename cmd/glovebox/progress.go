package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// sayEvery is how often progress is a line where nobody looks.
const sayEvery = 5 * time.Second

// progress shows how many of some jobs are done: as a bar on a terminal, and now and then
// as a line elsewhere. Safe for concurrent use.
type progress struct {
	label string
	to    io.Writer

	mu      sync.Mutex
	done    int
	total   int // 0: not known
	text    string
	said    string
	sayNext time.Time

	bars *mpb.Progress // nil where there is no terminal
	bar  *mpb.Bar
}

func (a *app) progress(label string, total int) *progress {
	p := &progress{label: label, to: a.stderr, total: total, sayNext: time.Now().Add(sayEvery)}
	if isTerminal(a.stderr) {
		p.bars = mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
		p.bar = p.bars.AddBar(
			int64(total), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name("  "+label+" "), decor.CountersNoUnit("%d / %d ")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { p.mu.Lock(); defer p.mu.Unlock(); return p.text })),
		)
	}
	return p
}

// set says how many are done.
func (p *progress) set(done int) {
	p.mu.Lock()
	p.done = done
	p.mu.Unlock()
	p.show()
}

// note says something beside the figures.
func (p *progress) note(text string) {
	p.mu.Lock()
	p.text = text
	p.mu.Unlock()
	p.show()
}

func (p *progress) show() {
	if p.bar != nil {
		p.bar.SetCurrent(int64(p.done))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.sayNext) {
		return
	}
	p.sayNext = time.Now().Add(sayEvery)
	line := fmt.Sprintf("%s: %d", p.label, p.done)
	if p.total > 0 {
		line += fmt.Sprintf(" of %d", p.total)
	}
	if p.text != "" {
		line += " (" + p.text + ")"
	}
	if line != p.said {
		fmt.Fprintln(p.to, line)
		p.said = line
	}
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}
