package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/job"
)

// maxEntries bounds how many entries of the job's directory are read, and so the memory and the
// time that this takes.
const maxEntries = 20_000

// entry is something in the job's directory that is no directory, or a directory that is not
// listed. problem says why it can't be an artifact.
type entry struct {
	name    string
	size    int64
	problem string
}

// walk lists the directory, sorted by name, following no link. Directories that can't
// be read, or are too deep to hold a file with an allowed name, are entries with a problem.
func walk(root string) ([]entry, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	w := walker{}
	w.dir(os.NewFile(uintptr(fd), root), "")
	slices.SortFunc(w.entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	if w.seen > maxEntries {
		w.entries = append(w.entries, entry{
			name: "…", problem: fmt.Sprintf("there are more than %d entries; the rest was not read", maxEntries),
		})
	}
	return w.entries, nil
}

type walker struct {
	entries []entry
	seen    int
}

// dir adds what is in d, and closes d.
func (w *walker) dir(d *os.File, prefix string) {
	defer d.Close()
	for {
		names, err := d.Readdirnames(256)
		for _, name := range names {
			if w.seen++; w.seen > maxEntries {
				return
			}
			w.entry(d, prefix, name)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			w.add(entry{name: prefix + ".", problem: "can't be listed: " + withoutPath(err)})
			return
		}
	}
}

func (w *walker) entry(d *os.File, prefix, name string) {
	e := entry{name: prefix + name}
	var st unix.Stat_t
	if err := unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		e.problem = "can't be read: " + err.Error()
		w.add(e)
		return
	}
	e.size = st.Size
	if problem := job.CheckName(e.name); problem != "" {
		e.problem = "its name " + problem
		w.add(e)
		return
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		e.problem = kindProblem(st.Mode, uint64(st.Nlink)) //nolint:unconvert // it is 32 bits wide on arm64
		w.add(e)
		return
	}
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		e.problem = "can't be read: " + err.Error()
		w.add(e)
		return
	}
	// The length of a name bounds the depth, and with it the descriptors held.
	w.dir(os.NewFile(uintptr(fd), name), e.name+"/")
}

func (w *walker) add(e entry) { w.entries = append(w.entries, e) }

// kindProblem says why a file of such a kind is no artifact. A second hard link could be a name
// of a file that is not the job's to give away.
func kindProblem(mode uint32, links uint64) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		if links != 1 {
			return "has more than one hard link"
		}
		return ""
	case unix.S_IFLNK:
		return "is a symbolic link"
	case unix.S_IFIFO:
		return "is a FIFO"
	case unix.S_IFSOCK:
		return "is a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "is a device"
	}
	return "is not a regular file"
}
