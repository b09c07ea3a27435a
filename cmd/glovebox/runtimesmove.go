package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/imagebucket"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/runtimes"
)

// workerSettings is where infra/worker-host.sh and the package have a worker's.
const workerSettings = "/etc/glovebox/worker.env"

const bucketHelp = `The bucket is that of the GLOVEBOX_S3_… variables, of the environment or of a file: --settings
names one; without it that is ` + operatorSettings + ` or ` + workerSettings + `, whichever is there.`

func (a *app) runtimesPushCommand() *cobra.Command {
	var settings string
	var force bool
	cmd := &cobra.Command{
		Use:   "push [NAME…]",
		Short: "Put images of this machine into the bucket, for other hosts to pull",
		Long: `Put images of runtimes into the bucket, so that a fleet builds them once: all that this
machine has built, unless some are named. Below images/ in the bucket each layer is one object,
named by its digest; what is there is not sent again. Last comes the name of the image, which
"glovebox runtimes pull" looks for, so half an image is never found.

Whoever can write to images/ decides what runs on all hosts that pull: give that right to the
machine that builds, and not to workers.

` + bucketHelp,
		Example: `  glovebox runtimes build && glovebox runtimes push
  glovebox runtimes push python rust --settings builder.env`,
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.moveImages(cmd.Context(), names, settings, func(m *mover) error { return m.push(cmd.Context(), force) })
		},
	}
	cmd.Flags().StringVar(&settings, "settings", "", "`FILE` with the variables")
	cmd.Flags().BoolVar(&force, "force", false, "send also what the bucket has, as when it is damaged there")
	return cmd
}

func (a *app) runtimesPullCommand() *cobra.Command {
	var settings string
	cmd := &cobra.Command{
		Use:   "pull [NAME[@DIGEST]…]",
		Short: "Get images from the bucket instead of building them",
		Long: `Get the images of runtimes that "glovebox runtimes push" put into the bucket, and make their
root images: all that fit this version of Glovebox, unless some are named. A worker that runs
offers them within a minute, and keeps sandboxes started of them.

Each image is compared with its digest, layer by layer, and gets its name last: one that is
damaged or incomplete is refused, and jobs never run in it. With NAME@sha256:…, as push printed
it, the image has to be that one, whatever somebody may have put into the bucket since.

` + bucketHelp,
		Example: `  glovebox runtimes pull
  glovebox runtimes pull python@sha256:3c39716aea54c7e19169e3902b8c9d4818bb901a9fed64139b55a86ff8614bb8`,
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.moveImages(cmd.Context(), names, settings, func(m *mover) error { return m.pull(cmd.Context()) })
		},
	}
	cmd.Flags().StringVar(&settings, "settings", "", "`FILE` with the variables")
	return cmd
}

// movable is a runtime with an image of its own, or that of the others that share it.
type movable struct {
	name, image string
	digest      string // "" for whichever the bucket has
}

// mover is one call of push or pull.
type mover struct {
	app    *app
	set    runtimes.Set
	bucket imagebucket.Bucket
	chosen []movable
	named  bool // the chosen ones were
}

func (a *app) moveImages(ctx context.Context, names []string, settings string, do func(*mover) error) error {
	set, err := runtimes.Embedded()
	if err != nil {
		return err
	}
	m := &mover{app: a, set: set, named: len(names) > 0}
	if m.chosen, err = choose(set, names); err != nil {
		return err
	}
	if m.bucket.Podman, err = a.podman(); err != nil {
		return err
	}
	r, err := a.bucketReader(settings)
	if err != nil {
		return err
	}
	where := r.S3()
	if err := r.Err(); err != nil {
		return &failure{exitUsage, err, "--settings names a file that has them"}
	}
	if m.bucket.Objects, err = artifacts.Open(ctx, where); err != nil {
		return &failure{exitUsage, err, ""}
	}
	defer m.bucket.Objects.Close()
	if err := m.bucket.Objects.Ping(ctx); err != nil {
		return &failure{exitGlovebox, err, "the GLOVEBOX_S3_… variables say which bucket"}
	}
	return withSetup(do(m))
}

