package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const tree = "../.."

// manifest has what is tested of nfpm's configuration.
type manifest struct {
	Name, Arch, Version string
	Depends             []string
	Contents            []struct{ Src, Dst, Type string }
	Scripts             map[string]string
}

func manifestOf(t *testing.T, name string) manifest {
	t.Helper()
	var m manifest
	if err := yaml.Unmarshal(read(t, filepath.Join(tree, "infra/deb", name+".yaml")), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestDepends: the package depends on what infra/setup.sh installs for sandboxes, and a host needs
// nothing of another version than its own.
func TestDepends(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`(?m)^packages="(.*)"$`).FindSubmatch(read(t, filepath.Join(tree, "infra/setup.sh")))
	if found == nil {
		t.Fatal("infra/setup.sh has no packages")
	}
	depends := manifestOf(t, "glovebox-worker").Depends
	for _, name := range append(strings.Fields(string(found[1])), "glovebox (= ${VERSION}-1)", "glovebox-runsc (= ${VERSION}-1)") {
		if !slices.Contains(depends, name) {
			t.Errorf("glovebox-worker doesn't depend on %s", name)
		}
	}
}

// TestManifests: each file of a package is one that is made, and lies where Debian's policy has such.
func TestManifests(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`^(?:(?:bin|lib)/(?:glovebox.*|runsc)|package/completions/.*|package/.*\.gz)$`)
	inTree := func(src string) bool {
		places := []string{src}
		if rest, ok := strings.CutPrefix(src, "package/"); ok {
			places = []string{"infra/" + rest, "infra/deb/" + rest}
		}
		return slices.ContainsFunc(places, func(place string) bool {
			_, err := os.Stat(filepath.Join(tree, place))
			return err == nil
		})
	}
	for _, name := range packageNames {
		m := manifestOf(t, name)
		if m.Name != name || m.Arch != "${ARCH}" || m.Version != "${VERSION}" {
			t.Errorf("%s.yaml is of %s %s for %s", name, m.Name, m.Version, m.Arch)
		}
		copyright := false
		for _, c := range m.Contents {
			if c.Type != "symlink" && !made.MatchString(c.Src) && !inTree(c.Src) {
				t.Errorf("%s: there is no %s", name, c.Src)
			}
			if strings.HasPrefix(c.Dst, "/usr/local") || strings.HasPrefix(c.Dst, "/var") {
				t.Errorf("%s: %s is not for packages", name, c.Dst)
			}
			if conffile := c.Type == "config"; conffile != strings.HasPrefix(c.Dst, "/etc/") {
				t.Errorf("%s: %s has type %q", name, c.Dst, c.Type)
			}
			copyright = copyright || c.Dst == "/usr/share/doc/"+name+"/copyright"
		}
		if !copyright {
			t.Errorf("%s has no copyright", name)
		}
		for _, script := range m.Scripts {
			if !inTree(script) {
				t.Errorf("%s: there is no %s", name, script)
			}
		}
	}
}

// TestPackageText: nothing that a package has names what is in /usr/local, or lacks what it includes.
func TestPackageText(t *testing.T) {
	t.Parallel()
	for _, name := range packageNames {
		m := manifestOf(t, name)
		var files []string
		for _, c := range m.Contents {
			files = append(files, c.Src)
		}
		for _, script := range m.Scripts {
			files = append(files, script)
		}
		for _, file := range files {
			rest, ok := strings.CutPrefix(file, "package/")
			if !ok {
				continue
			}
			for _, place := range []string{"infra/", "infra/deb/"} {
				b, err := os.ReadFile(filepath.Join(tree, place, rest))
				if err != nil {
					continue // it is in the other one, or made
				}
				text, err := packageText(tree, string(b))
				if err != nil {
					t.Errorf("%s: %v", file, err)
				}
				for line := range strings.Lines(string(text)) {
					if strings.Contains(line, "/usr/local/lib") || strings.Contains(line, "/usr/local/bin/glovebox") || strings.Contains(line, "#INCLUDE") {
						t.Errorf("%s: %s", file, line)
					}
				}
			}
		}
	}
	text, err := packageText(tree, "#!/bin/sh\n#INCLUDE drain.sh\n/usr/local/lib/glovebox/x /usr/local/bin/glovebox-worker\n")
	if err != nil || !strings.Contains(string(text), "drain_worker() {") || !strings.HasSuffix(string(text), "\n/usr/lib/glovebox/x /usr/bin/glovebox-worker\n") {
		t.Errorf("got %v\n%s", err, text)
	}
	if _, err := packageText(tree, "#INCLUDE nothing.sh\n"); err == nil {
		t.Error("a script that includes nothing is packed")
	}
}

func TestLicences(t *testing.T) {
	t.Parallel()
	one, two, none := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, one, "LICENSE", "MIT\r\n", 0o644)
	write(t, one, "NOTICE.txt", "by us", 0o644)
	write(t, one, "license.go", "package one", 0o644)
	write(t, two, "LICENCE.txt", "MIT\n", 0o644)
	write(t, none, "README.md", "MIT", 0o644)
	l := licenceTexts{users: map[string][]string{}}
	if err := errors.Join(l.add("one", one), l.add("two", two)); err != nil {
		t.Fatal(err)
	}
	if err := l.add("none", none); err == nil {
		t.Error("a module without a licence is taken")
	}
	got := string(l.join())
	if strings.Count(got, "MIT") != 1 || !strings.Contains(got, "one\ntwo\n\nMIT\n") || !strings.Contains(got, "one\n\nby us\n") || strings.Contains(got, "package") {
		t.Errorf("got\n%s", got)
	}
}
