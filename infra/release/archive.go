package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// archive writes what is below root as a gzipped tar whose names begin with prefix. Of each file it
// has the name, whether it can be executed, and what is in it: owners are root, and times the given one.
func archive(name, root, prefix string, date time.Time) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zip)
	// WalkDir's order is that of names.
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(filepath.Join(prefix, below)), ModTime: date, Mode: 0o644, Uname: "root", Gname: "root", Format: tar.FormatPAX}
		switch {
		case entry.IsDir():
			h.Typeflag, h.Name, h.Mode = tar.TypeDir, h.Name+"/", 0o755
			return w.WriteHeader(h)
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory", below)
		case info.Mode()&0o100 != 0:
			h.Mode = 0o755
		}
		h.Typeflag, h.Size = tar.TypeReg, info.Size()
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		content, err := os.Open(path)
		if err != nil {
			return err
		}
		defer content.Close()
		_, err = io.Copy(w, content)
		return err
	})
	if err != nil {
		return fmt.Errorf("archive %s: %w", prefix, err)
	}
	return errors.Join(w.Close(), zip.Close())
}