// choose returns what was named, all without names, each image once.
func choose(set runtimes.Set, names []string) ([]movable, error) {
	if len(names) == 0 {
		for _, r := range set.List() {
			names = append(names, r.Name)
		}
	}
	var list []movable
	for _, arg := range names {
		name, digest, pinned := strings.Cut(arg, "@")
		r, ok := set.Lookup(name)
		if !ok {
			return nil, usagef("there is no runtime %q: choose among %s", name, strings.Join(set.Names(), ", "))
		}
		if err := imagebucket.CheckDigest(digest); pinned && err != nil {
			return nil, usagef("%s: %w", arg, err)
		}
		at := slices.IndexFunc(list, func(m movable) bool { return m.image == r.Image() })
		switch {
		case at < 0:
			list = append(list, movable{r.Name, r.Image(), digest})
		case list[at].digest != digest:
			return nil, usagef("%s and %s have one image: name it once", list[at].name, arg)
		}
	}
	return list, nil
}

// bucketReader reads where the bucket is.
func (a *app) bucketReader(settings string) (*config.Reader, error) {
	getenv := a.getenv
	if settings == "" && getenv("GLOVEBOX_S3_BUCKET") == "" {
		for _, path := range []string{operatorSettings, workerSettings} {
			if _, err := os.Stat(path); err == nil {
				settings = path
				break
			}
		}
	}
	if settings != "" {
		file, err := config.ReadFile(settings)
		if err != nil {
			return nil, err
		}
		getenv = file.Get
	}
	return config.NewReader(getenv), nil
}

func (m *mover) push(ctx context.Context, force bool) error {
	built, err := m.set.Built(ctx, m.bucket.Podman)
	if err != nil {
		return err
	}
	chosen := m.chosen
	if !m.named {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(c movable) bool { return !built[c.image] })
	}
	if len(chosen) == 0 {
		return &failure{exitFailed, errors.New("this machine has no image to push"), "glovebox runtimes build"}
	}
	for _, c := range chosen {
		if c.digest != "" {
			return usagef("%s@%s: what is pushed is what this machine has; name it without a digest", c.name, c.digest)
		}
		if !built[c.image] {
			return &failure{exitFailed, fmt.Errorf("%s is not built here", c.image), "glovebox runtimes build " + c.name}
		}
	}
	for _, c := range chosen {
		if err := m.one(c, "pushed", func() (imagebucket.Image, error) { return m.bucket.Push(ctx, c.image, force) }); err != nil {
			return err
		}
	}
	return nil
}

func (m *mover) pull(ctx context.Context) error {
	rootImages, err := m.app.installed(rootImagesScript)
	if err != nil {
		return err
	}
	var found []movable
	for _, c := range m.chosen {
		if c.digest == "" {
			c.digest, err = m.bucket.Find(ctx, c.image, goruntime.GOARCH)
		}
		switch {
		case errors.Is(err, imagebucket.ErrNoImage) && !m.named:
			err = nil
		case errors.Is(err, imagebucket.ErrNoImage):
			return &failure{exitFailed, err, "glovebox runtimes push " + c.name + " puts it there, on a machine of this kind with this version of Glovebox"}
		case err != nil:
			return err
		default:
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return &failure{exitFailed, errors.New("the bucket has no image for this kind of machine and this version of Glovebox"), "glovebox runtimes push puts them there"}
	}
	var images []string
	for _, c := range found {
		err := m.one(c, "pulled", func() (imagebucket.Image, error) { return m.bucket.Pull(ctx, c.image, c.digest, goruntime.GOARCH) })
		if err != nil {
			return err
		}
		images = append(images, c.image)
	}
	return runtimes.MakeRootImages(ctx, rootImages, images, m.app.stdout)
}

// one moves one image, and says so.
func (m *mover) one(c movable, done string, move func() (imagebucket.Image, error)) error {
	var mu sync.Mutex
	var shown *progress
	var bytes int64
	m.bucket.Moved = func(n, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if shown == nil {
			shown = m.app.progress(c.name+", MiB", int(total>>20))
		}
		bytes += n
		shown.set(int(bytes >> 20))
	}
	start := time.Now()
	image, err := move()
	mu.Lock()
	defer mu.Unlock()
	if shown != nil {
		shown.end()
	}
	switch {
	case errors.Is(err, imagebucket.ErrDamaged):
		return &failure{exitFailed, err, "glovebox runtimes push --force " + c.name + ", on a machine that has it"}
	case err != nil:
		return err
	case !image.Moved:
		_, err = fmt.Fprintf(m.app.stdout, "  %-9s there: %s@%s\n", c.name, c.name, image.Digest)
	default:
		_, err = fmt.Fprintf(m.app.stdout, "  %-9s %s: %s@%s, %s of %s (%.0f s)\n", c.name, done, c.name, image.Digest, bytesOf(bytes), bytesOf(image.Bytes), time.Since(start).Seconds())
	}
	return err
}
