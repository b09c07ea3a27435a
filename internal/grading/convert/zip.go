package convert

import (
	"archive/zip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

var errDirectory = errors.New("its directory is too large")

// openZip opens an archive on disk.
func openZip(path string) (fs.FS, io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = faultf(filepath.Base(path), "", "is neither a folder nor a file")
	}
	var files fs.FS
	if err == nil {
		files, err = zipOf(filepath.Base(path), f, info.Size())
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return files, f, nil
}

// zipOf reads an archive's directory. The content of its files is read, and bounded, as any other is.
func zipOf(name string, r io.ReaderAt, size int64) (fs.FS, error) {
	if size > maxArchive {
		return nil, faultf(name, "", "is larger than %d bytes", int64(maxArchive))
	}
	bounded := &directoryReader{ReaderAt: r, left: maxDirectory}
	z, err := zip.NewReader(bounded, size)
	switch {
	case errors.Is(err, errDirectory):
		return nil, faultf(name, "", "its list of files is larger than %d bytes", maxDirectory)
	case err != nil:
		return nil, faultf(name, "", "is no zip archive: %s", err)
	}
	bounded.left = -1
	return z, nil
}

// directoryReader bounds what is read of an archive until its directory is known: each entry of that takes several times
// as much memory as bytes.
type directoryReader struct {
	io.ReaderAt
	left int64 // -1: the directory is known
}

func (r *directoryReader) ReadAt(p []byte, at int64) (int, error) {
	if r.left >= 0 {
		if r.left -= int64(len(p)); r.left < 0 {
			r.left = 0
			return 0, errDirectory
		}
	}
	return r.ReaderAt.ReadAt(p, at)
}

// archive opens an archive in a problem.
func (s *source) archive(path string) (fs.FS, io.Closer, error) {
	f, err := s.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	at, ok := f.(io.ReaderAt)
	var files fs.FS
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = faultf(path, "", "is no file")
	case !ok:
		err = faultf(path, "", "is an archive in another: unpack the outer one")
	default:
		files, err = zipOf(path, at, info.Size())
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return files, f, nil
}
