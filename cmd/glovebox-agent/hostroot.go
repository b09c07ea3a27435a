package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// newRoot is where a sandbox's root is put together, in this mount namespace only.
const newRoot = "/tmp"

// hostTrees are what programs see of the host's file system, read-only: what its packages installed.
// Homes, /root, /opt, /srv, /run, /var, /mnt and what an operator has anywhere else are not there.
var hostTrees = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// hostSettings are what languages and libraries read in /etc: nothing that names users, machines or secrets.
var hostSettings = []string{
	"alternatives", "debian_version", "erlang", "fonts", "java-*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "lsb-release", "localtime",
	"magic", "matplotlibrc", "mime.types", "os-release", "perl", "python3*", "R", "services", "timezone",
}

// madeSettings are files of /etc that the host's own have no part in.
var madeSettings = map[string]string{
	"passwd": "root:x:0:0::/:/bin/sh\nglovebox:x:1000:1000::/tmp:/bin/bash\nnobody:x:65534:65534::/:/bin/sh\n",
	"group":  "root:x:0:\nglovebox:x:1000:\nnogroup:x:65534:\n",
	"hosts":  "127.0.0.1 localhost glovebox\n::1 localhost\n",
}

// devices are those of the host that any program may use.
var devices = []string{"null", "zero", "full", "random", "urandom"}

const (
	readOnly = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID
	noDevice = unix.MOUNT_ATTR_NODEV
)

// enterRoot makes the root that programs see, and leaves the host's for good. All that can be written to is
// memory, which ends with the sandbox: nothing of a program is ever on the host's disk, so nothing has to be removed.
func enterRoot(diskMB, shmMB int64) error {
	// What is mounted here is nobody else's, and the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leave the host's mounts: %w", err)
	}
	if err := tmpfs(newRoot, 1, "755"); err != nil {
		return err
	}
	for _, step := range []func() error{bindTrees, makeSettings, makeVar, makeDevices, mountProc} {
		if err := step(); err != nil {
			return err
		}
	}
	for dir, sizeMB := range map[string]int64{workDir: diskMB, "/tmp": diskMB, "/dev/shm": shmMB} {
		if err := tmpfs(newRoot+dir, sizeMB, "1777"); err != nil {
			return err
		}
	}
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	// The old root lies on the new one then, and is taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := attributes("/", readOnly|noDevice, 0); err != nil { // what is mounted below it is as it is to be
		return err
	}
	if err := unix.Sethostname([]byte("glovebox")); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	return nil
}

// tmpfs makes the directory, if it is not there, and mounts one.
func tmpfs(dir string, sizeMB int64, mode string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%dm,nr_inodes=%d,mode=%s", sizeMB, max(20_000, 64*sizeMB), mode)); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

// bindTrees gives the new root the host's programs and libraries.
func bindTrees() error {
	for _, name := range hostTrees {
		info, err := os.Lstat("/" + name)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink("/" + name)
			if err != nil {
				return err
			}
			if err := os.Symlink(target, filepath.Join(newRoot, name)); err != nil {
				return err
			}
		case info.IsDir():
			if err := bind("/"+name, filepath.Join(newRoot, name), readOnly|noDevice); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeSettings makes /etc.
func makeSettings() error {
	etc := filepath.Join(newRoot, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil {
		return err
	}
	for name, content := range madeSettings {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, pattern := range hostSettings {
		found, err := filepath.Glob("/etc/" + pattern)
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := bind(path, filepath.Join(etc, filepath.Base(path)), readOnly|noDevice); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// makeVar makes /var, where some programs look for a place for temporary files.
func makeVar() error {
	dir := filepath.Join(newRoot, "var")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return os.Symlink("/tmp", filepath.Join(dir, "tmp"))
}

// makeDevices makes /dev.
func makeDevices() error {
	dev := filepath.Join(newRoot, "dev")
	if err := os.Mkdir(dev, 0o755); err != nil {
		return err
	}
	for _, name := range devices {
		if err := bind("/dev/"+name, filepath.Join(dev, name), readOnly|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// mountProc mounts the processes of this sandbox. The kernel allows that only while the host's own /proc is there, whole.
func mountProc() error {
	dir := filepath.Join(newRoot, "proc")
	if err := os.Mkdir(dir, 0o555); err != nil {
		return err
	}
	if err := unix.Mount("proc", dir, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc (a container that hides parts of its own /proc can't have another): %w", err)
	}
	return nil
}

// bind makes what is at from, and mounted below it, appear at to.
func bind(from, to string, with uint64) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(to, 0o755)
	} else {
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("show %s: %w", from, err)
	}
	return attributes(to, with, unix.AT_RECURSIVE)
}

// attributes sets some of a mount's attributes; with AT_RECURSIVE, of all mounts below it, too.
func attributes(path string, set uint64, flags uint) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, path, flags, &unix.MountAttr{Attr_set: set}); err != nil {
		return fmt.Errorf("make %s read-only (Linux 5.12 can): %w", strings.TrimPrefix(path, newRoot), err)
	}
	return nil
}
