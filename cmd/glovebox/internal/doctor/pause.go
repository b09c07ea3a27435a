package doctor

import (
	"errors"
	"fmt"
	"os"

	"github.com/glovebox-run/glovebox/internal/pausedisk"
)

// cacheDir is where the worker's unit has its CacheDirectory.
const cacheDir = "/var/cache/glovebox-worker"

// pausedSessions looks whether there is room for them, where the settings of a worker say how much they may take. Without them
// long outputs are there.
func (r *report) pausedSessions() {
	const name = "paused sessions"
	dir := cacheDir
	if _, err := os.Stat(dir); err != nil {
		dir = pausedisk.Dir("")
	}
	if r.PauseMB == 0 {
		if memory, err := pausedisk.InMemory(dir); memory && err == nil {
			r.warning("long outputs", dir+" is memory, and nobody has reserved what they take there", "a directory on a disk")
		}
		return
	}
	switch err := pausedisk.Room(dir, r.PauseMB<<20); {
	case errors.Is(err, pausedisk.ErrUseless):
		r.problem(name, err.Error(), "a directory on a disk, or GLOVEBOX_SESSION_PAUSE_MB=0")
	case err != nil:
		r.warning(name, err.Error(), "a larger disk, or less in GLOVEBOX_SESSION_PAUSE_MB")
	default:
		r.ok(name, fmt.Sprintf("room for %d MiB in %s", r.PauseMB, dir))
	}
}
