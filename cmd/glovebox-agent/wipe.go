package main

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// wipeAs removes everything that is in the directories, as the user who has made it all. No code of the
// job may run meanwhile.
func wipeAs(id uintptr, dirs ...string) error {
	return asUser(id, func() error {
		for _, dir := range dirs {
			if err := empty(dir); err != nil {
				return fmt.Errorf("wipe %s: %w", dir, err)
			}
		}
		return nil
	})
}

// empty removes what is in a directory, however deep it is: only one directory is open at a time. No
// link is followed.
func empty(root string) error {
	dir, err := openDir(unix.AT_FDCWD, root)
	if err != nil {
		return err
	}
	defer func() { unix.Close(dir) }()
	var path []string // from root to dir
	for {
		below, err := removeEntries(dir)
		if err != nil {
			return err
		}
		var next int
		switch {
		case below != "":
			path = append(path, below)
			next, err = openDir(dir, below)
		case len(path) == 0:
			return nil
		default:
			if next, err = openDir(dir, ".."); err == nil {
				err = unix.Unlinkat(next, path[len(path)-1], unix.AT_REMOVEDIR)
				path = path[:len(path)-1]
			}
		}
		if next > 0 {
			unix.Close(dir)
			dir = next
		}
		if err != nil {
			return err
		}
	}
}

// removeEntries removes what is in a directory that was just opened, up to the first directory that isn't empty, whose name it returns;
// it can be opened then. It reads on from where it is, and from the beginning once more if it has removed anything: what is not there any more may have moved the rest.
func removeEntries(dir int) (below string, err error) {
	var entries [4096]byte
	for removed := false; ; {
		n, err := unix.Getdents(dir, entries[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return "", err
		case n == 0 && !removed:
			return "", nil
		case n == 0:
			if _, err := unix.Seek(dir, 0, io.SeekStart); err != nil {
				return "", err
			}
			removed = false
			continue
		}
		_, _, names := unix.ParseDirent(entries[:n], -1, nil)
		for _, name := range names {
			err := unix.Unlinkat(dir, name, 0)
			if errors.Is(err, unix.EISDIR) {
				err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
			}
			switch {
			case errors.Is(err, unix.ENOTEMPTY):
				return name, unix.Fchmodat(dir, name, 0o700, 0)
			case err != nil:
				return "", err
			}
			removed = true
		}
	}
}

// openDir returns a descriptor that is above 2, as the agent has those.
func openDir(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}
