package kattis

import (
	"cmp"
	"encoding/base64"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
)

// includes reads include/LANGUAGE/.
func (r *reader) includes(p *Problem) (map[string][]job.File, error) {
	all, err := r.list("include")
	if err != nil {
		return nil, err
	}
	includes := map[string][]job.File{}
	for _, e := range all {
		if !e.dir {
			continue
		}
		files, err := r.sources(p, e.path)
		if err != nil {
			return nil, err
		}
		if len(files) > 0 {
			includes[e.name] = files
		}
	}
	return includes, nil
}

// sources reads all files below a folder, with constants in them replaced.
func (r *reader) sources(p *Problem, dir string) ([]job.File, error) {
	all, err := r.tree(dir)
	if err != nil {
		return nil, err
	}
	var files []job.File
	total := int64(0)
	for _, e := range all {
		content, _, err := r.read(e.path, maxSource)
		if err != nil {
			return nil, err
		}
		if content, err = r.replaceConstants(p, e.path, content, maxSource); err != nil {
			return nil, err
		}
		if total += int64(len(content)); total > maxSource {
			largest := slices.MaxFunc(all, func(a, b entry) int { return cmp.Compare(a.size, b.size) })
			return nil, faultf(dir, "", "has more than %d bytes; its largest file is %s", maxSource, clip(largest.path))
		}
		files = append(files, fileOf(strings.TrimPrefix(e.path, dir+"/"), content))
	}
	return files, nil
}

// fileOf is text where it is UTF-8, and base64 otherwise.
func fileOf(name string, content []byte) job.File {
	if utf8.Valid(content) {
		return job.File{Name: name, Content: string(content)}
	}
	return job.File{Name: name, ContentBase64: base64.StdEncoding.EncodeToString(content)}
}

// ReadProgram reads all files of a program that is a folder, except for those whose names begin with a dot. Skipped says what else is left out, and why.
func ReadProgram(files fs.FS) (all []job.File, skipped []string, err error) {
	r := &reader{FS: files, program: true}
	all, err = r.sources(&Problem{}, ".")
	if err == nil && len(all) == 0 {
		err = errors.New("has no files")
	}
	return all, r.skipped, err
}
