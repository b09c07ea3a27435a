package podman

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
)

const (
	// snapshotAge is when a snapshot is made anew, in the next quiet moment. What was drawn at random
	// before it, such as the seed of Python's hashes, is the same in all sandboxes that go on from it.
	snapshotAge = time.Hour
	// snapshotOverdue is when no quiet moment is waited for any more.
	snapshotOverdue = snapshotAge + snapshotAge/2
	// maxSnapshotAge is when nothing goes on from it any more, though no other could be made.
	maxSnapshotAge = 2 * snapshotAge
	// snapshotSpread is by how much the first of these is drawn earlier or later, as workers that started
	// together are not to make theirs anew together.
	snapshotSpread = snapshotAge / 6
	// maxSnapshotBackoff bounds the time between two tries to make a snapshot of an image of
	// which none could be made: minSnapshotBackoff at first, doubled each time.
	minSnapshotBackoff, maxSnapshotBackoff = 10 * time.Second, 10 * time.Minute
)

// Snapshot describes the snapshot from which an image's sandboxes go on.
type Snapshot struct {
	// Digest is its SHA-256, in hexadecimal.
	Digest string
	// Bytes is what it takes of the worker's memory.
	Bytes int64
	// Made is when it was made.
	Made time.Time
	// Failure is why none could be made, or why no sandbox could go on from the last; "" if there is one,
	// or none was tried.
	Failure string
}

// SnapshotOf returns the snapshot of an image; false if there is none, with the failure only.
func (p *Sandboxes) SnapshotOf(image string) (Snapshot, bool) {
	if p.pool == nil {
		return Snapshot{}, false
	}
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	images := p.pool.find(image)
	if images == nil {
		return Snapshot{}, false
	}
	if images.snapshot == nil {
		return Snapshot{Failure: images.snapshotFailure}, false
	}
	s := images.snapshot
	return Snapshot{Digest: s.digest, Bytes: s.bytes, Made: s.made}, true
}

// snapshotOf returns what sandboxes of the plan can go on from, or nil.
func (l *pool) snapshotOf(plan plan) *snapshot {
	if l == nil || plan.preload == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	images := l.find(plan.image)
	if images == nil || images.plan != plan {
		return nil
	}
	return images.snapshot
}

// demandMemory is how much of what was known of the demand counts beside one program more.
const demandMemory = 0.8

// noteDemand notes whether a program gains by a preloaded process, and whether it needs one of a snapshot. The pool's lock is held.
func (i *imagePool) noteDemand(pays, needsSnapshot bool) {
	i.paying, i.needing = i.paying*demandMemory, i.needing*demandMemory
	if pays {
		i.paying += 1 - demandMemory
	}
	if needsSnapshot {
		i.needing += 1 - demandMemory
	}
}

// snapshotsOnly reports whether none of the image's sandboxes is to preload by itself: so it is set, or at least half of
// the recent programs need what only the snapshot has. The pool's lock is held.
func (l *pool) snapshotsOnly(images *imagePool) bool {
	return l.onlySnapshots || images.snapshot != nil && images.needing >= 0.5
}

// outdated reports whether a sandbox that waits would be better made anew, when the processors are idle.
func (l *pool) outdated(images *imagePool, w *instance) bool {
	if l.snapshotsOnly(images) {
		return images.snapshot != nil && w.snapshot != images.snapshot
	}
	return w.snapshot != nil
}

// refillFrom returns what the image's next sandbox is to go on from. As many of those that wait have a
// preloaded process as of the recent programs gained by one. In a quiet second a plain one gets it by itself.
func (l *pool) refillFrom(images *imagePool) *snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if images.snapshot == nil || l.snapshotsOnly(images) && l.quietIn() == 0 {
		return images.snapshot
	}
	preloaded := 0
	for _, w := range images.idle {
		if w.preload == preloadReady {
			preloaded++
		}
	}
	if float64(preloaded+1) > images.paying*float64(len(images.idle)+1)+0.5 {
		return nil
	}
	return images.snapshot
}

// quietIn is how long it is until the processors have been idle for long enough to do what no program
// waits for; 0: they have. The pool's lock is held.
func (l *pool) quietIn() time.Duration {
	if quiet := time.Since(l.lastClaim); quiet < preloadQuiet {
		return preloadQuiet - quiet
	}
	if l.sandboxes.programs.Load() >= int64(runtime.GOMAXPROCS(0)) {
		return preloadQuiet
	}
	return 0
}

// nextUpgrade returns an image of which a sandbox waits that is better made anew, if now is the time.
// Otherwise wait says how long to wait before asking again, and is 0 if there is none.
func (l *pool) nextUpgrade() (_ *imagePool, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.preloading != nil || l.snapshotting != nil {
		return nil, 0 // its end wakes run
	}
	for _, images := range l.images {
		if time.Now().After(images.upgradeAt) && slices.ContainsFunc(images.idle, func(w *instance) bool { return l.outdated(images, w) }) {
			if wait := l.quietIn(); wait > 0 {
				return nil, wait
			}
			return images, 0
		}
	}
	return nil, 0
}

