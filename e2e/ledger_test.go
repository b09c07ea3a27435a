package e2e

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/glovebox-run/glovebox/job"
)

// ledger keeps what producers and receivers were told, to be held against what is true
// in the end. Safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	accepted map[string]bool // job id → whether somebody was told that it is cancelled
	first    map[string]string
	ids      map[string]string // job id → message id
	lost     map[string]int    // job id → how often its worker was killed
	changed  int
	doubled  int
	problems []string
}

func newLedger() *ledger {
	return &ledger{accepted: map[string]bool{}, first: map[string]string{}, ids: map[string]string{}, lost: map[string]int{}}
}

func (l *ledger) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

func (l *ledger) accept(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted[id] = false
}

func (l *ledger) cancel(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted[id] = true
}

// lose notes that the worker that ran the job was killed.
func (l *ledger) lose(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost[id]++
}

// saw compares a result with the first one that anybody saw of this job.
func (l *ledger) saw(where string, r job.Result) {
	r.StdoutURL, r.StderrURL = mark(r.StdoutURL), mark(r.StderrURL) // each reader gets links of their own
	artifacts := make([]job.Artifact, len(r.Artifacts))
	for i, a := range r.Artifacts {
		a.URL = mark(a.URL)
		artifacts[i] = a
	}
	r.Artifacts = artifacts
	b, err := json.Marshal(r)
	if err != nil {
		l.problem("result of %s: %v", r.ID, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first, known := l.first[r.ID]
	switch {
	case !known:
		l.first[r.ID] = string(b)
	case first != string(b):
		l.changed++
		l.problems = append(l.problems, fmt.Sprintf("the result of %s changed: %s says\n%s\nbut the first was\n%s", r.ID, where, b, first))
	}
}

func mark(url string) string {
	if url == "" {
		return ""
	}
	return "…"
}

// received notes a message of the webhook.
func (l *ledger) received(m message) {
	l.saw("the webhook", m.Result)
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, known := l.ids[m.Result.ID]; known && id != m.ID {
		l.doubled++
		l.problems = append(l.problems, fmt.Sprintf("job %s was announced as %s and as %s", m.Result.ID, id, m.ID))
	}
	l.ids[m.Result.ID] = m.ID
}

// ended lists the jobs whose result somebody has seen.
func (l *ledger) ended() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]string, 0, len(l.first))
	for id := range l.first {
		ids = append(ids, id)
	}
	return ids
}
