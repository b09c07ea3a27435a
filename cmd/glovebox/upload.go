package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// uploadAbove is how large a file may be to go with the job itself. All of them together
// are bounded by limits.source_kb there.
const uploadAbove = 128 << 10

// uploadForSession is so for an execution of a session, which has 64 KiB in all.
const uploadForSession = 4 << 10

// takeLarge takes the files out of the options that have more than so many bytes: too many to go with the job.
func (o *specOptions) takeLarge(above int64) (large []string) {
	var small []string
	for _, f := range o.files {
		_, path := namedFile(f)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > above {
			large = append(large, f)
		} else {
			small = append(small, f) // and what is wrong with it is said where it is read
		}
	}
	o.files = small
	return large
}

// namedFile reads [NAME=]PATH.
func namedFile(f string) (name, path string) {
	name, path, named := strings.Cut(f, "=")
	if !named {
		return filepath.Base(f), f
	}
	return name, path
}

// upload puts large files where jobs find them.
func (a *app) upload(ctx context.Context, to producer.Uploader, large []string) ([]job.File, error) {
	var files []job.File
	for _, l := range large {
		f, err := uploadOne(ctx, to, l)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func uploadOne(ctx context.Context, to producer.Uploader, given string) (job.File, error) {
	name, path := namedFile(given)
	if problem := job.CheckName(name); problem != "" { // before it takes long
		return job.File{}, usagef("--file %s: the name %q %s", given, name, problem)
	}
	r, err := os.Open(path)
	if err != nil {
		return job.File{}, &failure{code: exitUsage, err: err}
	}
	defer r.Close()
	f, err := producer.UploadFile(ctx, to, name, r)
	if err != nil {
		return job.File{}, fmt.Errorf("--file %s: %w", given, err)
	}
	return f, nil
}
