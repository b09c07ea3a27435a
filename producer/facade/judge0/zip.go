package judge0

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/glovebox-run/glovebox/job"
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

// unpack returns the files in a zip. It takes no more memory than maxExtract, however much the zip says or
// holds, and no name that leads elsewhere. Links, devices and folders are left out.
func unpack(archive []byte) ([]file, error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	switch {
	case errors.Is(err, zip.ErrInsecurePath): // each name is looked at below
	case err != nil:
		return nil, errors.New("is no zip archive")
	}
	if len(r.File) > maxEntries {
		return nil, fmt.Errorf("has more than %d entries", maxEntries)
	}
	var files []file
	at := map[string]int{}
	left := int64(maxExtract)
	for _, entry := range r.File {
		name := strings.TrimPrefix(entry.Name, "./")
		if strings.HasSuffix(name, "/") || !entry.Mode().IsRegular() {
			continue
		}
		if problem := job.CheckName(name); problem != "" {
			return nil, fmt.Errorf("has a file whose name %s", problem)
		}
		content, err := unpackOne(entry, left)
		if err != nil {
			return nil, err
		}
		left -= int64(len(content))
		if i, again := at[name]; again {
			files[i].content = content
			continue
		}
		at[name] = len(files)
		files = append(files, file{name, content})
		if len(files) > job.MaxFiles {
			return nil, fmt.Errorf("has more than %d files", job.MaxFiles)
		}
	}
	return files, nil
}

func unpackOne(entry *zip.File, most int64) ([]byte, error) {
	f, err := entry.Open()
	if err != nil {
		return nil, errors.New("has a file that can't be unpacked")
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, errors.New("has a file that can't be unpacked")
	case int64(len(content)) > most:
		return nil, fmt.Errorf("holds more than %d kilobytes", maxExtract>>10)
	}
	return content, nil
}
