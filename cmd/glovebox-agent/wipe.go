package main

import (
	"errors"
	"fmt"
	"io"
	"os"

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
	defer func() { dir.Close() }()
	var path []string // from root to dir
	for {
		below, err := removeEntries(dir)
		if err != nil {
			return err
		}
		var next *os.File
		switch {
		case below != "":
			path = append(path, below)
			next, err = openDir(int(dir.Fd()), below)
		case len(path) == 0:
			return nil
		default:
			if next, err = openDir(int(dir.Fd()), ".."); err == nil {
				err = unix.Unlinkat(int(next.Fd()), path[len(path)-1], unix.AT_REMOVEDIR)
				path = path[:len(path)-1]
			}
		}
		if next != nil {
			dir.Close()
			dir = next
		}
		if err != nil {
			return err
		}
	}
}

// removeEntries removes what is in dir up to the first directory that isn't empty, whose name it returns;
// it can be opened then.
func removeEntries(dir *os.File) (below string, err error) {
	fd := int(dir.Fd())
	for {
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
		names, err := dir.Readdirnames(1024)
		if len(names) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return "", err
		}
		for _, name := range names {
			err := unix.Unlinkat(fd, name, 0)
			if errors.Is(err, unix.EISDIR) {
				err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
			}
			switch {
			case errors.Is(err, unix.ENOTEMPTY):
				return name, unix.Fchmodat(fd, name, 0o700, 0)
			case err != nil:
				return "", err
			}
		}
	}
}

func openDir(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
