package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/glovebox-run/glovebox/internal/grading/kattis"
)

// MaxMemoryMB bounds the memory of a test, MiB; an operator allows less.
const MaxMemoryMB = 1 << 20

// Options say what a problem itself does not.
type Options struct {
	// TimeLimit is the CPU time of a test; 0 for the problem's own. DMOJ's site keeps it, not init.yml.
	TimeLimit time.Duration
	// MemoryMB is the memory of a test in MiB, up to [MaxMemoryMB]; 0 for the problem's own.
	MemoryMB int64
	// Name is what the problem is called if it has no name.
	Name string
}

// Report says what was imported.
type Report struct {
	From        string // "DMOJ" or "Polygon"
	Tests       int
	Groups      int // 0 where there are no points
	Submissions int
	Warnings    []string // what was left out, or is to be decided
}

// Import reads the problem in src, a folder or a zip archive, and writes it as a package into dst, a folder that is made
// for it and removed again if that fails. An error of the problem is a [*kattis.Error]; [fs.ErrExist] says that dst is
// there already.
func Import(src, dst string, o Options) (Report, error) {
	files, closer, err := open(src)
	if err != nil {
		return Report{}, err
	}
	defer closer.Close()
	p, err := read(files, o)
	if err != nil {
		return Report{}, err
	}
	defer p.close()
	if err := os.Mkdir(dst, 0o777); err != nil {
		return Report{}, err
	}
	if err := p.writeTo(dst); err != nil {
		return Report{}, errors.Join(err, os.RemoveAll(dst))
	}
	return p.report(), nil
}

// read reads a problem of either kind.
func read(files fs.FS, o Options) (*problem, error) {
	s := &source{FS: files}
	dmoj, err := s.exists(dmojFile)
	if err != nil {
		return nil, err
	}
	polygon, err := s.exists(polygonFile)
	if err != nil {
		return nil, err
	}
	p := &problem{source: s, name: o.Name}
	if err := p.readAs(dmoj, polygon, o); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *problem) readAs(dmoj, polygon bool, o Options) (err error) {
	switch {
	case dmoj && polygon:
		return faultf(dmojFile, "", "is there beside %s: which of the two is the problem? take the other away", polygonFile)
	case dmoj:
		err = p.readDMOJ()
	case polygon:
		err = p.readPolygon()
	default:
		return faultf(dmojFile, "", "is not there, nor is %s: want the folder of a problem of DMOJ, or a package of Polygon", polygonFile)
	}
	if err != nil {
		return err
	}
	if o.TimeLimit > 0 {
		p.timeLimit = o.TimeLimit
	}
	if o.MemoryMB > 0 {
		p.memoryMB = o.MemoryMB
	}
	return p.settle()
}

// writeTo writes the package, and reads it again: what can't be graded is found here, not by the next command.
func (p *problem) writeTo(dst string) error {
	root, err := os.OpenRoot(dst)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := p.write(root); err != nil {
		return err
	}
	_, made, err := kattis.Open(dst)
	if err != nil {
		return fmt.Errorf("the package that comes of it: %w", err)
	}
	return made.Close()
}

// open opens a folder, or a zip archive.
func open(src string) (fs.FS, io.Closer, error) {
	info, err := os.Stat(src)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		return openZip(src)
	}
	root, err := os.OpenRoot(src) // no link leads out of it
	if err != nil {
		return nil, nil, err
	}
	return root.FS(), root, nil
}

func faultf(file, key, format string, args ...any) error {
	return &kattis.Error{File: file, Key: key, Problem: fmt.Sprintf(format, args...)}
}
