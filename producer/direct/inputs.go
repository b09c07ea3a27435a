package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// mostInputs is what a worker hands to a sandbox at most, whatever the limits are.
const mostInputs = 1 << 30

// pinInputs finds the files that are kept elsewhere, and notes in the spec what they are,
// so that the job is run with these or not at all. limits are all that the job will have.
// It fails with job.Invalid.
func (c *Client) pinInputs(ctx context.Context, spec job.Spec, limits job.Limits) (job.Spec, error) {
	// What a problem has is kept with it, and for as long after it as an upload that is asked for now.
	if spec.Problem == "" || spec.RunAt.After(time.Now()) {
		if err := c.holdTests(ctx, spec); err != nil {
			return spec, err
		}
	}
	if !slices.ContainsFunc(spec.Files, job.File.Kept) {
		return spec, nil
	}
	spec.Files = slices.Clone(spec.Files) // the caller's
	var invalid job.Invalid
	known := map[string][]job.Artifact{} // of jobs, not their results: there may be many
	total := int64(len(spec.Source))
	for i, f := range spec.Files {
		size := f.InlineBytes()
		if f.Kept() {
			var problems job.Invalid
			var err error
			if f.Upload != "" {
				problems, err = c.pinUpload(ctx, &spec.Files[i], spec.RunAt)
			} else {
				problems, err = c.pinArtifact(ctx, &spec.Files[i], known)
			}
			if err != nil {
				return spec, fmt.Errorf("look for files[%d]: %w", i, err)
			}
			for _, p := range problems {
				p.Field = fmt.Sprintf("files[%d].%s", i, p.Field)
				invalid = append(invalid, p)
			}
			size = spec.Files[i].Size
		}
		total = min(total+size, 2*mostInputs) // a sum of 256 sizes must not overflow
	}
	for _, l := range []struct {
		name string
		most int64
	}{{"limits.disk_mb", limits.DiskMB << 20}, {"limits.memory_mb", limits.MemoryMB << 20}, {"what any job is given", mostInputs}} {
		if total > l.most && invalid == nil {
			invalid = job.Invalid{{
				Field: "files", Value: fmt.Sprintf("%d bytes with source", total), Message: "are too large",
				Allowed: fmt.Sprintf("%d bytes (%s): the program needs room besides", l.most, l.name),
			}}
		}
	}
	if invalid != nil {
		return spec, invalid
	}
	return spec, nil
}

// mayRead fails where one of the files is what another job made, which a token without the scope read can't have. Each job, execution and step
// comes by it. A Client without a token goes on with what somebody set up who could.
func (c *Client) mayRead(files []job.File) job.Invalid {
	if c.token.ID == "" || c.token.May(job.ScopeRead) {
		return nil
	}
	i := slices.IndexFunc(files, func(f job.File) bool { return f.Artifact != "" })
	if i < 0 {
		return nil
	}
	return job.Invalid{{
		Field: fmt.Sprintf("files[%d].artifact", i), Value: fmt.Sprintf("%.120s", files[i].Artifact), Message: "needs a token with the scope read",
		Allowed: "files that come with the job, or uploads; this token's scopes: " + strings.TrimSpace(job.JoinScopes(c.token.Scopes)),
	}}
}

// mayReadFor is mayRead for a template's job, or for each step of its pipeline: what starts by itself reads what whoever sets that up may.
func (c *Client) mayReadFor(ctx context.Context, t job.Template) error {
	if c.token.ID == "" || c.token.May(job.ScopeRead) {
		return nil
	}
	var files []job.File
	for _, f := range t.Spec.Files {
		files = append(files, f.File)
	}
	if t.Pipeline != nil {
		for _, step := range t.Pipeline.Steps {
			for _, f := range step.Files {
				files = append(files, f.File)
			}
			of, err := c.Template(ctx, step.Template)
			if step.Template == "" || errors.Is(err, job.ErrNoTemplate) {
				continue
			}
			if err == nil && of.Pipeline == nil {
				err = c.mayReadFor(ctx, of)
			}
			if err != nil {
				return err
			}
		}
	}
	if invalid := c.mayRead(files); invalid != nil {
		invalid[0].Field = "template" // the caller has named that
		return invalid
	}
	return nil
}

// pinArtifact notes what the artifact is that f names. Others' jobs are answered for
// as if they did not exist.
func (c *Client) pinArtifact(ctx context.Context, f *job.File, known map[string][]job.Artifact) (job.Invalid, error) {
	id, name, _ := strings.Cut(f.Artifact, "/")
	if _, ok := known[id]; !ok {
		_, result, err := c.ended(ctx, id)
		if err != nil && !errors.Is(err, job.ErrNotFound) && !unreadable(err) {
			return nil, err
		}
		known[id] = result.Artifacts
	}
	i := slices.IndexFunc(known[id], func(a job.Artifact) bool { return a.Name == name })
	if i < 0 {
		return job.Invalid{{
			Field: "artifact", Value: fmt.Sprintf("%.120s", f.Artifact), Message: "names no artifact of a job of this tenant that has ended",
			Allowed: "<job id>/<name>, while that job is kept",
		}}, nil
	}
	a := known[id][i]
	return pin(f, a.Size, a.SHA256), nil
}

// pinUpload notes how large the upload is that f names, and keeps it until a while
// after it is to be used.
func (c *Client) pinUpload(ctx context.Context, f *job.File, from time.Time) (job.Invalid, error) {
	size, err := c.upload(ctx, f.Upload)
	if err == nil {
		err = c.records.HoldUpload(ctx, record.Upload{Tenant: c.tenant, SHA256: f.Upload, Size: size, Measured: true, From: from}, true)
	}
	switch {
	case errors.Is(err, job.ErrNotFound), errors.Is(err, record.ErrNoUpload), errors.Is(err, record.ErrUploadGoes):
		return job.Invalid{{
			Field: "upload", Value: f.Upload, Message: "names no stored upload of this tenant",
			Allowed: "the SHA-256 of content that was put where POST /v1/uploads said, in the last day",
		}}, nil
	case err != nil:
		return nil, err
	}
	return pin(f, size, f.Upload), nil
}

// pin notes in f what it is, and says where f had it otherwise.
func pin(f *job.File, size int64, sha256 string) job.Invalid {
	var invalid job.Invalid
	if f.SHA256 != "" && f.SHA256 != sha256 {
		invalid = append(invalid, job.FieldError{Field: "sha256", Value: f.SHA256, Message: "is not that of the file", Allowed: sha256 + ", or nothing"})
	}
	if f.Size != 0 && f.Size != size {
		invalid = append(invalid, job.FieldError{Field: "size", Value: f.Size, Message: "is not that of the file", Allowed: fmt.Sprintf("%d, or nothing", size)})
	}
	f.Size, f.SHA256 = size, sha256
	return invalid
}

// ended is a job of this tenant that has ended, and its result, its URLs still relative, or
// job.ErrNotFound. It gives back what it takes of memory: its callers read many, and keep what is known of artifacts.
func (c *Client) ended(ctx context.Context, id string) (r record.Record, result job.Result, err error) {
	if !c.owns(id) {
		return r, result, job.ErrNotFound
	}
	if r, err = c.records.Get(ctx, id); err != nil {
		return r, result, err
	}
	if !r.State.Final() {
		return r, result, job.ErrNotFound
	}
	held := &reservation{Memory: c.memory}
	defer held.keep(0)
	result, err = c.ForAnswer(c.tenant, held).result(ctx, r)
	return r, result, err
}
