package judge0

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

const (
	// maxExtract is how much additional_files may hold, unpacked, in bytes (max_extract_size).
	maxExtract = 10240 << 10
	// maxEntries bounds what a zip lists, folders included.
	maxEntries = 4 * job.MaxFiles
)

// file is one of a zip's.
type file struct {
	name    string
	content []byte
}

// badArchivef is what is wrong with a zip.
func badArchivef(format string, args ...any) facade.BadRequest {
	return facade.BadRequest(fmt.Sprintf(format, args...))
}

// unpackWeight is how many times its size a file takes: as it is, in base64 in the spec, and in the spec as it is sent.
const unpackWeight = 4

// unpackHeld unpacks the additional files into memory that is taken before, until done. It fails with a facade.BadRequest,
// or where there is no memory.
func (s *submission) unpackHeld(ctx context.Context, c *facade.Call) (done func(), err error) {
	if len(s.Files) == 0 {
		return func() {}, nil
	}
	r, size, err := openArchive(s.Files)
	if err != nil {
		return nil, err
	}
	if done, err = c.Host.Work(ctx, unpackWeight*size); err != nil {
		return nil, err
	}
	if s.unpacked, err = unpack(r); err != nil {
		done()
	}
	return done, err
}

// entryMark begins what a zip's directory says of an entry (APPNOTE.TXT 4.3.12).
var entryMark = []byte("PK\x01\x02")

// openArchive returns a zip, and how large its files say they are.
func openArchive(archive []byte) (r *zip.Reader, size int64, err error) {
	if bytes.Count(archive, entryMark) > maxEntries { // before zip makes something of each
		return nil, 0, badArchivef("has more than %d entries", maxEntries)
	}
	r, err = zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // each name is looked at by unpack
		return nil, 0, errNoZip
	}
	left := uint64(len(archive))
	for _, entry := range r.File {
		if entry.CompressedSize64 > left { // entries that share their bytes would be unpacked again and again
			return nil, 0, errNoZip
		}
		left -= entry.CompressedSize64
		if entry.UncompressedSize64 > maxExtract {
			return nil, 0, errExtract
		}
		if size += int64(entry.UncompressedSize64); size > maxExtract {
			return nil, 0, errExtract
		}
	}
	return r, size, nil
}

const (
	errNoZip   = facade.BadRequest("is no zip archive")
	errExtract = facade.BadRequest("holds more than 10240 kilobytes")
)

// unpack returns the files in a zip. It takes no more memory than they say, however much they hold, and no name that
// leads elsewhere. Links, devices and folders are left out.
func unpack(r *zip.Reader) ([]file, error) {
	var files []file
	at := map[string]int{}
	for _, entry := range r.File {
		name := strings.TrimPrefix(entry.Name, "./")
		if strings.HasSuffix(name, "/") || !entry.Mode().IsRegular() {
			continue
		}
		if problem := job.CheckName(name); problem != "" {
			return nil, badArchivef("has a file whose name %s", problem)
		}
		content, err := unpackOne(entry)
		if err != nil {
			return nil, err
		}
		if i, again := at[name]; again {
			files[i].content = content
			continue
		}
		at[name] = len(files)
		files = append(files, file{name, content})
		if len(files) > job.MaxFiles {
			return nil, badArchivef("has more than %d files", job.MaxFiles)
		}
	}
	return files, nil
}

func unpackOne(entry *zip.File) ([]byte, error) {
	const bad = facade.BadRequest("has a file that can't be unpacked")
	f, err := entry.Open()
	if err != nil {
		return nil, bad
	}
	defer f.Close()
	content := make([]byte, entry.UncompressedSize64)
	if _, err := io.ReadFull(f, content); err != nil {
		return nil, bad
	}
	if n, err := f.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) { // it holds more than it says, or its checksum is wrong
		return nil, bad
	}
	return content, nil
}
