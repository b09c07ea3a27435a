package testcache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// prefix is what the names of caches' directories begin with.
const prefix = "glovebox-tests-"

// directory is a cache's own. Its files are opened by its descriptor, so what its path comes to mean does
// not matter. A lock on it tells that its process lives; systemd-tmpfiles leaves it alone for that, too.
type directory struct {
	*os.Root
	path string
	lock *os.File
}

// makeDirectory makes one that only this user may enter, and removes those that nobody has locked.
func makeDirectory(parent string) (d *directory, err error) {
	removeLeft(parent)
	for range 3 { // another that starts at the same time may take it for one that was left
		d = &directory{}
		if d.path, err = os.MkdirTemp(parent, prefix); err != nil {
			return nil, err
		}
		if d.lock, err = lockDirectory(d.path, unix.LOCK_EX); err == nil {
			d.Root, err = os.OpenRoot(d.path)
		}
		if err == nil {
			return d, nil
		}
		err = errors.Join(err, d.remove())
	}
	return nil, err
}

// lockDirectory opens and locks a directory of this user's; how is LOCK_EX, or with LOCK_NB not waiting.
func lockDirectory(path string, how int) (*os.File, error) {
	// What others put there under such a name may be a link or a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Getuid() {
			err = fmt.Errorf("%s is another user's", path)
		}
	}
	if err == nil {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeLeft removes the directories of processes that have died, as far as it can.
func removeLeft(parent string) {
	paths, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return
	}
	for _, path := range paths {
		if f, err := lockDirectory(path, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			_ = os.RemoveAll(path) // or the next one does
			f.Close()
		}
	}
}

func (d *directory) create(name string) (*os.File, error) {
	return d.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (d *directory) open(name string) (*os.File, error) { return d.Open(name) }

// removeFile removes a file. Whether that works does not matter: the directory goes in the end.
func (d *directory) removeFile(name string) { _ = d.Remove(name) }

func (d *directory) remove() error {
	err := os.RemoveAll(d.path)
	if d.Root != nil {
		err = errors.Join(err, d.Close())
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}
