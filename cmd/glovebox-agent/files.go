package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/internal/agentwire"
	"github.com/glovebox-run/glovebox/job"
)

// fileFault is why a command about files is not executed, or the turn's files are not there.
type fileFault struct{ code, problem string }

func (f *fileFault) Error() string { return f.code + ": " + f.problem }

// errStopped means that the command was ended before its end.
var errStopped = errors.New("stopped")

// filesTurn executes a command about the session's files, with the session's rights. Nothing of the session runs meanwhile, so nothing changes while it is looked at.
// sums are the files as they were last sent.
func (s *session) filesTurn(c *contexts, t turn, sums map[string]sum) error {
	same, ran := c.keep(t), c.stirred
	c.stirred = false
	if err := s.started(c.preloaded(t.context)); err != nil {
		return err
	}
	if err := asJob(func() error { s.awaitTakenUp(c); return nil }); err != nil {
		return err
	}
	w := fileWork{session: s, root: workDir, deadline: time.Now().Add(t.wall), pageBytes: min(c.start.Limits.OutputKB<<10, maxPageBytes), sums: sums}
	began := time.Now()
	exit := agentwire.Exit{Cause: agentwire.Exited, Lost: !same, LostContexts: c.takeLost(t)}
	if !same && ran {
		exit.Usage.CPUMS = c.stirredFor.Milliseconds()
	}
	err := asJob(func() error { return w.do(t, c.start.Limits) })
	exit.Usage.WallMS = time.Since(began).Milliseconds()
	var fault *fileFault
	switch {
	case errors.Is(err, errStopped):
		exit.Cause, exit.ExitCode = w.stopped, interruptedExitCode
		if w.stopped == agentwire.Wall {
			exit.ExitCode = job.TimedOutExitCode
		}
	case errors.As(err, &fault):
		exit.ExitCode = 1
		err = s.stream(agentwire.TypeStderr, c.start).add([]byte(fault.Error() + "\n"))
	case err == nil && len(w.printed) > 0:
		err = s.stream(agentwire.TypeStdout, c.start).add(w.printed)
	}
	if err != nil && !errors.Is(err, errStopped) {
		return fmt.Errorf("execute a command about files: %w", err)
	}
	if err := s.out.WriteJSON(agentwire.TypeExit, exit); err != nil {
		return err
	}
	k := collector{root: workDir, limits: c.start.Limits, send: s}
	if w.read != nil {
		if err := asJob(func() error { return k.file(*w.read) }); err != nil {
			return err
		}
	}
	return s.out.WriteJSON(agentwire.TypeTurned, agentwire.Turned{SkippedTotal: k.skipped})
}

const (
	interruptedExitCode = 130
	// maxPageBytes bounds the JSON of a page: what a result has of a stream itself.
	maxPageBytes = 48 << 10
	// takeUpPatience is how long a prepared process may take to remove the file that its code came in.
	takeUpPatience = 5 * time.Second
)

// awaitTakenUp waits until a prepared process that has become the interpreter has removed its code from the session's directory.
func (s *session) awaitTakenUp(c *contexts) {
	names := s.takenUp
	s.takenUp = nil
	if c.began || len(c.all) == 0 {
		return
	}
	for patience := patientFor(takeUpPatience); !patience.isOver(); time.Sleep(time.Millisecond) {
		names = slices.DeleteFunc(names, func(name string) bool {
			_, err := os.Lstat(path.Join(workDir, name))
			return err != nil
		})
		if len(names) == 0 {
			return
		}
	}
}

// fileWork is a command while it is executed.
type fileWork struct {
	session   *session
	root      string
	deadline  time.Time
	pageBytes int64
	sums      map[string]sum
	// printed is what it says, and read the file that is to be sent.
	printed []byte
	read    *entry
	stopped agentwire.Cause
}

func (w *fileWork) do(t turn, limits job.Limits) error {
	switch {
	case t.files.full:
		return &fileFault{job.CodeTooLarge, t.files.problem}
	case t.files.problem != "":
		return &fileFault{job.CodeFileRefused, t.files.problem}
	case len(t.code) == 0:
		return nil
	}
	command, err := job.ParseFileCommand(string(t.code))
	if err != nil {
		return &fileFault{job.CodeFileRefused, err.Error()}
	}
	if command.Do == job.ListFiles {
		return w.list(command)
	}
	dir, err := openBelow(w.root, path.Dir(command.Name), command.Do == job.MakeDirectory)
	if err != nil {
		return faultOf(command.Name, err)
	}
	defer dir.Close()
	base := path.Base(command.Name)
	switch command.Do {
	case job.ReadFile:
		return w.find(dir, base, command.Name, limits)
	case job.MakeDirectory:
		made, err := openBelowIn(dir, base, true)
		if err != nil {
			return faultOf(command.Name, err)
		}
		return made.Close()
	}
	return w.remove(dir, base, command.Name)
}

// find makes sure that a file can be sent.
func (w *fileWork) find(dir *os.File, base, name string, limits job.Limits) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return faultOf(name, err)
	}
	problem := kindProblem(st.Mode, uint64(st.Nlink)) //nolint:unconvert // it is 32 bits wide on arm64
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		problem = "is a directory"
	}
	switch {
	case problem != "":
		return &fileFault{job.CodeFileRefused, name + " " + problem}
	case st.Size > limits.ArtifactMB<<20 || st.Size > limits.DiskMB<<20:
		return &fileFault{job.CodeTooLarge, fmt.Sprintf("%s has %d bytes; limits.artifact_mb (%d) and limits.disk_mb (%d) allow no more", name, st.Size, limits.ArtifactMB, limits.DiskMB)}
	case limits.Artifacts < 1:
		return &fileFault{job.CodeFileRefused, "limits.artifacts allows none"}
	}
	fd, err := unix.Openat(int(dir.Fd()), base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return faultOf(name, err)
	}
	w.read = &entry{name: name, size: st.Size}
	return unix.Close(fd)
}

