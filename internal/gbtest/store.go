package gbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Store is a store of Podman's that shares nothing with others but their images, and their
// root images, which it only reads. It is for suites that build images: Podman locks the whole
// store meanwhile, and who lists images when one goes fails.
type Store struct {
	// Dir has the store proper, storage, and beside it the root images.
	Dir  string
	lock *os.File // tells others that it is in use
}

// NewStore makes a store. It may outlive a test, so it is the caller's to remove.
func NewStore() (*Store, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	// Beside the shared one: on its file system, where root images can be linked.
	beside := filepath.Join(home, ".local/share/glovebox")
	removeStores(beside)
	s := &Store{}
	if s.Dir, err = os.MkdirTemp(beside, "test-"); err != nil {
		return nil, err
	}
	if s.lock, err = os.Open(s.Dir); err == nil {
		err = unix.Flock(int(s.lock.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = s.fill(beside)
	}
	if err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

func (s *Store) fill(beside string) error {
	config := fmt.Sprintf("[storage]\ndriver = \"overlay\"\nrunroot = %q\nrootless_storage_path = %q\n[storage.options]\nadditionalimagestores = [%q]\n",
		s.Dir+"/run", s.Dir+"/storage", beside+"/storage")
	if err := os.WriteFile(s.Dir+"/storage.conf", []byte(config), 0o600); err != nil {
		return err
	}
	if err := os.Mkdir(s.Dir+"/roots", 0o700); err != nil {
		return err
	}
	roots, err := filepath.Glob(beside + "/roots/*.erofs")
	if err != nil {
		return err
	}
	for _, root := range roots {
		// One that goes meanwhile is that of an image that has gone.
		if err := os.Link(root, filepath.Join(s.Dir, "roots", filepath.Base(root))); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// Env is PodmanEnv for a service or command that uses this store.
func (s *Store) Env() []string {
	return append(PodmanEnv(), "CONTAINERS_STORAGE_CONF="+s.Dir+"/storage.conf") // the last one counts
}

// Remove removes the store, and all that is in it.
func (s *Store) Remove() error {
	defer s.lock.Close()
	return removeStore(s.Dir)
}

// removeStore goes by Podman's namespaces, where the owners of the files can be reached.
func removeStore(dir string) error {
	cmd := exec.CommandContext(context.Background(), "podman", "unshare", "sh", "-c",
		`umount "$1/storage/overlay" 2>/dev/null; rm -rf "$1"`, "sh", dir)
	cmd.Env = append(os.Environ(), PodmanEnv()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("remove %s: %w: %s", dir, err, out)
	}
	return nil
}

// removeStores removes those of suites that were killed, as far as it can.
func removeStores(beside string) {
	dirs, err := filepath.Glob(beside + "/test-*")
	if err != nil {
		return
	}
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = removeStore(dir) // or the next one does
		}
		f.Close()
	}
}
