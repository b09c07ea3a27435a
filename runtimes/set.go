package runtimes

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

const (
	definitionFile = "runtime.yaml"
	baseFolder     = "base"
	suite          = "trixie"

	// recipe counts changes of how Build builds; a new one makes every image out of date.
	recipe = "2"
)

//go:embed */*
var folders embed.FS

// Set is the runtimes of one tree. It doesn't change once loaded.
type Set struct {
	fsys     fs.FS
	base     string // name of the base's image
	runtimes []Runtime
	names    map[string]int // names and aliases
}

// Embedded returns the runtimes that this build of Glovebox brings.
func Embedded() (Set, error) { return Load(folders) }

// LoadDir is [Load] for a directory.
func LoadDir(dir string) (Set, error) { return Load(os.DirFS(dir)) }

// Load reads every folder of fsys that holds a runtime.yaml. A fault in one of them
// fails the whole: a runtime that vanished silently would be found out by its users.
func Load(fsys fs.FS) (Set, error) {
	set := Set{fsys: fsys, names: map[string]int{}}
	baseDigest, err := digestFolder(fsys, baseFolder, recipe)
	if err != nil {
		return Set{}, fmt.Errorf("read the base's folder: %w", err)
	}
	set.base = fmt.Sprintf("localhost/glovebox/base:%s-%s", suite, baseDigest)

	files, err := fs.Glob(fsys, "*/"+definitionFile)
	if err != nil {
		return Set{}, fmt.Errorf("list runtimes: %w", err)
	}
	for _, file := range files {
		r, err := load(fsys, path.Dir(file), baseDigest)
		if err != nil {
			return Set{}, fmt.Errorf("read %s: %w", file, err)
		}
		set.runtimes = append(set.runtimes, r)
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			if i, ok := set.names[name]; ok {
				return Set{}, fmt.Errorf("read %s: the name %q is taken by %s", file, name, set.runtimes[i].Name)
			}
			set.names[name] = len(set.runtimes) - 1
		}
	}
	if len(set.runtimes) == 0 {
		return Set{}, errors.New("there is no folder with a " + definitionFile)
	}
	if err := set.shareImages(); err != nil {
		return Set{}, err
	}
	return set, nil
}

// shareImages gives the runtimes without an image of their own the one that they name.
func (s Set) shareImages() error {
	for i, r := range s.runtimes {
		if r.imageOf == "" {
			continue
		}
		owner, ok := s.Lookup(r.imageOf)
		if !ok || owner.Name != r.imageOf || owner.imageOf != "" {
			return fmt.Errorf("read %s/%s: image: %q is no runtime with an image of its own", r.Name, definitionFile, r.imageOf)
		}
		if _, err := fs.Stat(s.fsys, path.Join(r.Name, "Containerfile")); err == nil {
			return fmt.Errorf("read %s/%s: image: there is a Containerfile, too", r.Name, definitionFile)
		}
		s.runtimes[i].image = owner.image
	}
	return s.checkBelow()
}

// checkBelow makes sure that what images are built from is the base's alone, so that no order of building is needed but one.
func (s Set) checkBelow() error {
	for _, r := range s.runtimes {
		for _, name := range r.below() {
			if other, ok := s.Lookup(name); !ok || other.Name != name || other.imageOf != "" || len(other.below()) > 0 {
				return fmt.Errorf("read %s/%s: on, with: %q is no runtime whose own image is built on the base", r.Name, definitionFile, name)
			}
		}
	}
	return nil
}

func load(fsys fs.FS, folder, baseDigest string) (Runtime, error) {
	text, err := fs.ReadFile(fsys, path.Join(folder, definitionFile))
	if err != nil {
		return Runtime{}, err
	}
	r, err := parse(folder, text)
	if err != nil {
		return Runtime{}, err
	}
	below := baseDigest
	for _, name := range r.below() {
		digest, err := digestFolder(fsys, name, baseDigest)
		if err != nil {
			return Runtime{}, fmt.Errorf("on, with: %w", err)
		}
		below += digest
	}
	digest, err := digestFolder(fsys, folder, below)
	if err != nil {
		return Runtime{}, err
	}
	if r.Session, r.SessionCode, err = sessionCommand(fsys, folder, r.Session); err != nil {
		return Runtime{}, err
	}
	for language, command := range r.Contexts {
		if r.Contexts[language], _, err = sessionCommand(fsys, folder, command); err != nil {
			return Runtime{}, err
		}
		if len(command) == 0 {
			return Runtime{}, fmt.Errorf("contexts: %s has no command", language)
		}
	}
	r.image = fmt.Sprintf("localhost/glovebox/%s:%s-%s", r.Name, r.Version, digest)
	return r, nil
}

// Lookup finds a runtime by its name or one of its aliases.
func (s Set) Lookup(nameOrAlias string) (Runtime, bool) {
	i, ok := s.names[nameOrAlias]
	if !ok {
		return Runtime{}, false
	}
	return s.runtimes[i], true
}

// Names returns every name and alias, sorted: what a job may call its runtime.
func (s Set) Names() []string {
	names := make([]string, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// List returns the runtimes, sorted by name.
func (s Set) List() []Runtime { return slices.Clone(s.runtimes) }

// Core returns those that are built unless others are asked for, sorted by name.
func (s Set) Core() []Runtime {
	return slices.DeleteFunc(s.List(), func(r Runtime) bool { return !r.Core })
}

// Images returns the names of the runtimes' images, each once.
func (s Set) Images() []string {
	var images []string
	for _, r := range s.runtimes {
		if !slices.Contains(images, r.Image()) {
			images = append(images, r.Image())
		}
	}
	return images
}

// notInImage are parts of a folder that its image doesn't depend on: changing a
// default limit, a test or how a session begins needs no new image.
func notInImage(name string) bool {
	return name == definitionFile || name == "README.md" || strings.HasPrefix(name, sessionPrefix) || strings.HasPrefix(name, "testdata/")
}

// digestFolder returns 12 hex digits that stand for the folder's content and for what
// lies below it.
func digestFolder(fsys fs.FS, folder, below string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", below)
	err := walkImage(fsys, folder, func(name string, content []byte) error {
		fmt.Fprintf(sum, "%q%d:", name, len(content))
		sum.Write(content)
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// walkImage calls do for each file of a folder that its image is made from, in order.
func walkImage(fsys fs.FS, folder string, do func(name string, content []byte) error) error {
	sub, err := fs.Sub(fsys, folder)
	if err != nil {
		return err
	}
	return fs.WalkDir(sub, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || notInImage(name) {
			return err
		}
		// An embedded tree has no hidden files; a directory's must not count either.
		if base := path.Base(name); base[0] == '.' || base[0] == '_' {
			return nil
		}
		file, err := sub.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		content, err := io.ReadAll(file)
		if err != nil {
			return err
		}
		return do(name, content)
	})
}
