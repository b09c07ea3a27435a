package main

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// clearMarks removes what an empty directory can say by itself to whoever comes next: extended attributes, flags and times.
func clearMarks(path string) error {
	dir, err := openDir(unix.AT_FDCWD, path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := removeAttributes(dir); err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(dir, unix.FS_IOC_SETFLAGS, 0); err != nil && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, make([]unix.Timespec, 2), 0)
}

// removeAttributes removes those that a program can set: user.*. The kernel's own stay.
func removeAttributes(dir int) error {
	var names [64 << 10]byte // the most that there may be (XATTR_LIST_MAX)
	n, err := unix.Flistxattr(dir, names[:])
	if err != nil && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	for name := range strings.SplitSeq(string(names[:max(n, 0)]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		if err := unix.Fremovexattr(dir, name); err != nil {
			return err
		}
	}
	return nil
}
