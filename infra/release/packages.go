package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// packageNames are the Debian packages; each has a file of that name in infra/deb.
var packageNames = []string{"glovebox", "glovebox-runsc", "glovebox-worker"}

// inPackages are where a package has what infra's scripts install below /usr/local, which Debian's
// packages must leave alone.
var inPackages = strings.NewReplacer(
	"/usr/local/lib/glovebox", "/usr/lib/glovebox",
	"/usr/local/bin/glovebox", "/usr/bin/glovebox",
)

// collect adds to the programs below root what an archive has beside: what git knows of infra,
// except for what is for the source tree only, and the documents.
func (r *release) collect(ctx context.Context, root string, licences []byte) error {
	cmd := exec.CommandContext(ctx, "git", "ls-files", "-z", "infra", "LICENSE", "CHANGELOG.md", "docs/release.md", "docs/operations.md")
	cmd.Dir = r.tree
	list, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the tree's files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "infra/deb/") {
			continue
		}
		info, err := os.Stat(filepath.Join(r.tree, name))
		if err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(r.tree, name))
		if err != nil {
			return err
		}
		if err := put(filepath.Join(root, name), content, info.Mode()&0o755|0o644); err != nil {
			return err
		}
	}
	return put(filepath.Join(root, "THIRD-PARTY.txt"), licences, 0o644)
}

// packages makes the Debian packages of the programs and files below root.
func (r *release) packages(ctx context.Context, root, arch string) error {
	if err := r.packageFiles(ctx, root); err != nil {
		return err
	}
	if err := setTimes(root, r.source.date); err != nil {
		return err
	}
	deb, err := filepath.Abs(filepath.Join(r.tree, "infra/deb"))
	if err != nil {
		return err
	}
	nfpm, err := filepath.Abs(r.nfpm)
	if err != nil {
		return err
	}
	for _, name := range packageNames {
		r.say("package", fmt.Sprintf("%s %s-1 for %s", name, r.source.debian(), arch))
		cmd := exec.CommandContext(ctx, nfpm, "package", "--packager", "deb", "--config", filepath.Join(deb, name+".yaml"), "--target", r.out)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "ARCH="+arch, "VERSION="+r.source.debian(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.source.date.Unix(), 10))
		if err := quietly(cmd); err != nil {
			return err
		}
	}
	return nil
}

// packageFiles makes package/ below root: what packages have, and archives have otherwise or not.
func (r *release) packageFiles(ctx context.Context, root string) error {
	to := filepath.Join(root, "package")
	for _, pattern := range []string{"infra/*.sh", "infra/*.conf", "infra/podman/*", "infra/systemd/*", "infra/deb/*"} {
		files, err := filepath.Glob(filepath.Join(r.tree, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(filepath.Join(r.tree, "infra"), file)
			if err != nil {
				return err
			}
			b, err := packageText(r.tree, string(text))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := put(filepath.Join(to, strings.TrimPrefix(name, "deb/")), b, 0o644); err != nil {
				return err
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		cmd := exec.CommandContext(ctx, "go", "run", "./cmd/glovebox", "completion", shell)
		cmd.Dir = r.tree
		b, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("completions for %s: %w", shell, err)
		}
		if err := put(filepath.Join(to, "completions", shell), b, 0o644); err != nil {
			return err
		}
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	licences, err := os.ReadFile(filepath.Join(root, "THIRD-PARTY.txt"))
	if err != nil {
		return err
	}
	texts := map[string][]byte{"changelog.gz": changes, "third-party.gz": licences}
	for _, name := range packageNames {
		texts[name+".changelog.gz"] = r.source.debianChangelog(name)
	}
	for name, text := range texts {
		if err := put(filepath.Join(to, name), zipped(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// packageText is a text of infra's as packages have it: with their paths, and what "#INCLUDE name"
// names in the place of that line.
func packageText(tree, text string) ([]byte, error) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "#INCLUDE "); ok {
			included, err := os.ReadFile(filepath.Join(tree, "infra/deb", strings.TrimSpace(name)))
			if err != nil {
				return nil, fmt.Errorf("include: %w", err)
			}
			line = string(included)
		}
		b.WriteString(line)
	}
	return []byte(inPackages.Replace(b.String())), nil
}

// debianChangelog says in Debian's format that the changelog is elsewhere.
func (s source) debianChangelog(name string) []byte {
	return fmt.Appendf(nil, "%s (%s-1) unstable; urgency=medium\n\n  * %s, from commit %s.\n    CHANGELOG.md of the sources says what changed.\n\n"+
		" -- The Glovebox authors <glovebox-run@users.noreply.github.com>  %s\n", name, s.debian(), s.version, s.commit, s.date.UTC().Format(time.RFC1123Z))
}

// zipped is gzip --best --no-name.
func zipped(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		panic(err) // a buffer takes all, and the level is one
	}
	return b.Bytes()
}

// put makes a file with a mode of its own, whatever the umask is.
func put(name string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, content, mode); err != nil {
		return err
	}
	return os.Chmod(name, mode)
}

// setTimes gives the date to all files below root: packages keep files' times.
func setTimes(root string, date time.Time) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, date, date)
	})
}
