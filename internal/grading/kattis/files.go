package kattis

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// Bounds of a package.
const (
	maxYAML     = 1 << 20  // bytes of a YAML file
	maxSource   = 16 << 20 // bytes of a file of a submission, or of include/
	maxEntries  = 20_000   // files and folders, in all
	maxDepth    = 16       // of folders in folders
	maxTestData = 64 << 20 // bytes of an input or an answer: job.MaxTestBytes
	maxAll      = 64 << 20 // bytes of all that is read at once: everything but inputs and answers
	maxConstant = 4 << 10  // bytes of a constant
)

// namePattern is the format's for names of files and folders; others are not looked at.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,254}$`)

// plainPath is for paths of such names.
var plainPath = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*(/[a-zA-Z0-9_][a-zA-Z0-9_.-]*)*$`)

// reader reads a package, and counts what it reads.
type reader struct {
	fs.FS
	entries int
	bytes   int64

	// program is set for what is no package, but somebody's program: its files may have any name that a job's files may have. Those
	// that begin with a dot are no part of it; skipped has what else can't be taken, and why.
	program bool
	skipped []string
}

// entry is a file or a folder, links followed.
type entry struct {
	name string
	path string
	dir  bool
	size int64
}

// list returns what a folder has, by name; nothing for one that is not there.
func (r *reader) list(dir string) ([]entry, error) {
	if strings.Count(dir, "/") > maxDepth {
		return nil, faultf(dir, "", "is more than %d folders deep", maxDepth)
	}
	all, err := fs.ReadDir(r, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, faultf(dir, "", "can't be read: %s", cause(err))
	}
	var found []entry
	project := slices.ContainsFunc(all, func(e fs.DirEntry) bool { return path.Ext(e.Name()) == ".csproj" })
	for _, e := range all {
		if !r.takes(dir, e.Name()) {
			continue
		}
		if project && slices.Contains([]string{"bin", "obj"}, e.Name()) { // of a C# project: dotnet has written sources there, too
			if r.program {
				r.skipped = append(r.skipped, fmt.Sprintf("%q is what a build of the project has made", path.Join(dir, e.Name())))
			}
			continue
		}
		if r.entries++; r.entries > maxEntries {
			return nil, faultf(dir, "", "the package has more than %d files and folders", maxEntries)
		}
		at := path.Join(dir, e.Name())
		info, err := fs.Stat(r, at) // of what a link leads to
		if err != nil {
			return nil, faultf(at, "", "can't be read: %s", cause(err))
		}
		if info.IsDir() || info.Mode().IsRegular() {
			found = append(found, entry{e.Name(), at, info.IsDir(), info.Size()})
		} else if r.program {
			r.skipped = append(r.skipped, fmt.Sprintf("%q is no file", at))
		}
	}
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

// takes reports whether a file or folder of that name is looked at.
func (r *reader) takes(dir, name string) bool {
	if !r.program {
		return namePattern.MatchString(name)
	}
	if strings.HasPrefix(name, ".") {
		return false
	}
	at := path.Join(dir, name)
	problem := job.CheckName(at)
	if problem != "" {
		r.skipped = append(r.skipped, fmt.Sprintf("the name %q %s", at, problem))
	}
	return problem == ""
}

// exists reports whether a folder is there that is not empty.
func (r *reader) exists(dir string) (bool, error) {
	all, err := r.list(dir)
	return len(all) > 0, err
}

// read returns what a file has; ok is false for one that is not there.
func (r *reader) read(file string, most int64) (content []byte, ok bool, err error) {
	f, err := r.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, faultf(file, "", "can't be read: %s", cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return nil, false, faultf(file, "", "is no file")
	}
	content, err = io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, false, faultf(file, "", "can't be read: %s", cause(err))
	}
	if int64(len(content)) > most {
		return nil, false, faultf(file, "", "is larger than %d bytes", most)
	}
	return content, true, r.count(file, int64(len(content)))
}

// count adds what a file takes.
func (r *reader) count(file string, bytes int64) error {
	if r.bytes += bytes; r.bytes > maxAll {
		return faultf(file, "", "with it, more than %d bytes are to be read of the package beside inputs and answers", maxAll)
	}
	return nil
}

func (r *reader) yaml(file string) (field, error) {
	text, ok, err := r.read(file, maxYAML)
	if err != nil || !ok {
		return field{file: file}, err
	}
	return parseYAML(file, text)
}

// tree returns all files below a folder.
func (r *reader) tree(dir string) ([]entry, error) {
	var files []entry
	all, err := r.list(dir)
	for _, e := range all {
		if !e.dir {
			files = append(files, e)
			continue
		}
		inner, err := r.tree(e.path)
		if err != nil {
			return nil, err
		}
		files = append(files, inner...)
	}
	return files, err
}

// cause is what went wrong, without the path, which is said beside it.
func cause(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	if strings.Contains(err.Error(), "escapes") {
		return "it leads out of the package"
	}
	return fmt.Sprint(err)
}
