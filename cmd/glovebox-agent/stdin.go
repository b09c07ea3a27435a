package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// stdin is what a program reads from its standard input, while it comes: a file without a name.
type stdin struct{ file *os.File }

// write adds to it.
func (in *stdin) write(p []byte) error {
	if in.file == nil {
		fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			return fmt.Errorf("make stdin: %w", err)
		}
		in.file = os.NewFile(uintptr(fd), "stdin")
	}
	if _, err := in.file.Write(p); err != nil {
		return fmt.Errorf("write stdin: %w", err)
	}
	return nil
}

// seal returns it opened for reading, nil if nothing was written: it needs no flow control, may be read
// again, and can't be grown or changed.
func (in *stdin) seal() (*os.File, error) {
	if in.file == nil {
		return nil, nil //nolint:nilnil // no file is an empty stdin
	}
	defer in.file.Close()
	seals := unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(in.file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal stdin: %w", err)
	}
	fd, err := open(fmt.Sprintf("/proc/self/fd/%d", in.file.Fd()), 0)
	if err != nil {
		return nil, fmt.Errorf("open stdin: %w", err)
	}
	return os.NewFile(uintptr(fd), "stdin"), nil
}
