package podman_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// build builds an image from a Containerfile, which goes with the test, and returns its
// name. Jobs in it are called name.
func build(t *testing.T, name, file string, flags ...string) string {
	t.Helper()
	open(t)
	tag := "localhost/glovebox-test/" + name + ":" + strings.ToLower(instance)
	// Without the cache no build looks through the store for an image that it could use again, and
	// comes upon one that another test is removing.
	args := append([]string{"build", "-q", "--no-cache", "--isolation=chroot", "-t", tag, "-f", "-"}, flags...)
	cmd := exec.CommandContext(t.Context(), "podman", append(args, t.TempDir())...)
	cmd.Env = append(cmd.Environ(), podmanEnv()...)
	cmd.Stdin = strings.NewReader(file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", name, err, out)
	}
	t.Cleanup(func() {
		gone(t, name, gbtest.Patience)
		if _, err := podmanCLI("rmi", "-f", tag); err != nil {
			t.Errorf("remove image %s: %v", name, err)
		}
	})
	return tag
}

// in makes a program run in an image that build built.
func in(name, image string) func(*sandbox.Program) {
	return func(p *sandbox.Program) { p.Image, p.JobID = image, name }
}

// static is an image of one static program and nothing else, not even a directory.
func static(tb testing.TB) string {
	tb.Helper()
	open(tb) // the image that it is made from
	return "FROM " + suite.image + " AS debian\nFROM scratch\nCOPY --from=debian /sbin/ldconfig /tool\n"
}

// TestHostileImage: nothing in an image's configuration reaches the agent or the job, and
// no program in it brings rights.
func TestHostileImage(t *testing.T) {
	t.Parallel()
	open(t)
	tag := build(t, "hostile-image", `FROM `+suite.image+`
RUN cp /bin/bash /suid && chmod 6755 /suid && cp /usr/bin/python3 /capped && \
    python3 -c 'import os, struct; os.setxattr("/capped", "security.capability", struct.pack("<5I", 0x02000001, 1 << 7, 0, 0, 0))'
ENV LD_PRELOAD=/evil.so GODEBUG=execerrdot=0 GOTRACEBACK=system SECRET=image PATH=/evil HUGE=`+strings.Repeat("x", 200_000)+`
VOLUME /host /work/volume
HEALTHCHECK --interval=1s CMD touch /work/health
ENTRYPOINT ["/bin/echo", "image's entrypoint"]
CMD ["image's", "command"]
USER nobody
WORKDIR /nowhere
EXPOSE 80
STOPSIGNAL SIGSTOP
ONBUILD RUN false
`, "--format", "docker")
	o, k := run(t, bash(`env | sort; id -u; pwd; ls -d /host /work/volume /work/health 2>&1 | grep -c 'No such'
/suid -p -c 'grep -E "^(Uid|CapEff)" /proc/self/status'
/capped -c 'import os; os.setuid(0)' 2>&1 | tail -1`, in("hostile-image", tag)))
	want := "HOME=/tmp\nLANG=C.UTF-8\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" +
		"PWD=/work\nPYTHONDONTWRITEBYTECODE=1\nSHLVL=1\nTMPDIR=/tmp\n_=/usr/bin/env\n1000\n/work\n3\n" +
		"Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nPermissionError: [Errno 1] Operation not permitted\n"
	if k.stdout.String() != want {
		t.Errorf("got %+v\n%s\nwant\n%s", o, k.stdout.String(), want)
	}
}

// TestStaticImage: an image needs no more than the program that is run.
func TestStaticImage(t *testing.T) {
	t.Parallel()
	open(t)
	tag := build(t, "static", static(t))
	o, k := run(t, program("", in("static", tag), func(p *sandbox.Program) { p.Command = []string{"/tool", "--version"} }))
	if o.Status != job.Succeeded || !strings.HasPrefix(k.stdout.String(), "ldconfig ") {
		t.Errorf("got %+v\n%s%s", o, k.stdout.String(), k.stderr.String())
	}
}

// TestImageFiles: where an image has something else in the way of what a sandbox mounts,
// a job runs as always, or not at all.
func TestImageFiles(t *testing.T) {
	t.Parallel()
	open(t)
	for name, c := range map[string]struct {
		change string
		runs   bool // else it may
	}{
		"no-work":        {"rm -rf /work", true},
		"work-file":      {"rm -rf /work && touch /work", false},
		"work-root":      {"rm -rf /work && ln -s / /work", false},
		"work-up":        {"rm -rf /work && ln -s ../../../.. /work", false},
		"work-proc":      {"rm -rf /work && ln -s /proc /work", false},
		"work-etc":       {"rm -rf /work && ln -s /etc /work", false},
		"work-itself":    {"rm -rf /work && ln -s /work /work", false},
		"tmp-file":       {"rm -rf /tmp && touch /tmp", false},
		"tmp-proc":       {"rm -rf /tmp && ln -s /proc /tmp", false},
		"tmp-work":       {"rm -rf /tmp && ln -s /work /tmp", false},
		"agent-file":     {"cp /bin/sleep /glovebox-agent", true},
		"agent-link":     {"ln -s ../../../../../usr/bin/env /glovebox-agent", false},
		"agent-nowhere":  {"ln -s /nowhere/x /glovebox-agent", false},
		"agent-dir":      {"mkdir /glovebox-agent", false},
		"passwd-link":    {"rm /etc/passwd && ln -s /proc/self/fd/0 /etc/passwd", false},
		"passwd-hostile": {"echo root:x:1234:1234::/evil:/evil >/etc/passwd; echo x:x:0:root >/etc/group", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tag := build(t, name, "FROM "+suite.image+"\nRUN "+c.change+"\n")
			p := program(`
import os
status = dict(l.split(":\t") for l in open("/proc/self/status").read().splitlines() if ":\t" in l)
print(os.getresuid(), os.getcwd(), int(status["CapBnd"], 16), "gvisor" in open("/proc/version").read())
for path in ("/glovebox-agent", "/etc/x", "/x"):
    try: open(path, "w"); print("wrote", path)
    except OSError: pass
open("out", "w").write("x")
`, in(name, tag))
			k := &kept{}
			o, err := suite.podman.Run(t.Context(), p, k)
			if err != nil {
				if c.runs {
					t.Error(err)
				}
				t.Log("refused: ", err)
				return
			}
			if want := "(1000, 1000, 1000) /work 0 True\n"; o.Status != job.Succeeded || k.stdout.String() != want || k.names() != "out" {
				t.Errorf("got %+v\n%s%s%s", o, k.stdout.String(), k.stderr.String(), k.names())
			}
		})
	}
}

