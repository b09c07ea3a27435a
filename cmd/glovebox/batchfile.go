package main

import (
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/glovebox-run/glovebox/internal/jobstream"
	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
)

// batchFile is where the jobs of a batch are: a file, which can be read again, or
// standard input, which can't.
type batchFile struct {
	name  string
	again bool
	open  func() (io.ReadCloser, error)
}

func (a *app) batchFile(name string) batchFile {
	if name == "-" {
		return batchFile{"standard input", false, func() (io.ReadCloser, error) { return io.NopCloser(a.stdin), nil }}
	}
	return batchFile{name, true, func() (io.ReadCloser, error) { return os.Open(name) }}
}

// batchSource is a batchFile that is being read.
type batchSource struct {
	batchFile
	file   io.Closer
	stream *jobstream.Reader
	// Options that the file itself gives.
	options job.BatchOptions
}

// read opens the file. The caller closes what it returns.
func (f batchFile) read() (*batchSource, error) {
	file, err := f.open()
	if err != nil {
		return nil, &failure{code: exitUsage, err: err}
	}
	split := jobstream.Lines
	if filepath.Ext(f.name) == ".json" {
		split = jobstream.Object
	}
	s := &batchSource{batchFile: f, file: file}
	if s.stream, err = split(file, maxInput); err == nil && s.stream.Head != nil {
		s.options, err = strictjson.Decode[job.BatchOptions](s.stream.Head, "the batch")
	}
	if err != nil {
		file.Close()
		return nil, s.fault("", err)
	}
	return s, nil
}

func (s *batchSource) Close() error { return s.file.Close() }

// specs yields the jobs. What is no job ends it with what is wrong, and where.
func (s *batchSource) specs() iter.Seq2[job.Spec, error] {
	return func(yield func(job.Spec, error) bool) {
		for {
			item, err := s.stream.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			var spec job.Spec
			if err == nil {
				spec, err = strictjson.Decode[job.Spec](item.JSON, "the job")
			}
			if err != nil {
				err = s.fault(item.Where()+": ", err)
			}
			if !yield(spec, err) || err != nil {
				return
			}
		}
	}
}

func (s *batchSource) fault(where string, err error) error {
	var syntax *jobstream.SyntaxError
	if errors.As(err, &syntax) {
		where = "" // it says so itself
	}
	return usagef("%s: %s%w", s.name, where, err)
}

// count reads the whole file, to find what is wrong with it before anything is sent.
func (f batchFile) count() (n int, err error) {
	s, err := f.read()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for _, err := range s.specs() {
		if err != nil {
			return n, err
		}
		n++
	}
	if n == 0 || n > job.MaxBatch {
		return n, usagef("%s has %d jobs; a batch has 1 to %d", f.name, n, job.MaxBatch)
	}
	return n, nil
}
