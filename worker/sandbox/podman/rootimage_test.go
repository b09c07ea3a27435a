package podman_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
)

// rootImages runs infra/root-images.sh for images, and returns the directory of root images.
func rootImages(t *testing.T, images ...string) string {
	t.Helper()
	cmd := exec.Command("../../../infra/root-images.sh", images...) //nolint:noctx // clean-ups use it
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", cmd, err, out)
	}
	return store.Dir + "/roots"
}

// TestRootImage: a root image has the files of its image, each with its owner, mode and time,
// and a place for whatever a sandbox mounts, however hostile the image is to that. It goes when
// the image has gone.
func TestRootImage(t *testing.T) {
	t.Parallel()
	open(t)
	var file string
	t.Cleanup(func() { // after build's, which removes the image
		rootImages(t)
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", file, err)
		}
	})
	tag := build(t, "root-image", "FROM "+suite.image+` AS debian
RUN mkdir /x && cd /x && cp -L --parents /bin/bash /bin/cat /bin/stat $(ldd /bin/bash /bin/cat /bin/stat | grep -o '/[^ :]*[0-9]\>' | sort -u) . && \
    touch tmp sys glovebox-agent && ln -s /nowhere/x proc && \
    echo mine >owned && chown 1234:4321 owned && chmod 4750 owned && touch -d @1000000000 owned && echo all >linked && ln linked again && mkfifo fifo
FROM scratch
COPY --from=debian /x/ /
`)
	dir := rootImages(t, tag)
	id, err := podmanCLI("image", "inspect", "--format", "{{.Id}}", tag)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, id+".1.erofs")
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}

	o, k := run(t, bash(`while read -r _ at kind _; do
    case $at in / | /glovebox-agent | /proc | /sys | /tmp | /work | /dev/shm) echo "$at $kind" ;; esac
done </proc/mounts
cd /
stat -c '%n %u %g %a %Y' owned
stat -c '%n %F %h' linked again fifo
cat linked
for file in /new owned linked glovebox-agent/agent bin/bash; do { echo x >$file; } 2>/dev/null && echo "wrote $file"; done
echo x >/work/out`, in("root-image", tag)))
	want := `/ erofs
/glovebox-agent erofs
/work tmpfs
/tmp tmpfs
/proc proc
/sys sysfs
/dev/shm tmpfs
owned 1234 4321 4750 1000000000
linked regular file 2
again regular file 2
fifo fifo 1
all
`
	if o.Status != job.Succeeded || k.names() != "out" {
		t.Errorf("got %+v\n%s%s", o, k.stderr.String(), k.names())
	}
	if diff := cmp.Diff(slices.Sorted(strings.Lines(want)), slices.Sorted(strings.Lines(k.stdout.String()))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	rootImages(t, tag)
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("it was made again, %v", err)
	}
}

// TestNoDirectoryOfTheHost: with a root image no process serves the sandbox files of the
// host, and its own has no directory open, of the host or of the image, and no file of the host but
// its images and what the kernel says of processors.
func TestNoDirectoryOfTheHost(t *testing.T) {
	t.Parallel()
	open(t)
	prog := program("import json, os, time; os.listdir('/usr/bin'); print('on', flush=True); time.sleep(60)", in("no-directory", suite.image), limits(job.Limits{WallMS: 60_000}))
	meanwhile(t, prog)
	id, err := podmanCLI("ps", "-q", "--no-trunc", "--filter", "label=run.glovebox.job=no-directory", "--filter", "label=run.glovebox.instance="+instance)
	if err != nil || id == "" {
		t.Fatalf("its container is %q, %v", id, err)
	}
	look := []string{"unshare", "sh", "-c", `for pid; do cd /proc/$pid/fd && find -L . -maxdepth 1 -mindepth 1 -type d -printf 'directory %p\n' && find . -type l -printf '%l\n'; done`, "sh"}
	for _, process := range processesOf(t, id) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.Pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it was there for a moment, as Podman's own are
		}
		if err != nil {
			t.Fatal(err)
		}
		switch name, _, _ := strings.Cut(string(b), "\x00"); name {
		case "runsc-sandbox":
			look = append(look, strconv.Itoa(process.Pid))
		case "runsc-gofer":
			t.Error("it has a gofer")
		}
	}
	out, err := podmanCLI(look...)
	if err != nil {
		t.Fatalf("look at its descriptors: %v", err)
	}
	var images int
	for line := range strings.Lines(out) {
		file := strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(file, ".erofs"):
			images++
		case strings.HasPrefix(file, "directory "), strings.HasPrefix(file, "/") && !slices.Contains([]string{"/dev/null", "/cpu.cfs_quota_us", "/cpu.cfs_period_us", "/cpu.max"}, file) && !strings.HasPrefix(file, "/memfd:"):
			t.Errorf("it has %s open", file)
		}
	}
	if images != 2 {
		t.Errorf("it has %d images open, want its root and its agent:\n%s", images, out)
	}
}
