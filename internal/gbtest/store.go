package gbtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Store is a store of Podman's that shares nothing with others but their images, and their
// root images, which it only reads. It is for suites that build images: Podman locks a whole
// store meanwhile, and who lists images when one goes fails.
type Store struct {
	// Dir has the store proper, storage, and beside it the root images.
	Dir string
	// run is the runtime directory: where Podman keeps what it has mounted, and its namespaces.
	run  string
	lock *os.File // tells others that it is in use; nil where it is the parent's
}

// storePrefix is what the names of a store's directories begin with.
const storePrefix = "test-"

// UseStore makes a store, and has every Podman of this process and its children use it
// from now on. It may outlive a test, so it is the caller's to remove.
// A process that such a one started uses its store.
func UseStore() (*Store, error) {
	if dir := os.Getenv(podmanConf); dir != "" {
		return &Store{Dir: dir}, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	// Beside the shared one: on its file system, where root images can be linked.
	beside := filepath.Join(home, ".local/share/glovebox")
	removeStores(beside)
	s := &Store{}
	if s.Dir, err = os.MkdirTemp(beside, storePrefix); err != nil {
		return nil, err
	}
	s.run = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), filepath.Base(s.Dir))
	if s.lock, err = os.Open(s.Dir); err == nil {
		err = unix.Flock(int(s.lock.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = s.fill(beside)
	}
	if err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	for name, value := range map[string]string{
		podmanConf: s.Dir, "XDG_RUNTIME_DIR": s.run,
		"CONTAINERS_CONF": s.Dir + "/containers.conf", "CONTAINERS_STORAGE_CONF": s.Dir + "/storage.conf",
	} {
		if err := os.Setenv(name, value); err != nil {
			return nil, errors.Join(err, s.Remove())
		}
	}
	// The Podman that makes the namespaces doesn't end with the process that started it; what comes after joins them.
	cmd := exec.CommandContext(context.Background(), "podman", "unshare", "true")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("podman unshare true: %w: %s", err, out), s.Remove())
	}
	return s, nil
}

func (s *Store) fill(beside string) error {
	storage := fmt.Sprintf("[storage]\ndriver = \"overlay\"\nrootless_storage_path = %q\n[storage.options]\nadditionalimagestores = [%q]\n",
		s.Dir+"/storage", s.Dir+"/images")
	containers, err := os.ReadFile(filepath.Join(ToolsDir, "podman/containers.conf"))
	if err != nil {
		return err
	}
	err = errors.Join(
		copyImages(s.Dir+"/images", beside+"/storage"),
		os.WriteFile(s.Dir+"/storage.conf", []byte(storage), 0o600),
		os.WriteFile(s.Dir+"/containers.conf", withOwnLocks(containers), 0o600),
		os.Mkdir(s.Dir+"/roots", 0o700),
		os.Mkdir(s.run, 0o700),
	)
	if err != nil {
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

// copyImages makes a store of the images of another, whose layers it shares: additionalimagestores
// can name it. That other store itself can't be named beside commands that change it: whoever makes
// a container of its images locks images before layers there, whoever removes an image layers
// before images (containers/storage 1.43), and each waits for the other for ever.
func copyImages(to, from string) error {
	// In the order of whoever changes it, so that layers and images are of one moment.
	for _, name := range []string{"overlay-layers/layers.lock", "overlay-images/images.lock"} {
		f, err := os.OpenFile(filepath.Join(from, name), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close() // and with it the lock
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_RDLCK}); err != nil {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
	return errors.Join(
		os.CopyFS(to+"/overlay-layers", os.DirFS(from+"/overlay-layers")),
		os.CopyFS(to+"/overlay-images", os.DirFS(from+"/overlay-images")),
		os.Symlink(from+"/overlay", to+"/overlay"),
	)
}

// withOwnLocks is a configuration by which Podman's locks are in its runtime directory, and
// not with those of all the user's Podmans in /dev/shm.
func withOwnLocks(containers []byte) []byte {
	return bytes.Replace(containers, []byte("\n[engine]\n"), []byte("\n[engine]\nlock_type = \"file\"\n"), 1)
}

// InStore reports whether a path is of somebody's store of their own, or a command line that of a
// sandbox there: the shared one knows nothing of it.
func InStore(path string) bool {
	return strings.Contains(path, "/glovebox/"+storePrefix) || strings.Contains(path, os.Getenv("XDG_RUNTIME_DIR")+"/"+storePrefix)
}

// Remove removes the store, and all that is in it.
func (s *Store) Remove() error {
	if s.lock == nil {
		return nil
	}
	defer s.lock.Close()
	return removeStore(s.Dir, s.run)
}

// removeStore goes by Podman's namespaces, where the owners of the files can be reached.
func removeStore(dir, run string) error {
	cmd := exec.CommandContext(context.Background(), "podman", "unshare", "sh", "-c",
		`umount "$1/storage/overlay" 2>/dev/null; rm -rf "$1" "$2"/containers`, "sh", dir, run)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+run)
	if _, err := os.Stat(dir + "/storage.conf"); err == nil {
		cmd.Env = append(cmd.Env, "CONTAINERS_CONF="+dir+"/containers.conf", "CONTAINERS_STORAGE_CONF="+dir+"/storage.conf")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("remove %s: %w: %s", dir, err, out)
	}
	// podman itself makes the store once more when it ends.
	return errors.Join(endNamespaces(run), os.RemoveAll(dir), os.RemoveAll(run))
}

// endNamespaces ends the process that keeps the namespaces of a runtime directory, if it lives.
func endNamespaces(run string) error {
	pid, err := namespaces(run)
	if err != nil || pid == 0 {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// namespaces is the process that keeps the namespaces of a runtime directory, 0 where none does.
func namespaces(run string) (pid int, err error) {
	b, err := os.ReadFile(run + "/libpod/tmp/pause.pid")
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil {
		return 0, fmt.Errorf("%s/libpod/tmp/pause.pid: %w", run, err)
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if os.IsNotExist(err) {
		return 0, nil
	}
	// Of another process by now, where a suite was killed long ago.
	if err != nil || !strings.HasPrefix(string(command), "catatonit") && !strings.HasPrefix(string(command), "podman") {
		return 0, err
	}
	return pid, nil
}

// removeStores removes those of suites that were killed, as far as it can.
func removeStores(beside string) {
	dirs, err := filepath.Glob(beside + "/" + storePrefix + "*")
	if err != nil {
		return
	}
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = removeStore(dir, filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), filepath.Base(dir))) // or the next one does
		}
		f.Close()
	}
}
