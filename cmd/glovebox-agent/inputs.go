package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
)

// sum identifies the content of an input.
type sum struct {
	size   int64
	sha256 [sha256.Size]byte
}

// inputs writes the job's inputs.
type inputs struct {
	root string
	// sums are the files that were there before the program started.
	sums map[string]sum
	// stdin is read-only; nil when there is none.
	stdin *os.File
	// unsealed is stdin as it comes.
	unsealed stdin
	// replace removes a file of the same name before. Code of the job may have put links into the path: the agent writes with that code's rights.
	replace bool
	// noLinks makes files only where no part of the path is a link.
	noLinks bool
	// problem, if set, says why the job can't have its inputs, which is its own fault: it is
	// refused then.
	problem string
	// full: it is that there is no room.
	full bool

	name string
	left int64
	file *os.File
	hash hash.Hash
	size int64
}

func newInputs(root string) *inputs {
	return &inputs{root: root, sums: map[string]sum{}}
}

// begin creates a file. Names were checked; nothing of the job runs yet, so no part of
// the path can be a link.
func (in *inputs) begin(b agentwire.FileBegin) error {
	in.name, in.left, in.size, in.hash = b.Name, b.Size, b.Size, sha256.New()
	if in.problem != "" {
		return nil
	}
	f, err := in.create(b.Name)
	if err != nil {
		return in.failed(err)
	}
	in.file = f
	return in.closeWhenDone()
}

// create makes the file, and the directories above it.
func (in *inputs) create(name string) (*os.File, error) {
	const how = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if in.noLinks {
		dir, err := openBelow(in.root, path.Dir(name), true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		defer dir.Close()
		base := path.Base(name)
		if err := unix.Unlinkat(int(dir.Fd()), base, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fd, err := unix.Openat(int(dir.Fd()), base, how|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return os.NewFile(uintptr(fd), name), nil
	}
	if err := os.MkdirAll(filepath.Join(in.root, path.Dir(name)), 0o755); err != nil {
		return nil, err
	}
	if in.replace {
		if err := syscall.Unlink(filepath.Join(in.root, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return os.OpenFile(filepath.Join(in.root, name), how, 0o644)
}

func (in *inputs) data(p []byte) error {
	in.left -= int64(len(p))
	if in.problem != "" {
		return nil
	}
	in.hash.Write(p)
	if _, err := in.file.Write(p); err != nil {
		return errors.Join(in.failed(err), in.empty())
	}
	return in.closeWhenDone()
}

func (in *inputs) closeWhenDone() error {
	if in.left > 0 {
		return nil
	}
	if err := in.file.Close(); err != nil {
		return in.failed(err)
	}
	s := sum{size: in.size}
	in.hash.Sum(s.sha256[:0])
	in.sums[in.name] = s
	return nil
}

// empty leaves nothing of a file that there is no room for.
func (in *inputs) empty() error {
	if in.replace {
		in.problem += "; " + in.name + " is empty now"
	}
	in.sums[in.name] = sum{sha256: sha256.Sum256(nil)}
	return errors.Join(in.file.Truncate(0), in.file.Close())
}

// failed turns an error that the job's own limits cause into a problem of the job.
func (in *inputs) failed(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		in.full = true
		in.problem = "glovebox: the input files do not fit into the job's directory (limits.disk_mb)"
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.EISDIR),
		in.replace: // code of the session may have made anything of its directory
		in.problem = fmt.Sprintf("glovebox: an input file can't be made: %v", err)
	default:
		return fmt.Errorf("write input file: %w", err)
	}
	return nil
}

// snapshot adds the files that are there now to the inputs: at most so many bytes of them, as
// files with holes can be read for hours.
func (in *inputs) snapshot(most int64) error {
	w, err := walk(in.root)
	if err != nil {
		return err
	}
	for _, e := range w {
		if e.problem != "" || e.size > most {
			continue
		}
		most -= e.size
		s, err := sumOf(in.root, e)
		if err != nil {
			continue // it can't be read, so it can't become an artifact either
		}
		in.sums[e.name] = s
	}
	return nil
}
