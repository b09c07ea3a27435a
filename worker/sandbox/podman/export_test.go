package podman

import (
	"context"
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
	first, err := p.start(ctx, time.Now(), plan{image: image, limits: job.Limits{}.Filled(job.Limits{}), shmMB: 64, jobID: "twice", backstop: time.Minute, reusable: true})
	if err != nil {
		return err
	}
	defer first.close()
	second, err := p.launch(ctx, ctx, time.Now(), first.container)
	if err == nil {
		second.close()
	}
	return err
}
