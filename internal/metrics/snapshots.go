package metrics

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"
)

// SnapshotsPath is where a worker tells of its snapshots, beside its metrics: why there is none is no figure.
const SnapshotsPath = "/snapshots"

// Snapshots are what a worker's sandboxes go on from.
type Snapshots struct {
	// Off is why this worker makes none; "" if it does.
	Off string `json:"off,omitempty"`
	// Runtimes are those that have a snapshot point, and their image on the worker's host.
	Runtimes []Snapshot `json:"runtimes"`
}

// Snapshot is that of one runtime.
type Snapshot struct {
	Runtime string `json:"runtime"`
	// Bytes is what it takes of the worker's memory; 0: there is none.
	Bytes int64 `json:"bytes"`
	// Made is when it was made.
	Made time.Time `json:"made,omitzero"`
	// Off is what the runtime does without, as there is no room for it; "" if there is.
	Off string `json:"off,omitempty"`
	// Failure is why there is none; "" if none was tried yet.
	Failure string `json:"failure,omitempty"`
}

// SnapshotPage answers GET [SnapshotsPath]: with 503 until it is told whom to ask.
type SnapshotPage struct {
	of atomic.Pointer[func() Snapshots]
}

// Tell has the page ask of for what is there now.
func (p *SnapshotPage) Tell(of func() Snapshots) { p.of.Store(&of) }

func (p *SnapshotPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	of := p.of.Load()
	if of == nil {
		http.Error(w, "the worker is starting", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode((*of)()) // who has gone needs no answer
}
