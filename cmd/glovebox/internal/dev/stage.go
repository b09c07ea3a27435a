package dev

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// staged are copies of the worker and the agent where the Podman user can read, but
// not change them. It can't enter root's home, where this tree may be.
type staged struct {
	worker, agent string
	lock          *os.File // tells others that these copies are in use
}

// stage copies the programs to a directory below dir that their digest names, so that
// two trees, or a tree and its next build, don't meet. Copies that nobody uses go.
func stage(t tools, dir string) (_ staged, err error) {
	sum := sha256.New()
	for _, path := range []string{t.worker, t.agent} {
		if err := digest(sum, path); err != nil {
			return staged{}, fmt.Errorf("stage programs: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return staged{}, fmt.Errorf("stage programs: %w", err)
	}
	own := filepath.Join(dir, hex.EncodeToString(sum.Sum(nil))[:16])
	s := staged{worker: filepath.Join(own, "glovebox-worker"), agent: filepath.Join(own, "glovebox-agent")}
	// A moment after we found the directory, someone else may clear it away.
	for range 10 {
		if err := copyPrograms(t, dir, own); err != nil {
			return staged{}, fmt.Errorf("stage programs: %w", err)
		}
		if s.lock, err = inUse(own); err == nil {
			return s, clearStaged(dir, own)
		}
	}
	return staged{}, fmt.Errorf("stage programs: %w", err)
}

// inUse locks a directory of copies, if it is there.
func inUse(own string) (*os.File, error) {
	lock, err := os.Open(own)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(own, "glovebox-agent")); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// copyPrograms makes own, complete or not at all.
func copyPrograms(t tools, dir, own string) (err error) {
	if _, err := os.Stat(own); err == nil {
		return nil
	}
	tmp, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	for name, from := range map[string]string{"glovebox-worker": t.worker, "glovebox-agent": t.agent} {
		if err := copyFile(from, filepath.Join(tmp, name)); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Rename(tmp, own); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	return nil
}

// clearStaged removes the copies that no dev uses.
func clearStaged(dir, own string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list staged programs: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if path == own {
			continue
		}
		if e.Name()[0] == '.' { // a copy in the making, or that of someone who died over it
			if info, err := e.Info(); err != nil || time.Since(info.ModTime()) < time.Hour {
				continue
			}
		}
		f, err := os.Open(path)
		if err != nil {
			continue // another dev clears as well
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			err = os.RemoveAll(path)
		}
		f.Close()
		if err != nil {
			return fmt.Errorf("remove staged programs: %w", err)
		}
	}
	return nil
}

func digest(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Chmod(0o755) // whatever the umask is
}
