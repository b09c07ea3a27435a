package podman

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// SetOrphanAge changes for how long Podman may know nothing of a sandbox.
func (p *Sandboxes) SetOrphanAge(age time.Duration) { p.reaper.age = age }

// Held returns a function that reads what the sandbox whose process is pid holds on the
// host, and one that ends the looking.
func Held(pid int) (held func() (int64, error), done func(), err error) {
	p, err := openProcess(pid)
	if err != nil {
		return nil, nil, err
	}
	return p.memory, p.close, nil
}

// LaunchTwice returns what becomes of a sandbox that is started in a container whose own still runs.
func (p *Sandboxes) LaunchTwice(ctx context.Context, image string) error {
	first, err := p.start(ctx, time.Now(), plan{image: image, limits: job.Limits{}.Filled(job.Limits{}), shmMB: 64, jobID: "twice", backstop: time.Minute, reusable: true}, nil)
	if err != nil {
		return err
	}
	defer first.close()
	second, err := p.launch(ctx, ctx, time.Now(), first.container, startMode{})
	if err == nil {
		second.close()
	}
	return err
}

// Spoil puts a snapshot in the place of an image's: a copy that spoil has changed, its three files not
// yet sealed.
func (p *Sandboxes) Spoil(image string, spoil func(files [3]*os.File) error) error {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	images := p.pool.find(image)
	bad := &snapshot{imageID: images.snapshot.imageID, madeOf: images.snapshot.madeOf, made: time.Now(), renewAfter: snapshotAge}
	for i, f := range images.snapshot.files {
		var err error
		if bad.files[i], err = memoryFile(f.Name()); err != nil {
			return err
		}
		if _, err := io.Copy(bad.files[i], io.NewSectionReader(f, 0, maxSnapshot)); err != nil {
			return err
		}
	}
	if err := spoil(bad.files); err != nil {
		return err
	}
	images.snapshot.close()
	images.snapshot = bad
	return bad.seal()
}

// Relabel makes an image's snapshot one of a sandbox that was made of other files.
func (p *Sandboxes) Relabel(image string) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	images := p.pool.find(image)
	was := images.snapshot
	images.snapshot = &snapshot{files: was.files, digest: was.digest, bytes: was.bytes, imageID: was.imageID, made: time.Now(), renewAfter: snapshotAge, madeOf: was.madeOf + "x"}
}

// SnapshotFiles are an image's, as a sandbox gets them.
func (p *Sandboxes) SnapshotFiles(image string) ([]*os.File, error) {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	return p.pool.find(image).snapshot.open()
}

// CurrentOf counts the idle sandboxes of an image that went on from its snapshot.
func (p *Sandboxes) CurrentOf(image string) int {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	images := p.pool.find(image)
	if images == nil || images.snapshot == nil {
		return 0
	}
	n := 0
	for _, w := range images.idle {
		if w.snapshot == images.snapshot {
			n++
		}
	}
	return n
}

// The ways in which StartIdle starts a sandbox.
const (
	Plain        = "plain"
	FromSnapshot = "snapshot"
	ByImports    = "imports"
)

// StartIdle starts a sandbox as the pool does, until it waits for a program.
func (p *Sandboxes) StartIdle(ctx context.Context, image, how string) (end func(), err error) {
	p.pool.mu.Lock()
	images := p.pool.find(image)
	plan, from := images.plan, images.snapshot
	p.pool.mu.Unlock()
	if how != FromSnapshot {
		from = nil
	}
	w, err := p.startIdle(ctx, plan, from)
	if err != nil {
		return nil, err
	}
	if how == ByImports {
		if err := w.session.Prepare(plan.preload.request(false), time.Minute); err != nil {
			return nil, err
		}
	}
	if how != Plain {
		if failure := w.awaitPreload(ctx); failure != "" {
			return nil, errors.New(failure)
		}
	}
	return w.close, nil
}

// PauseBytesLeft is what paused sessions may take of the disk still.
func (p *Sandboxes) PauseBytesLeft() int64 {
	p.pauses.mu.Lock()
	defer p.pauses.mu.Unlock()
	return p.pauses.left
}

// RefillTime is how long the pool takes to start a sandbox.
func (p *Sandboxes) RefillTime() time.Duration {
	p.pool.mu.Lock()
	defer p.pool.mu.Unlock()
	return p.pool.refills.Mean()
}
