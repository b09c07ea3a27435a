package direct

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// leftAtOnce is how many jobs' results are read at once.
	leftAtOnce = 16
	// mostKept is what may be in memory of what jobs have left that one step reads, or that outputs of a run read of one step, decoded: 1 MiB of
	// outputs (job.MaxStepOutputsBytes) mostly takes 7 MiB, and 46 where each value is an object of one number.
	mostKept = 64 << 20
	// mostIdle is what may be in memory besides, as another step read it and a later one may.
	mostIdle = 8 << 20
	// lookKeeps is what a look takes for that, unless it keeps less than smallKept, which takes none.
	lookKeeps = mostKept + mostIdle
	smallKept = 1 << 20
	// artifactBytes is more than an artifact takes beside its name, once as it is and once as pointers look into it.
	artifactBytes = 1 << 10
)

// keptNeed is a step that has ended, and what takes so many bytes of it.
type keptNeed struct {
	pipelines.Need

	weight int64
}

// contextOf is what a step can point at.
func (c *Client) contextOf(ctx context.Context, d *pipelines.Definition, l *liveRun, name string) (pipelines.Context, error) {
	params, err := paramsOf(l)
	known := pipelines.Context{Params: params, Needs: map[string]pipelines.Need{}}
	var reads []string
	for _, need := range d.Steps[name].Needs {
		known.Needs[need] = l.state.Need(l.pipeline, need)
		if d.Reads(name, need) {
			reads = append(reads, need)
		}
	}
	l.makeRoom(reads)
	room := int64(mostKept)
	for _, need := range reads {
		if err != nil {
			break
		}
		var weight int64
		times := int64(1)
		if d.WhenReads(name, need) {
			times = 2
		}
		known.Needs[need], weight, err = c.need(ctx, l, need, room/times)
		room -= times * weight
	}
	return known, err
}

// makeRoom forgets what was kept of steps, where that is much and what is to be read now is not all among it.
func (l *liveRun) makeRoom(reads []string) {
	if l.kept <= mostIdle {
		return
	}
	all := !slices.ContainsFunc(reads, func(name string) bool {
		_, kept := l.needs[name]
		return !kept
	})
	for name, n := range l.needs {
		if !all || !slices.Contains(reads, name) {
			delete(l.needs, name)
			l.kept -= n.weight
		}
	}
}

// hold takes memory for so many bytes more. What a look may keep it takes at once: two that had some, and waited for more, might wait for each other.
func (l *liveRun) hold(ctx context.Context, weight int64) error {
	if l.kept+weight <= smallKept || l.memory.taken > 0 {
		return nil
	}
	return l.memory.Take(ctx, lookKeeps)
}

func paramsOf(l *liveRun) (map[string]any, error) {
	v, err := jsonvalue.Decode(l.Params)
	params, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("read parameters of run %s: %w", l.ID, errors.Join(err, errors.ErrUnsupported))
	}
	return params, nil
}

// need is a step that has ended, with what its jobs have left, and how many bytes that takes. Where that is more than room it is left out, and
// Fault says so.
func (c *Client) need(ctx context.Context, l *liveRun, name string, room int64) (need pipelines.Need, weight int64, err error) {
	need = l.state.Need(l.pipeline, name)
	tooLarge := need
	tooLarge.Fault = fmt.Sprintf("what its jobs left is too large to be read: it takes more than %d MiB of memory, together with that of other steps, and twice where when reads it", mostKept>>20)
	if kept, ok := l.needs[name]; ok && kept.weight > room {
		return tooLarge, 0, nil
	} else if ok {
		return kept.Need, kept.weight, nil
	}
	outputs := 0 // bytes of all jobs
	for first := 0; first < need.Count; first += leftAtOnce {
		ended, texts := make([]pipelines.Ended, min(leftAtOnce, need.Count-first)), [leftAtOnce][]byte{}
		reads, reading := errgroup.WithContext(ctx)
		for i := range ended {
			reads.Go(func() (err error) {
				ended[i], texts[i], err = c.left(reading, l, name, first+i)
				return err
			})
		}
		if err := reads.Wait(); err != nil {
			return need, 0, err
		}
		for i, e := range ended { // one is decoded at a time
			if texts[i] != nil {
				if e.Outputs, err = pipelines.ParseOutputs(texts[i]); err != nil {
					e.Fault = err.Error()
				}
			}
			if outputs += len(texts[i]); outputs > job.MaxStepOutputsBytes && e.Fault == "" {
				e.Outputs, e.Fault = nil, fmt.Sprintf("the jobs' %s have more than %d bytes together", job.OutputsFile, job.MaxStepOutputsBytes)
			}
			need.Jobs = append(need.Jobs, e)
			if weight += endedWeight(e); weight > room {
				return tooLarge, 0, nil
			}
			if err := l.hold(ctx, weight); err != nil {
				return need, 0, err
			}
		}
	}
	l.needs[name] = keptNeed{need, weight}
	l.kept += weight
	return need, weight, nil
}

// endedWeight is about how many bytes in memory what a job has left takes.
func endedWeight(e pipelines.Ended) int64 {
	weight := jsonvalue.Weight(e.Outputs)
	for _, a := range e.Artifacts {
		weight += artifactBytes + answerWeight*int64(len(a.Name))
	}
	return weight
}

// left is what a job of a run has left, without its outputs, and the text of these: nothing, if it never was, is gone or can't be read. Only where Redis or
// the bucket is away that is not known yet, and an error.
func (c *Client) left(ctx context.Context, l *liveRun, name string, index int) (e pipelines.Ended, outputs []byte, err error) {
	item := l.state.Steps[name].Items[index]
	e = pipelines.Ended{ID: l.JobID(name, index, item.Try)}
	r, result, err := c.ended(ctx, e.ID)
	switch {
	case errors.Is(err, job.ErrNotFound), errors.Is(err, artifacts.ErrNotFound):
		e.Gone = item.Status == job.Succeeded
		return e, nil, nil
	case unreadable(err):
		e.Gone, e.Fault = true, job.Clip(err.Error(), 200)
		return e, nil, nil
	case err != nil:
		return e, nil, fmt.Errorf("read result of job %s: %w", e.ID, err)
	}
	e.Artifacts = result.Artifacts
	for i := range e.Artifacts {
		e.Artifacts[i].Chart = nil // up to 256 KiB, of each of thousands of jobs
	}
	at := slices.IndexFunc(e.Artifacts, func(a job.Artifact) bool { return a.Name == job.OutputsFile })
	if at < 0 {
		return e, nil, nil
	}
	if size := e.Artifacts[at].Size; size > job.MaxOutputsBytes {
		e.Fault = fmt.Sprintf("%s has %d bytes, and up to %d are read", job.OutputsFile, size, job.MaxOutputsBytes)
		return e, nil, nil
	}
	f, err := locate(r, result, producer.ArtifactPath(job.OutputsFile))
	if err != nil {
		return e, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	text, err := c.objects.GetBytes(ctx, f.Key, job.MaxOutputsBytes)
	switch {
	case errors.Is(err, artifacts.ErrNotFound):
		e.Gone = item.Status == job.Succeeded
		return e, nil, nil
	case errors.Is(err, artifacts.ErrTooLarge):
		e.Fault = job.OutputsFile + " is larger than the result says"
		return e, nil, nil
	case err != nil:
		return e, nil, err
	}
	return e, text, nil
}
