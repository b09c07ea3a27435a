package runtimes

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// excludedFiles are parts of packages that no job reads. Licences stay.
var excludedFiles = []string{
	"path-exclude=/usr/share/doc/*",
	"path-include=/usr/share/doc/*/copyright",
	"path-exclude=/usr/share/info/*",
	"path-exclude=/usr/share/locale/*",
	"path-exclude=/usr/share/man/*",
}

// bootstrap makes the base's image from Debian's archive, whose signature mmdebstrap
// checks.
func (b *builder) bootstrap(ctx context.Context) error {
	folder := filepath.Join(b.dir, baseFolder)
	if err := b.unpack(baseFolder, folder); err != nil {
		return err
	}
	packages, err := os.ReadFile(filepath.Join(folder, "packages.txt"))
	if err != nil {
		return fmt.Errorf("read the base's packages: %w", err)
	}
	rootfs := filepath.Join(b.dir, "base.tar")
	args := []string{"--quiet", "--variant=minbase", "--keyring=" + keyring, "--include=" + strings.Join(words(packages), ",")}
	for _, option := range excludedFiles {
		args = append(args, "--dpkgopt="+option)
	}
	args = append(args, "--customize-hook=sh "+filepath.Join(folder, "customize.sh")+` "$1"`)
	if len(b.sources) > 0 {
		// Builds get the list as an input. What the mirror of this machine is called, and
		// perhaps a password in it, is nothing for an image that goes to a bucket.
		args = append(args, `--customize-hook=rm "$1/etc/apt/sources.list"`)
	}
	args = append(append(args, suite, rootfs), b.sources...)
	if _, err := run(commandOf(ctx, []string{"mmdebstrap"}, args...)); err != nil {
		return err
	}
	tar, err := os.Open(rootfs)
	if err != nil {
		return fmt.Errorf("open the root file system: %w", err)
	}
	defer tar.Close()
	load := b.podman(ctx, "import", "--quiet", "-", b.set.base)
	load.Stdin = tar
	if _, err := run(load); err != nil {
		return err
	}
	return os.Remove(rootfs) // most of what the directory holds
}

// words returns the words of a text whose comments start with #.
func words(text []byte) []string {
	var all []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		all = append(all, strings.Fields(line)...)
	}
	return all
}

// findSources returns apt's lines for the mirror: the one asked for, or those that this
// machine's own apt uses, with security updates. None means mmdebstrap's default.
func findSources(ctx context.Context, mirror string) ([]string, error) {
	if mirror != "" {
		return []string{source(mirror, suite)}, nil
	}
	mirror, err := aptMirror(ctx, "Debian")
	if err != nil || mirror == "" {
		return nil, err
	}
	lines := []string{source(mirror, suite), source(mirror, suite+"-updates")}
	security, err := aptMirror(ctx, "Debian-Security")
	if err != nil {
		return nil, err
	}
	if security != "" {
		lines = append(lines, source(security, suite+"-security"))
	}
	return lines, nil
}

func source(mirror, suite string) string { return fmt.Sprintf("deb %s %s main", mirror, suite) }

// aptMirror returns the first of apt's mirrors with the given label, "" if there is none.
func aptMirror(ctx context.Context, label string) (string, error) {
	out, err := run(commandOf(ctx, []string{"apt-get"}, "indextargets", "--format", "$(SITE)",
		"Created-By: Packages", "Origin: Debian", "Label: "+label))
	if err != nil {
		return "", fmt.Errorf("find apt's mirror: %w", err)
	}
	return firstServer(out), nil
}

// firstServer returns the first line that any machine can use. Debian's cloud images
// have lists of mirrors in files (mirror+file:), which a root file system in the
// making lacks, as it lacks a CD.
func firstServer(sites string) string {
	for site := range strings.Lines(sites) {
		site = strings.TrimSpace(site)
		if strings.HasPrefix(site, "http://") || strings.HasPrefix(site, "https://") {
			return site
		}
	}
	return ""
}