// TestShmLink is its own test because no build can change /dev with a command.
func TestShmLink(t *testing.T) {
	t.Parallel()
	open(t)
	tag := build(t, "shm", "FROM "+suite.image+" AS debian\nRUN mkdir /x && ln -s /glovebox-agent /x/shm\n"+
		"FROM "+suite.image+"\nCOPY --from=debian /x/ /dev/\n")
	p := program("import os; open('/dev/shm/x', 'w').write('x'); print(os.path.ismount('/dev/shm'))", in("shm", tag))
	k := &kept{}
	if o, err := suite.podman.Run(t.Context(), p, k); err == nil && (o.Status != job.Succeeded || k.stdout.String() != "True\n") {
		t.Errorf("got %+v\n%s%s", o, k.stdout.String(), k.stderr.String())
	}
}

// TestRefusedImage: an image that speaks to Podman, to gVisor or to a hook is not run.
func TestRefusedImage(t *testing.T) {
	t.Parallel()
	open(t)
	for name, flags := range map[string][]string{
		"io.podman.annotations.checkpoint.runtime.name": {"--annotation", "io.podman.annotations.checkpoint.runtime.name=crun"},
		"dev.gvisor.tar.rootfs.upper":                   {"--annotation", "dev.gvisor.tar.rootfs.upper=/etc/passwd"},
		"io.containers.capabilities":                    {"--label", "io.containers.capabilities=SETUID"},
		"wasi/wasm":                                     {"--os", "wasi", "--arch", "wasm"},
	} {
		id := "refused-" + strings.ToLower(name[len(name)-4:])
		// Its own label, or the build would find what another case has built.
		tag := build(t, id, "FROM scratch\nLABEL case="+id+"\n", append(flags, "--format", "oci")...)
		k := &kept{}
		p := program("", in(id, tag), func(p *sandbox.Program) { p.Command = []string{"/tool"} })
		if o, err := suite.podman.Run(t.Context(), p, k); !errors.Is(err, sandbox.ErrImageRefused) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %+v, %v, want a refusal that names it", name, o, err)
		}
	}
	tag := build(t, "described", static(t), "--format", "oci", "--label", "io.buildah.version=1",
		"--annotation", "org.opencontainers.image.title=x", "--annotation", "com.docker.official-images.bashbrew.arch=amd64")
	if _, err := suite.podman.Image(t.Context(), tag); err != nil {
		t.Errorf("what every builder adds: %v", err)
	}
}

// TestPinnedImage: a name with a digest is that image, or none, whatever becomes of tags.
func TestPinnedImage(t *testing.T) {
	t.Parallel()
	open(t)
	tag, other := build(t, "pinned", static(t)), build(t, "pinned-other", static(t)+"LABEL other=1\n")
	name, _, _ := strings.Cut(tag, ":")
	digest := imageDigest(t, tag)
	runs := func(image string) (sandbox.Outcome, error) {
		p := openAs(t, "pinned") // which remembers no image
		defer p.Close()
		return p.Run(t.Context(), program("", in("pinned", image), func(p *sandbox.Program) { p.Command = []string{"/tool", "--version"} }), &kept{})
	}
	if o, err := runs(name + "@" + digest); err != nil || o.Status != job.Succeeded || o.ImageDigest != digest {
		t.Errorf("got %+v, %v, want it to run as %s", o, err, digest)
	}
	if o, err := runs(name + "@" + imageDigest(t, other)); !errors.Is(err, sandbox.ErrNoImage) && !errors.Is(err, sandbox.ErrImageRefused) {
		t.Errorf("another's digest: got %+v, %v, want no run", o, err)
	}
	if _, err := podmanCLI("tag", other, tag); err != nil {
		t.Fatal(err)
	}
	if o, err := runs(name + "@" + digest); !errors.Is(err, sandbox.ErrNoImage) && !errors.Is(err, sandbox.ErrImageRefused) {
		t.Errorf("its tag was moved: got %+v, %v, want no run", o, err)
	}
}

func imageDigest(t *testing.T, tag string) string {
	t.Helper()
	digest, err := podmanCLI("inspect", "--type", "image", "--format", "{{.Digest}}", tag)
	if err != nil || !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("digest of %s: %q, %v", tag, digest, err)
	}
	return digest
}
