package runtimes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/internal/toolsdir"
)

// BuildOptions say what [Set.Build] builds, and with what.
type BuildOptions struct {
	// Names of runtimes to build. Defaults to the core.
	Names []string
	// All builds all, Names or not.
	All bool
	// Podman is the command of the Podman that owns the images, to which arguments are
	// added. Defaults to the script that infra/setup.sh installs, which runs Podman as
	// the user that Glovebox's Podman service runs as.
	Podman []string
	// RootImages is the command that makes root images of the images that are its arguments.
	// Defaults to the script that infra/setup.sh installs.
	RootImages []string
	// Mirror is the Debian mirror to use. Defaults to the one that apt uses, on a
	// Debian machine, and to mmdebstrap's own elsewhere.
	Mirror string
	// Out receives a line for each image. Defaults to nowhere.
	Out io.Writer
	// Force builds also what is there, to bring in newer packages.
	Force bool
	// Jobs is how many images are built at once. Defaults to one for each processor, 4 at most:
	// a build holds the packages of its image in memory and on the disk.
	Jobs int
}

// Both are infra/'s, where they are installed.
var (
	defaultPodman     = []string{filepath.Join(toolsdir.Path(), "podman.sh")}
	defaultRootImages = []string{filepath.Join(toolsdir.Path(), "root-images.sh")}
)

// builder is one call of Build.
type builder struct {
	BuildOptions
	set     Set
	dir     string   // removed at the end; the Podman user can read it
	inputs  string   // what every build is given, in dir
	sources []string // apt's, see findSources

	mu sync.Mutex // guards Out
}