// upgrade replaces a sandbox that waits by one that preloads by itself, or where none does by one that goes on
// from the image's snapshot. The old one can be claimed until the new one is there.
func (l *pool) upgrade(ctx context.Context, images *imagePool) {
	var from *snapshot
	l.mu.Lock()
	if l.snapshotsOnly(images) {
		from = images.snapshot
	}
	l.mu.Unlock()
	w, err := l.sandboxes.startIdle(ctx, images.plan, from)
	if err == nil && from == nil {
		l.mu.Lock()
		w.preload, l.preloading = preloadRunning, w
		l.mu.Unlock()
		l.startPreload(ctx, w, true)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		images.upgradeAt = time.Now().Add(tidyInterval)
		return
	}
	l.replace(images, w)
}

// replace puts a sandbox in the place of one that is outdated. The pool's lock is held.
func (l *pool) replace(images *imagePool, w *instance) {
	images.idle = append(images.idle, w)
	if n := slices.IndexFunc(images.idle, func(w *instance) bool { return l.outdated(images, w) }); n >= 0 {
		old := images.idle[n]
		images.idle = slices.Delete(images.idle, n, n+1)
		l.sandboxes.background.Go(old.close)
	}
}

// awaitsSnapshot reports whether a snapshot of the image is there or is about to be made, so that none
// of its sandboxes is to preload.
func (l *pool) awaitsSnapshot(images *imagePool) bool {
	if images.plan.preload == nil || images.plan.preload.NoSnapshot {
		return false
	}
	return l.snapshots && l.snapshotsOnly(images) && (images.snapshot != nil || images.snapshotBackoff == 0)
}

// nextSnapshot returns the image whose snapshot is to be made now. There is one at a time, and none
// before the image has a sandbox that waits, or a program has wanted one.
func (l *pool) nextSnapshot() *imagePool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, images := range l.images {
		if images.snapshot != nil && time.Since(images.snapshot.made) > maxSnapshotAge {
			l.retire(images)
		}
	}
	if !l.snapshots || l.snapshotting != nil || l.preloading != nil {
		return nil // the end of either wakes run
	}
	for _, images := range l.images {
		wanted := images.plan.preload != nil && !images.plan.preload.NoSnapshot && time.Now().After(images.snapshotRetry) && (len(images.idle) > 0 || !images.lastWanted.IsZero())
		if wanted && (images.snapshot == nil || images.snapshot.due(l.quietIn() == 0)) {
			l.snapshotting = images
			return images
		}
	}
	return nil
}

// due reports whether a snapshot is to be made anew.
func (s *snapshot) due(quiet bool) bool {
	age := time.Since(s.made)
	return age > snapshotOverdue || quiet && age > s.renewAfter
}

// startSnapshot makes a snapshot of an image, in the background.
func (l *pool) startSnapshot(ctx context.Context, images *imagePool) {
	l.sandboxes.background.Go(func() {
		began := time.Now()
		made, err := l.sandboxes.takeSnapshot(ctx, images.plan)
		if err == nil {
			err = l.sandboxes.tryOut(ctx, images.plan, made)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		defer l.wake()
		l.snapshotting = nil
		log := l.sandboxes.config.Log.With("image", images.plan.image)
		switch {
		case err != nil && ctx.Err() != nil:
		case err != nil:
			images.putOffSnapshot(err)
			log.Warn("no snapshot could be made: sandboxes start without one", "error", err)
		default:
			log.Info("snapshot made: sandboxes go on from it", "digest", made.digest, "bytes", made.bytes, "took", time.Since(began).Round(time.Millisecond))
			l.retire(images)
			images.snapshot, images.snapshotFailure = made, ""
		}
		if (err != nil || l.closed) && made != nil {
			made.close() // it is of no use, or the pool is closed
		}
	})
}

// tryOut makes sure that a sandbox can go on from a snapshot: no program gets one before.
func (p *Sandboxes) tryOut(ctx context.Context, plan plan, s *snapshot) error {
	w, err := p.goOnFrom(ctx, time.Now(), plan, s)
	if err != nil {
		return err
	}
	defer w.close()
	if failure := w.awaitPreload(ctx); failure != "" {
		return errors.New(failure)
	}
	return nil
}

// dropSnapshot forgets a snapshot from which a sandbox could not go on. Another is made later.
func (l *pool) dropSnapshot(image string, s *snapshot, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	images := l.find(image)
	if images == nil || images.snapshot != s {
		return
	}
	l.sandboxes.config.Log.Warn("no sandbox could go on from the snapshot, which is made anew: sandboxes start without one", "image", image, "digest", s.digest, "error", why)
	l.retire(images)
	images.putOffSnapshot(why)
}

// retire takes an image's snapshot away, if there is one. Starts that were told of it may still ask for
// it for a while. The pool's lock is held.
func (l *pool) retire(images *imagePool) {
	if images.snapshot != nil {
		time.AfterFunc(2*l.sandboxes.config.StartTimeout, images.snapshot.close)
		images.snapshot = nil
	}
}

// putOffSnapshot lets some time pass before the next try.
func (i *imagePool) putOffSnapshot(why error) {
	i.snapshotFailure = why.Error()
	i.snapshotBackoff = min(max(2*i.snapshotBackoff, minSnapshotBackoff), maxSnapshotBackoff)
	i.snapshotRetry = time.Now().Add(i.snapshotBackoff)
}