// remove removes what has that name, if it is no directory that holds anything.
func (w *fileWork) remove(dir *os.File, base, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), base, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(int(dir.Fd()), base, unix.AT_REMOVEDIR)
	}
	if err != nil {
		return faultOf(name, err)
	}
	delete(w.sums, name) // what is made there next is new
	return nil
}

// list prints a page of a directory. All names are read for each page, and no more are kept than it can have.
func (w *fileWork) list(command job.FileCommand) error {
	after, err := base64.RawURLEncoding.DecodeString(command.After)
	if err != nil {
		return &fileFault{job.CodeFileRefused, "after is no next_cursor of a page"}
	}
	below, err := openBelow(w.root, command.Name, false)
	if err != nil {
		return faultOf(cmp.Or(command.Name, "the directory"), err)
	}
	defer below.Close()
	fd, err := unix.Openat(int(below.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return faultOf(cmp.Or(command.Name, "the directory"), err)
	}
	dir := os.NewFile(uintptr(fd), "directory")
	defer dir.Close()
	names, err := w.smallest(dir, string(after))
	if err != nil {
		return err
	}
	return w.page(dir, command.Name, names)
}

// smallest are the first names behind after, one more than a page has.
func (w *fileWork) smallest(dir *os.File, after string) (names []string, err error) {
	const most = job.MaxFileList + 1
	for {
		if err := w.goOn(); err != nil {
			return nil, err
		}
		some, err := dir.Readdirnames(1024)
		for _, name := range some {
			if name > after {
				names = append(names, name)
			}
		}
		if len(names) > 16*most || err != nil {
			slices.Sort(names)
			names = names[:min(len(names), most)]
		}
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, faultOf("the directory", err)
		}
	}
}

// page prints as many of the names as a page has.
func (w *fileWork) page(dir *os.File, prefix string, names []string) error {
	list := job.FileList{Files: []job.FileEntry{}}
	room := w.pageBytes - 600 // what is around them, and a cursor of 255 bytes
	for i, name := range names {
		e := describeFile(dir, prefix, name)
		b, err := job.Marshal(e)
		if err != nil {
			return err
		}
		if room -= int64(len(b)) + 1; i == job.MaxFileList || room < 0 && i > 0 {
			list.Next = base64.RawURLEncoding.EncodeToString([]byte(names[i-1]))
			break
		}
		list.Files = append(list.Files, e)
	}
	b, err := job.Marshal(list)
	if err == nil && int64(len(b)) > w.pageBytes {
		return &fileFault{job.CodeTooLarge, "limits.output_kb is too small for a list"}
	}
	w.printed = b
	return err
}

// describeFile is what a directory has under a name.
func describeFile(dir *os.File, prefix, name string) job.FileEntry {
	e := job.FileEntry{Name: strings.ToValidUTF8(name, "\ufffd"), Kind: "unknown"}
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		e.Problem = "can't be looked at: " + err.Error()
		return e
	}
	if kind, known := fileKinds[st.Mode&unix.S_IFMT]; known {
		e.Kind = kind
	}
	if e.Kind == "file" {
		e.Size = st.Size
		e.Problem = kindProblem(st.Mode, uint64(st.Nlink)) //nolint:unconvert // it is 32 bits wide on arm64
	}
	if problem := job.CheckName(path.Join(prefix, name)); problem != "" {
		e.Problem = "its name " + problem
	}
	return e
}

var fileKinds = map[uint32]string{
	unix.S_IFREG: "file", unix.S_IFDIR: "directory", unix.S_IFLNK: "link", unix.S_IFIFO: "fifo", unix.S_IFSOCK: "socket", unix.S_IFCHR: "device", unix.S_IFBLK: "device",
}

// goOn fails with errStopped once the command is to end.
func (w *fileWork) goOn() error {
	select {
	case <-w.session.interrupt:
		w.stopped = agentwire.Killed
	case <-w.session.restart:
		w.stopped = agentwire.Killed
	default:
		if time.Now().Before(w.deadline) {
			return nil
		}
		w.stopped = agentwire.Wall
	}
	return errStopped
}

// openBelow opens a directory of that name below root, "" or "." for root itself, and follows no link in any part of it. Where create says so, what is missing is made.
func openBelow(root, name string, create bool) (*os.File, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	dir := os.NewFile(uintptr(fd), root)
	if name == "" || name == "." {
		return dir, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		next, err := openBelowIn(dir, part, create)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// openBelowIn opens one directory of another.
func openBelowIn(dir *os.File, name string, create bool) (*os.File, error) {
	const how = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), name, how, 0)
	if errors.Is(err, unix.ENOENT) && create {
		if err = unix.Mkdirat(int(dir.Fd()), name, 0o755); err == nil {
			fd, err = unix.Openat(int(dir.Fd()), name, how, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// faultOf is what an error says of that name.
func faultOf(name string, err error) *fileFault {
	switch {
	case errors.Is(err, unix.ENOENT):
		return &fileFault{job.CodeNoFile, name + " is not there"}
	case errors.Is(err, unix.ENOSPC):
		return &fileFault{job.CodeTooLarge, name + " does not fit into the session's directory (limits.disk_mb)"}
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return &fileFault{job.CodeFileRefused, name + " has a part that is no directory: a file, or a link, which is not followed"}
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return &fileFault{job.CodeFileRefused, name + " is a directory that is not empty"}
	}
	return &fileFault{job.CodeFileRefused, name + ": " + withoutPath(err)}
}
