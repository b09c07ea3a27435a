// Command release makes what a release of Glovebox consists of, from the last commit: static
// programs for each kind of machine, an archive and Debian packages of them, a bill of
// materials, checksums, and the signed statement of what all of it was built from.
//
// It is run by "make release", which chooses the version of Go and builds nfpm. Two runs on one
// commit make the same bytes: nothing of the time, the machine or the directory gets in.
// docs/release.md says how to make, verify and install a release.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/glovebox-run/glovebox/attest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	tree := flags.String("tree", ".", "directory of the tree")
	out := flags.String("out", "bin/release", "directory to make, in place of the one that is there")
	nfpm := flags.String("nfpm", "", "path of nfpm")
	archs := flags.String("arch", "amd64,arm64", "kinds of machines")
	printKey := flags.Bool("key", false, "print the public key of GLOVEBOX_RELEASE_KEY, and do nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// A directory whose name has a space, and isn't quoted, would be another one, which is deleted.
	if flags.NArg() > 0 {
		return fmt.Errorf("%q: want flags alone: where a directory's name has a space, quote it", flags.Args())
	}
	// It signs: openssl rand -base64 32 makes one. A wrong one is found before minutes of compiling.
	var signer *attest.Signer
	if seed := getenv("GLOVEBOX_RELEASE_KEY"); seed != "" {
		var err error
		if signer, err = attest.NewSigner(seed); err != nil {
			return fmt.Errorf("GLOVEBOX_RELEASE_KEY: %w", err)
		}
		if err := os.Unsetenv("GLOVEBOX_RELEASE_KEY"); err != nil { // what is built runs programs of others
			return err
		}
	}
	if *printKey {
		if signer == nil {
			return errors.New("GLOVEBOX_RELEASE_KEY is empty: openssl rand -base64 32 makes one")
		}
		return writeKeys(stdout, signer)
	}
	if err := replaceable(*out); err != nil {
		return err
	}
	kinds := strings.Split(*archs, ",")
	if err := canMake(kinds, exec.LookPath); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "glovebox-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	r := release{tree: filepath.Join(work, "tree"), work: work, out: filepath.Join(work, "out"), nfpm: *nfpm, stdout: stdout}
	if err := cloneCommit(ctx, *tree, r.tree); err != nil {
		return err
	}
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	for _, arch := range kinds {
		if err := r.make(ctx, arch); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	if err := r.writeSums(); err != nil {
		return err
	}
	if signer == nil {
		fmt.Fprintln(stdout, "unsigned: GLOVEBOX_RELEASE_KEY is empty")
	} else if err := r.sign(signer); err != nil {
		return err
	}
	if err := os.RemoveAll(*out); err != nil {
		return err
	}
	if err := os.CopyFS(*out, os.DirFS(r.out)); err != nil {
		return fmt.Errorf("copy to %s: %w", *out, err)
	}
	fmt.Fprintf(stdout, "%s of %s is in %s\n", r.source.version, r.source.commit, *out)
	return nil
}

// replaceable fails for a directory that has something else in it than a release: it is removed.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, sumsFile)); err != nil {
		return fmt.Errorf("-out %s: holds something else than a release: want a directory that is empty, has an older release, or is not there", dir)
	}
	return nil
}

// canMake fails for a kind of machine that no release is for, and where what infra/runsc/build.sh needs for another than this one is missing.
func canMake(kinds []string, find func(program string) (string, error)) error {
	emulators := map[string]string{"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}
	for _, arch := range kinds {
		emulator, known := emulators[arch]
		if !known {
			return fmt.Errorf("-arch %q: want amd64, arm64, or both with a comma between them", arch)
		}
		if arch == runtime.GOARCH {
			continue
		}
		if _, err := find(emulator); err != nil {
			return fmt.Errorf("-arch %s: gVisor's filters are compiled by a program for that machine, which %s runs: apt-get install qemu-user-static", arch, emulator)
		}
	}
	return nil
}

// release is one that is being made.
type release struct {
	tree, work, out, nfpm string
	stdout                io.Writer
	source                source // what all programs say that they were built from
}

// make makes all that is for one kind of machine.
func (r *release) make(ctx context.Context, arch string) error {
	root := filepath.Join(r.work, "linux_"+arch)
	programs, err := r.compile(ctx, root, arch)
	if err != nil {
		return err
	}
	licences, err := r.licences(ctx, programs)
	if err != nil {
		return err
	}
	if err := r.collect(ctx, root, licences); err != nil {
		return err
	}
	base := fmt.Sprintf("glovebox_%s_linux_%s", r.source.name(), arch)
	if err := archive(filepath.Join(r.out, base+".tar.gz"), root, "glovebox-"+r.source.name(), r.source.date); err != nil {
		return err
	}
	if err := writeBill(filepath.Join(r.out, base+".cdx.json"), r.source, arch, programs); err != nil {
		return err
	}
	return r.packages(ctx, root, arch)
}
