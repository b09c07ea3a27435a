package convert

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/glovebox-run/glovebox/job"
)

// Bounds of a problem.
const (
	maxDescription = 4 << 20  // bytes of init.yml or problem.xml
	maxProgram     = 1 << 20  // bytes of a checker, a submission, or a header
	maxData        = 64 << 20 // bytes of an input or an answer: job.MaxTestBytes
	maxAll         = 4 << 30  // bytes that are read in all
	maxArchive     = 1 << 30  // bytes of an archive
	maxDirectory   = 4 << 20  // bytes of an archive's directory
)

// source is where a problem is read from, and counts what is read.
type source struct {
	fs.FS
	bytes int64
}

// data is a file of a problem. Its zero value is empty.
type data struct {
	files  fs.FS // nil for one that is made here
	path   string
	text   bool   // its lines are to end in \n, the last one, too
	made   []byte // where files is nil
	script bool   // it can be executed
}

func (s *source) exists(path string) (bool, error) {
	info, err := fs.Stat(s.FS, path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, faultf(path, "", "can't be read: %s", cause(err))
	}
	return info.Mode().IsRegular(), nil
}

// read reads a file of up to so many bytes. [fs.ErrNotExist] is passed on as it is.
func (s *source) read(files fs.FS, path string, most int64) ([]byte, error) {
	f, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, faultf(path, "", "can't be read: %s", cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, faultf(path, "", "is no file")
	}
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, faultf(path, "", "can't be read: %s", cause(err))
	}
	if int64(len(content)) > most {
		return nil, faultf(path, "", "is larger than %d bytes", most)
	}
	if s.bytes += int64(len(content)); s.bytes > maxAll {
		return nil, faultf(path, "", "with it, more than %d bytes are to be read of the problem", int64(maxAll))
	}
	return content, nil
}

// load reads what is to be written.
func (s *source) load(d data) ([]byte, error) {
	if d.files == nil {
		return d.made, nil
	}
	b, err := s.read(d.files, d.path, maxData)
	if err != nil {
		return nil, err
	}
	if d.text && len(b) > 0 {
		b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
		b = bytes.ReplaceAll(b, []byte("\r"), []byte("\n"))
		if b[len(b)-1] != '\n' {
			b = append(b, '\n')
		}
	}
	return b, nil
}

// checkPath checks a path that a problem names.
func checkPath(file, key, path string) error {
	if !fs.ValidPath(path) || path == "." {
		return faultf(file, key, "want a path inside the problem, without .. (got %s)", clip(path))
	}
	return nil
}

// cause is what went wrong, without the path, which is said beside it.
func cause(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}

// clip shortens a value for an error message.
func clip(s string) string { return job.Clip(s, 64) }
