package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/failpoint"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/internal/chartdata"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// output is the sandbox's Sink: it takes what a job makes while it is made. Artifacts go to S3
// as they come, streams are captured.
type output struct {
	objects        Objects
	keys           artifacts.Keys
	epoch          int64
	stdout, stderr capture
	events         *eventPublisher
	mask           *secrets.Mask

	shown     []byte // lines in which an interpreter says what it shows; the sandbox has bounded them
	artifacts []job.Artifact
	names     map[string]bool
	// skipped are files that came, and that this worker could not keep.
	skipped []job.Skipped
	// stored is how many bytes of these, and of streams, are in S3.
	stored int64
	// charts is how many bytes of charts' data the result has.
	charts int
	// dirty: something was begun in S3 that the result does not name.
	dirty bool
}

// newOutput returns the output of a job. cuts has its streams cut off where the disk is full; else that is an error.
func newOutput(w *Worker, keys artifacts.Keys, epoch int, events *eventPublisher, mask *secrets.Mask, cuts bool) *output {
	o := &output{
		objects: w.Objects, keys: keys, epoch: int64(epoch),
		stdout: capture{dir: w.SpoolDir, cuts: cuts, mask: mask.Stream()}, stderr: capture{dir: w.SpoolDir, cuts: cuts, mask: mask.Stream()},
		events: events, mask: mask,
		artifacts: []job.Artifact{}, names: map[string]bool{},
	}
	events.follow(&o.stdout, &o.stderr)
	return o
}

// Compiled tells what the compile step came to.
func (o *output) Compiled(c job.Compile) {
	c.Output = o.mask.Text(c.Output)
	o.events.setCompiled(c)
}

// Stdout keeps what the program printed. The sandbox has bounded it.
func (o *output) Stdout(p []byte) error {
	err := o.stdout.write(p)
	o.events.notify()
	failpoint.Hit(failpoint.Running)
	return err
}

// Stderr is Stdout's sibling.
func (o *output) Stderr(p []byte) error {
	err := o.stderr.write(p)
	o.events.notify()
	return err
}

// Shown keeps what an interpreter shows, as it says it.
func (o *output) Shown(p []byte) error {
	o.shown = append(o.shown, p...)
	return nil
}

// Artifact streams a file of the job to S3. size is what the sandbox says; it is taken only as
// the most bytes that may come.
func (o *output) Artifact(ctx context.Context, name string, size int64, r io.Reader) error {
	if err := o.admit(name); err != nil {
		return err
	}
	return o.put(ctx, name, size, r)
}

// admit takes note of a file that comes, once.
func (o *output) admit(name string) error {
	if problem := job.CheckName(name); problem != "" {
		return fmt.Errorf("store artifact %q: its name %s", name, problem)
	}
	if o.names[name] {
		return fmt.Errorf("store artifact %q: it came twice", name)
	}
	o.names[name] = true
	return nil
}

// put stores a file that was admitted.
func (o *output) put(ctx context.Context, name string, size int64, r io.Reader) error {
	o.dirty = true
	data := chartdata.NewReader(&firstRead{r: r})
	object, err := o.objects.Upload(ctx, o.keys.Artifact(o.epoch, name), data, artifacts.Options{Limit: max(size, 1), Name: name})
	if err != nil {
		return fmt.Errorf("store artifact %q: %w", name, err)
	}
	o.dirty = false
	o.stored += object.Size
	a := job.Artifact{
		Name: name, Size: object.Size, MediaType: object.MediaType, SHA256: object.SHA256, Kind: object.Kind,
		URL: "artifacts/" + name,
	}
	o.events.addArtifact(a)
	a.Chart = o.chart(data)
	o.artifacts = append(o.artifacts, a)
	return nil
}

// chart returns what a file says of its chart, without secrets, and without the data where the result has as much of them as it may; nil where it
// says nothing. A program can write anything there, so what can't be read is no error of ours: the result says it.
func (o *output) chart(data *chartdata.Reader) json.RawMessage {
	chart, text, err := data.Chart()
	switch {
	case err != nil:
		return o.brief(job.Chart{Type: "unknown"}, "its data can't be read: "+o.mask.Text(err.Error()))
	case text == nil:
		return nil
	}
	text = json.RawMessage(o.mask.Text(string(text)))
	if !json.Valid(text) { // a secret was more than a part of a string
		return o.brief(job.Chart{Type: chart.Type}, "its data hold a secret")
	}
	if o.charts+len(text) > job.MaxCharts {
		return o.brief(chart, fmt.Sprintf("its data are left out: the charts of a result have %d bytes at most", job.MaxCharts))
	}
	o.charts += len(text)
	return text
}

// brief is a chart without its data.
func (o *output) brief(chart job.Chart, why string) json.RawMessage {
	title, kind := o.mask.Text(chart.Title), o.mask.Text(chart.Type)
	return job.Chart{Type: kind, Title: title}.Brief(why)
}

// end is called when the program prints no more.
func (o *output) end(of sandbox.Outcome) error {
	return errors.Join(o.stdout.end(of.StdoutTruncated), o.stderr.end(of.StderrTruncated))
}

// storeStreams puts the streams that are too long for a result, or no text, in S3.
func (o *output) storeStreams(ctx context.Context, r *job.Result) error {
	for _, s := range []struct {
		capture *capture
		name    string
		key     string
		url     *string
	}{
		{&o.stdout, "stdout", o.keys.Stdout(o.epoch), &r.StdoutURL},
		{&o.stderr, "stderr", o.keys.Stderr(o.epoch), &r.StderrURL},
	} {
		if s.capture.inline() {
			continue
		}
		body, err := s.capture.all()
		if err != nil {
			return err
		}
		object, err := o.objects.Upload(ctx, s.key, body, artifacts.Options{Limit: s.capture.size, Name: s.name + ".txt"})
		if err != nil {
			return fmt.Errorf("store %s: %w", s.name, err)
		}
		o.stored += object.Size
		*s.url = s.name
	}
	return nil
}

func (o *output) close() error { return errors.Join(o.stdout.close(), o.stderr.close()) }

// firstRead hits a failpoint when an upload has begun.
type firstRead struct {
	r    io.Reader
	once sync.Once
}

func (f *firstRead) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	f.once.Do(func() { failpoint.Hit(failpoint.Uploading) })
	return n, err
}
