package imagebucket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// stored is an image in Podman's store.
type stored struct {
	ID           string
	Digest       string
	Architecture string
	Size         int64
	RootFS       struct{ Layers []string }
}

// run returns what Podman printed.
func (b Bucket) run(ctx context.Context, args ...string) ([]byte, error) {
	return b.runWith(ctx, nil, args...)
}

// move pushes to a registry, or pulls from it.
func (b Bucket) move(ctx context.Context, r *registry, command string, args ...string) error {
	login, err := r.login()
	if err != nil {
		return err
	}
	defer login.Close()
	args = append([]string{command, "--quiet", "--tls-verify=false", "--authfile=/dev/stdin"}, args...)
	_, err = b.runWith(ctx, login, args...)
	return err
}

// runWith is run with a standard input. A Podman that is told to end has time to remove what it began.
func (b Bucket) runWith(ctx context.Context, stdin *os.File, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.Podman[0], append(slices.Clone(b.Podman[1:]), args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("podman %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// inspect looks at an image. There is none where ok is false.
func (b Bucket) inspect(ctx context.Context, name string) (image stored, ok bool, err error) {
	_, err = b.run(ctx, "image", "exists", name)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		return stored{}, false, nil
	}
	if err != nil {
		return stored{}, false, err
	}
	out, err := b.run(ctx, "image", "inspect", name)
	if err != nil {
		return stored{}, false, err
	}
	var images []stored
	if err := json.Unmarshal(out, &images); err != nil || len(images) != 1 {
		return stored{}, false, fmt.Errorf("podman image inspect %s: %d images: %w", name, len(images), err)
	}
	return images[0], true, nil
}
