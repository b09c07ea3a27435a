package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// pinMappings maps files, the libraries of a prepared process, into the agent. gVisor has
// mappings of its own of a file that a process has mapped, and undoes them when the last such
// process ends. For Python with pandas that are 130 mappings and 3 ms, in which the result would
// wait. Nothing is read of the files, and nothing depends on their being mapped.
func pinMappings(files []string) error {
	var errs []error
	for _, path := range files {
		if err := pinMapping(path); err != nil {
			errs = append(errs, fmt.Errorf("map %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

func pinMapping(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size == 0 {
		return errors.New("it can't be mapped: it is empty or no regular file")
	}
	_, err = unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_PRIVATE) // until the sandbox's end
	return err
}
