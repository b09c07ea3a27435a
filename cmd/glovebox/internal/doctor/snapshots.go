package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/internal/metrics"
)

// maxSnapshotPage bounds what is read of a worker's answer, bytes.
const maxSnapshotPage = 1 << 20

// snapshots asks this machine's worker, as they are in its memory, which it has made and tried out.
func (r *report) snapshots(ctx context.Context) {
	const name = "snapshots"
	said, err := askSnapshots(ctx, r.WorkerMetrics)
	if err != nil {
		r.ok(name, fmt.Sprintf("not looked at, no worker tells of them: %v; start one, GLOVEBOX_METRICS_ADDR says where it is", err))
		return
	}
	if said.Off != "" {
		r.ok(name, "the worker makes none: "+said.Off)
	}
	for _, s := range said.Runtimes {
		switch {
		case s.Off != "":
			r.ok(name, s.Runtime+": "+s.Off)
		case s.Failure != "":
			r.warning(name, s.Runtime+": none, so sandboxes preload by themselves, in quiet seconds: "+s.Failure, "the worker tries again by itself; glovebox runtimes build, if a root image is missing")
		case s.Bytes == 0:
			r.ok(name, s.Runtime+": none was tried yet; one is made when a sandbox waits and nothing runs")
		default:
			r.ok(name, fmt.Sprintf("%s: made and restored, %d MiB, %v old", s.Runtime, s.Bytes>>20, time.Since(s.Made).Round(time.Second)))
		}
	}
	if len(said.Runtimes) == 0 && said.Off == "" {
		r.ok(name, "no runtime that has its image here preloads anything")
	}
}

func askSnapshots(ctx context.Context, addr string) (said metrics.Snapshots, err error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+metrics.SnapshotsPath, http.NoBody)
	if err != nil {
		return said, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return said, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return said, fmt.Errorf("%s answers %s", addr, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxSnapshotPage)).Decode(&said); err != nil {
		return said, fmt.Errorf("read what %s answers: %w", addr, err)
	}
	return said, nil
}
