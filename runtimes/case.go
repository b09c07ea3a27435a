package runtimes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

// Case is a job that a runtime must be able to run, and what must come of it. README.md
// describes the folder that it is read from.
type Case struct {
	Name string
	Spec job.Spec
	Want Want
}

// Want is what must come of a case.
type Want struct {
	Status   job.Status `json:"status"`
	ExitCode int        `json:"exit_code"`
	// Stdout is the whole of it.
	Stdout string `json:"stdout"`
	// StderrContains is a part of stderr. Without it, stderr must be empty.
	StderrContains string `json:"stderr_contains"`
	// Artifacts are the names of all of them, sorted.
	Artifacts []string `json:"artifacts"`
}

// Cases reads the testdata of the runtime with the given name.
func (s Set) Cases(runtime string) ([]Case, error) {
	r, ok := s.Lookup(runtime)
	if !ok {
		return nil, fmt.Errorf("read the cases of %q: there is no such runtime", runtime)
	}
	dir := path.Join(r.Name, "testdata")
	entries, err := fs.ReadDir(s.fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("read the cases of %s: %w", r.Name, err)
	}
	var cases []Case
	for _, entry := range entries {
		c, err := s.readCase(r, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read case %s of %s: %w", entry.Name(), r.Name, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

func (s Set) readCase(r Runtime, dir string) (Case, error) {
	c := Case{Name: path.Base(dir), Want: Want{Status: job.Succeeded}}
	sub, err := fs.Sub(s.fsys, dir)
	if err != nil {
		return c, err
	}
	if err := readJSON(sub, "want.json", &c.Want); err != nil {
		return c, err
	}
	if err := readJSON(sub, "job.json", &c.Spec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	err = fs.WalkDir(sub, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "want.json" || name == "job.json" {
			return err
		}
		content, err := fs.ReadFile(sub, name)
		if err != nil {
			return err
		}
		if !utf8.Valid(content) {
			return fmt.Errorf("%s is not text", name)
		}
		if name == r.File {
			c.Spec.Source = string(content)
		} else {
			c.Spec.Files = append(c.Spec.Files, job.File{Name: name, Content: string(content)})
		}
		return nil
	})
	c.Spec.Runtime = r.Name
	if err != nil {
		return c, err
	}
	return c, c.Spec.Check(s.Names(), nil, job.DefaultMaximums)
}

func readJSON(fsys fs.FS, name string, to any) error {
	text, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
