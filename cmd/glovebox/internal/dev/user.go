package dev

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// podmanUser is who runs Podman and the worker.
type podmanUser struct {
	name, home string
	uid, gid   int
	credential *syscall.Credential // nil where it is us
	// runtimeDir is the user's XDG_RUNTIME_DIR.
	runtimeDir string
}

// anybody is who runs the worker where we are root, programs are isolated by processes, and infra/setup.sh has added nobody for it.
const anybody = "nobody"

// findUser returns who runs the worker, and Podman if there is one.
func (s *stack) findUser() (podmanUser, error) {
	if s.withPodman() {
		return findUser(s.PodmanUser, s.RuntimeDir)
	}
	name := s.PodmanUser
	if _, err := user.Lookup(name); err != nil && name == defaultUser {
		name = anybody
	}
	dir := s.RuntimeDir
	if self := os.Geteuid(); self != 0 && unix.Access(dir, unix.W_OK) != nil {
		if dir = fmt.Sprintf("/run/user/%d", self); unix.Access(dir, unix.W_OK) != nil { // nobody has logged in: a container's user
			dir = filepath.Join(os.TempDir(), fmt.Sprintf("glovebox-%d", self))
			if err := makeDir(dir, 0o700, self, os.Getegid()); err != nil {
				return podmanUser{}, err
			}
		}
	}
	return findUser(name, dir)
}

// findUser returns the user of that name where we are root, and ourselves elsewhere.
func findUser(name, xdgRuntimeDir string) (podmanUser, error) {
	self := os.Geteuid()
	var account *user.User
	var err error
	if self == 0 {
		account, err = user.Lookup(name)
		if err != nil {
			return podmanUser{}, fmt.Errorf("find the user who runs Podman: %w (infra/setup.sh adds it; GLOVEBOX_PODMAN_USER names another)", err)
		}
	} else if account, err = user.LookupId(strconv.Itoa(self)); err != nil {
		return podmanUser{}, fmt.Errorf("find out who we are: %w", err)
	}
	u := podmanUser{name: account.Username, home: account.HomeDir}
	if u.uid, err = strconv.Atoi(account.Uid); err != nil {
		return u, fmt.Errorf("read uid of %s: %w", u.name, err)
	}
	if u.gid, err = strconv.Atoi(account.Gid); err != nil {
		return u, fmt.Errorf("read gid of %s: %w", u.name, err)
	}
	if self != 0 {
		// su leaves the variable of whoever called it.
		if u.runtimeDir = xdgRuntimeDir; unix.Access(u.runtimeDir, unix.W_OK) != nil {
			u.runtimeDir = filepath.Join("/run/user", account.Uid)
		}
		if err := unix.Access(u.runtimeDir, unix.W_OK); err != nil {
			return u, fmt.Errorf("find the runtime directory %s: %w (infra/setup.sh makes it)", u.runtimeDir, err)
		}
		return u, nil
	}
	if u.uid == 0 {
		return u, fmt.Errorf("%s is root: Podman must run as an ordinary user", u.name)
	}
	groups, err := account.GroupIds()
	if err != nil {
		return u, fmt.Errorf("read groups of %s: %w", u.name, err)
	}
	u.credential = &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}
	for _, g := range groups {
		if gid, err := strconv.ParseUint(g, 10, 32); err == nil && int(gid) != u.gid {
			u.credential.Groups = append(u.credential.Groups, uint32(gid))
		}
	}
	// Nobody logs in as this user, so nobody else makes it.
	u.runtimeDir = filepath.Join("/run/user", account.Uid)
	if err := makeDir(u.runtimeDir, 0o700, u.uid, u.gid); err != nil {
		return u, err
	}
	return u, nil
}

// socketDir makes the directory for this instance's sockets, and in it one where the
// Podman user may make its own: nobody else can enter either.
func (u podmanUser) socketDir(instance string) (dir, podmanDir string, err error) {
	base := filepath.Join(u.runtimeDir, "glovebox")
	gid := u.gid
	if u.credential != nil {
		base = "/run/glovebox"
		if err := makeDir(base, 0o755, 0, 0); err != nil {
			return "", "", err
		}
	} else if err := makeDir(base, 0o700, u.uid, u.gid); err != nil {
		return "", "", err
	}
	dir = filepath.Join(base, instance)
	podmanDir = filepath.Join(dir, "podman")
	if err := makeDir(dir, 0o750, os.Geteuid(), gid); err != nil {
		return "", "", err
	}
	return dir, podmanDir, makeDir(podmanDir, 0o700, u.uid, gid)
}

// makeDir makes a directory with this mode and owner. One that is there must be a
// directory, and not a link to one.
func makeDir(path string, mode os.FileMode, uid, gid int) error {
	if err := os.Mkdir(path, mode); err == nil {
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			return fmt.Errorf("make directory: %w", err)
		}
		if err := os.Lchown(path, uid, gid); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		return nil
	} else if !os.IsExist(err) {
		return fmt.Errorf("make directory: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != uid {
		return fmt.Errorf("%s is there, but is no directory of uid %d: remove it", path, uid)
	}
	return nil
}

// environment is what every program of the user gets, made from nothing.
func (u podmanUser) environment() []string {
	return []string{
		"HOME=" + u.home, "USER=" + u.name, "LANG=C.UTF-8",
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
		"XDG_RUNTIME_DIR=" + u.runtimeDir,
		"CONTAINERS_CONF=" + filepath.Join(ToolsDir, "podman/containers.conf"),
		"CONTAINERS_STORAGE_CONF=" + filepath.Join(ToolsDir, "podman/storage.conf"),
	}
}
