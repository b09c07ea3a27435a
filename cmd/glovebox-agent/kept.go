package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxKept bounds how many files and directories a program that is run on tests may have.
const maxKept = 1000

// unfitError says why a program can't be kept.
type unfitError string

func (e unfitError) Error() string { return string(e) }

var errTooManyFiles = unfitError(fmt.Sprintf("the program has more than %d files and directories", maxKept))

// errLongPath: a compile step can go down into a directory by parts, and so make what no path leads to.
const errLongPath = unfitError("the program has a file whose path is longer than 4095 bytes")

// keptProgram is a program as it was before its first test: its inputs, and what its compile step made.
// Its files have no names any more, only the agent's descriptors, so nothing can change them.
type keptProgram struct{ entries []keptEntry }

// keptEntry is a directory, a link or a file.
type keptEntry struct {
	path string
	mode fs.FileMode
	link string   // where a link leads
	file *os.File // nil: it is none
	size int64    // of the file
	// modified is when the file was: a program may be older than what it was made of, and made again.
	modified unix.Timespec
}

// keepProgram takes what is in the job's directory, and in the one for temporary files, where some
// compile steps leave the program, and leaves all directories empty.
func keepProgram() (keptProgram, error) {
	var p keptProgram
	err := asJob(func() error {
		for _, dir := range []string{workDir, "/tmp"} {
			if err := p.keepIn(dir); err != nil {
				return fmt.Errorf("keep the program: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	return p, wipeAs(jobID, scratch...)
}

// keepIn adds what is in a directory. What its owner can't read, the program can do without. Of a
// directory with more entries than may be kept, only as many are read.
func (p *keptProgram) keepIn(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return unlessForbidden(err)
	}
	entries, err := f.ReadDir(maxKept + 1)
	f.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return unlessForbidden(err)
	}
	for _, d := range entries {
		if err := p.keep(filepath.Join(dir, d.Name()), d); err != nil {
			return err
		}
	}
	return nil
}

func (p *keptProgram) keep(path string, d fs.DirEntry) error {
	if len(p.entries) == maxKept {
		return errTooManyFiles
	}
	e := keptEntry{path: path}
	info, err := d.Info()
	if err != nil {
		return unlessForbidden(err)
	}
	e.mode = info.Mode().Perm()
	switch d.Type() {
	case fs.ModeDir:
		p.entries = append(p.entries, e)
		return p.keepIn(path)
	case fs.ModeSymlink:
		e.link, err = os.Readlink(path)
	case 0:
		e.size = info.Size()
		if e.modified, err = unix.TimeToTimespec(info.ModTime()); err == nil {
			e.file, err = os.Open(path)
		}
	default:
		return nil
	}
	if err != nil {
		return unlessForbidden(err)
	}
	p.entries = append(p.entries, e)
	return nil
}

func unlessForbidden(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil
	case errors.Is(err, syscall.ENAMETOOLONG):
		return errLongPath
	}
	return err
}

// layOut makes the program anew, a user's own.
func (p keptProgram) layOut(id uintptr) error {
	return asUser(id, func() error {
		for _, e := range p.entries {
			if err := e.layOut(); err != nil {
				return fmt.Errorf("lay out %s: %w", e.path, err)
			}
		}
		return nil
	})
}

func (e keptEntry) layOut() error {
	switch {
	case e.link != "":
		return os.Symlink(e.link, e.path)
	case e.file == nil:
		return os.Mkdir(e.path, e.mode|0o700)
	}
	fd, err := unix.Open(e.path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, uint32(e.mode|0o600))
	if err != nil {
		return err
	}
	if err := errors.Join(e.copyTo(fd), unix.Close(fd)); err != nil {
		return err
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, e.modified}
	return unix.UtimesNanoAt(unix.AT_FDCWD, e.path, times, unix.AT_SYMLINK_NOFOLLOW)
}

// copyTo writes the file's content, in one system call if it can.
func (e keptEntry) copyTo(fd int) error {
	for at := int64(0); at < e.size; {
		n, err := unix.Sendfile(fd, int(e.file.Fd()), &at, int(e.size-at))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// isFull reports whether err says that there is no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
