// Package pausedisk looks whether a directory is good for sessions that are paused: on a disk, and with room for them. And it makes their files, which have no name, so nothing stays there.
//
// What else a worker keeps for want of memory is in the same directory. The worker looks at its start, and `glovebox doctor` where it is told of the settings.
package pausedisk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUseless is wrapped where no session can be paused there, or to no avail.
var ErrUseless = errors.New("paused sessions can't be there")

// Dir is where a worker has them, given the CACHE_DIRECTORY that systemd.exec(5) sets: on a disk, as /tmp may be memory.
func Dir(cacheDirectory string) string {
	dir, _, _ := strings.Cut(cacheDirectory, ":")
	return cmp.Or(dir, "/var/tmp")
}

// Unnamed makes a file without a name in the directory, for this user alone: it is gone once nobody has it open. It fails with ErrUseless.
func Unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: make a file without a name in %s: %w", ErrUseless, dir, err)
	}
	return os.NewFile(uintptr(fd), "paused session"), nil //nolint:gosec // a descriptor
}

// Try makes such a file, and closes it.
func Try(dir string) error {
	f, err := Unnamed(dir)
	if err != nil {
		return err
	}
	return f.Close()
}

// InMemory reports whether what is in the directory is in memory.
func InMemory(dir string) (bool, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return inMemory(s), nil
}

func inMemory(s unix.Statfs_t) bool { return s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC }

// Room fails with ErrUseless where the directory is memory, and with another error where it has less room than so many bytes.
func Room(dir string, bytes int64) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrUseless, &os.PathError{Op: "statfs", Path: dir, Err: err})
	}
	if inMemory(s) {
		return fmt.Errorf("%w: %s is memory, which they are to give back", ErrUseless, dir)
	}
	if free := int64(min(s.Bavail, 1<<40)) * s.Bsize; free < bytes { //nolint:gosec // bounded
		return fmt.Errorf("%s has %d MiB free, and paused sessions may take %d, with what those there have by now", dir, free>>20, bytes>>20)
	}
	return nil
}