// Build makes the images that are missing: the base, then each runtime's, then the root images
// of all. What it runs is quiet; its output becomes part of the error when it fails.
func (s Set) Build(ctx context.Context, options BuildOptions) (err error) {
	if len(options.Podman) == 0 {
		options.Podman = defaultPodman
	}
	if len(options.RootImages) == 0 {
		options.RootImages = defaultRootImages
	}
	if options.Out == nil {
		options.Out = io.Discard
	}
	if options.Jobs < 1 {
		options.Jobs = min(runtime.NumCPU(), 4)
	}
	chosen, err := s.choose(options)
	if err != nil {
		return err
	}
	built, err := s.Built(ctx, options.Podman)
	if err != nil {
		return err
	}
	b := &builder{BuildOptions: options, set: s}
	if b.dir, err = os.MkdirTemp("", "glovebox-build-"); err != nil {
		return fmt.Errorf("make a directory to build in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := os.Chmod(b.dir, 0o755); err != nil {
		return fmt.Errorf("open %s to the Podman user: %w", b.dir, err)
	}

	var missing []Runtime
	for _, r := range chosen {
		if built[r.Image()] && !b.Force {
			b.say(r.Name, "there: "+r.Image())
			continue
		}
		missing = append(missing, r)
	}
	if err := b.buildMissing(ctx, missing, built); err != nil {
		return err
	}
	return b.rootImages(ctx, chosen)
}

func (b *builder) buildMissing(ctx context.Context, missing []Runtime, built map[string]bool) (err error) {
	if len(missing) == 0 {
		return nil
	}
	if b.sources, err = findSources(ctx, b.Mirror); err != nil {
		return err
	}
	if !built[b.set.base] || b.Force {
		if err := b.timed(baseFolder, b.set.base, "", func() error { return b.bootstrap(ctx) }); err != nil {
			return err
		}
	}
	b.inputs = filepath.Join(b.dir, "inputs")
	if err := writeInputs(b.inputs, b.sources); err != nil {
		return err
	}
	return b.buildEach(ctx, missing)
}

// buildEach builds as many at once as Jobs says. One whose image is made from others' waits for them. After one
// has failed no other is begun, and those that are under way end.
func (b *builder) buildEach(ctx context.Context, missing []Runtime) error {
	ended := map[string]chan struct{}{}
	for _, r := range missing {
		ended[r.Name] = make(chan struct{})
	}
	slots := make(chan struct{}, b.Jobs)
	var failed atomic.Bool
	var count atomic.Int32
	var group errgroup.Group
	for _, r := range missing {
		group.Go(func() error {
			defer close(ended[r.Name])
			for _, name := range r.below() {
				if below, ok := ended[name]; ok {
					<-below
				}
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			if failed.Load() || ctx.Err() != nil {
				return ctx.Err()
			}
			err := b.timed(r.Name, r.Image(), fmt.Sprintf(", %d of %d", count.Add(1), len(missing)), func() error { return b.build(ctx, r) })
			failed.CompareAndSwap(false, err != nil)
			return err
		})
	}
	return group.Wait()
}

// rootImages makes what sandboxes have as their root.
func (b *builder) rootImages(ctx context.Context, chosen []Runtime) error {
	var images []string
	for _, r := range chosen {
		images = append(images, r.Image())
	}
	return MakeRootImages(ctx, b.RootImages, images, b.Out)
}

// MakeRootImages makes root images of images, with the command of infra/root-images.sh, which says what it does.
func MakeRootImages(ctx context.Context, command, images []string, out io.Writer) error {
	cmd := commandOf(ctx, command, images...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &stderr // it takes seconds for each, and says so
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make root images: %s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return nil
}

// choose returns the runtimes whose images are to be there, each image once.
func (s Set) choose(options BuildOptions) ([]Runtime, error) {
	var asked []Runtime
	switch {
	case options.All:
		asked = s.List()
	case len(options.Names) == 0:
		asked = s.Core()
	}
	for _, name := range options.Names {
		r, ok := s.Lookup(name)
		if !ok {
			return nil, fmt.Errorf("there is no runtime %q: choose among %s", name, strings.Join(s.Names(), ", "))
		}
		asked = append(asked, r)
	}
	var chosen []Runtime
	add := func(r Runtime) {
		if !slices.ContainsFunc(chosen, func(c Runtime) bool { return c.Name == r.Name }) {
			chosen = append(chosen, r)
		}
	}
	for _, r := range asked {
		if r.imageOf != "" {
			r, _ = s.Lookup(r.imageOf)
		}
		for _, name := range r.below() { // first
			below, _ := s.Lookup(name)
			add(below)
		}
		add(r)
	}
	return chosen, nil
}

// imageBelow is the image on which that of the runtime is built.
func (s Set) imageBelow(r Runtime) string {
	if r.on == "" {
		return s.base
	}
	below, _ := s.Lookup(r.on)
	return below.Image()
}

// build makes the image of one runtime, on the base or on that of another.
func (b *builder) build(ctx context.Context, r Runtime) error {
	folder := filepath.Join(b.dir, r.Name)
	if err := b.unpack(r.Name, folder); err != nil {
		return err
	}
	args := []string{
		"build", "--quiet", "--pull=never", "--layers=false",
		// Needs no OCI runtime, so that builds too can do without crun.
		"--isolation=chroot",
		"--build-arg", "BASE=" + b.set.imageBelow(r),
		// There while the image is built, and not in it.
		"--volume", b.inputs + ":/run/build:ro",
		"--tag", r.Image(),
	}
	for _, name := range r.with {
		other, _ := b.set.Lookup(name)
		args = append(args, "--build-arg", "WITH_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"="+other.Image())
	}
	if registry := os.Getenv("npm_config_registry"); registry != "" {
		args = append(args, "--build-arg", "npm_config_registry="+registry)
	}
	_, err := run(b.podman(ctx, append(args, folder)...))
	return err
}

// unpack writes a folder of the set, which may be embedded, where Podman can read it.
func (b *builder) unpack(folder, to string) error {
	return walkImage(b.set.fsys, folder, func(name string, content []byte) error {
		file := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("unpack %s: %w", folder, err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("unpack %s: %w", folder, err)
		}
		return nil
	})
}

// writeInputs fills what a build finds in /run/build: apt's sources, and the certificate
// authorities that this machine trusts, for mirrors and proxies that need them.
func writeInputs(dir string, sources []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write the build's inputs: %w", err)
	}
	bundle := os.Getenv("SSL_CERT_FILE")
	if bundle == "" {
		bundle = "/etc/ssl/certs/ca-certificates.crt"
	}
	certificates, err := os.ReadFile(bundle)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the certificate authorities: %w", err)
	}
	files, aptConf := map[string]string{"ca-certificates.crt": string(certificates)}, ""
	if len(certificates) > 0 {
		aptConf += "Acquire::https::CAInfo \"/run/build/ca-certificates.crt\";\n"
	}
	if len(sources) > 0 { // without, the base has mmdebstrap's
		files["sources.list"] = strings.Join(sources, "\n") + "\n"
		aptConf += "Dir::Etc::SourceList \"/run/build/sources.list\";\n"
	}
	files["apt.conf"] = aptConf
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the build's inputs: %w", err)
		}
	}
	return nil
}

func (b *builder) podman(ctx context.Context, args ...string) *exec.Cmd {
	return commandOf(ctx, b.Podman, args...)
}

// commandOf is a command that is asked to end when ctx does. Killed, infra/podman.sh would leave a Podman that
// goes on, and we would wait for it, as it has our pipes.
func commandOf(ctx context.Context, argv []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], slices.Concat(argv[1:], args)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endDelay
	return cmd
}

// endDelay is how long a command may take to end that has been asked to.
const endDelay = 10 * time.Second

func (b *builder) timed(name, image, which string, do func() error) error {
	start := time.Now()
	b.say(name, "building "+image+which)
	if err := do(); err != nil {
		return fmt.Errorf("build %s: %w", image, err)
	}
	b.say(name, fmt.Sprintf("built in %.0f s", time.Since(start).Seconds()))
	return nil
}

func (b *builder) say(name, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.Out, "  %-9s %s\n", name, what)
}

// run returns what the command printed. Its error holds all that it said.
func run(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String(), nil
}
