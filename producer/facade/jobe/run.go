package jobe

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

const (
	// patience is how long Jobe lets a run wait for a free place, unless the operator says otherwise.
	patience = 10 * time.Second
	// overloadSource is a source with which developers of clients see what an overload is like.
	overloadSource = "!** TESTING OVERLOAD EXCEPTION **!"
)

// errNoFile is a file that the client has to send first.
var errNoFile = errors.New("One or more of the specified files is missing/unavailable") //nolint:staticcheck // Jobe's words

// run runs a program and answers what it came to.
func run(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	ctx := r.Context()
	language, id, err := submit(ctx, c)
	if err != nil {
		refuseRun(w, r, c, err)
		return
	}
	result, err := c.Finish(ctx, w, id, c.Patience(patience))
	if err != nil {
		refuseRun(w, r, c, err)
		return
	}
	said, err := answer(ctx, c, language, result)
	if err != nil {
		refuseRun(w, r, c, err)
		return
	}
	said.write(w)
}

// refuseRun says why a program was not run. What another try may run is an overload.
func refuseRun(w http.ResponseWriter, r *http.Request, c *facade.Call, err error) {
	var bad facade.BadRequest
	code := job.CodeOf(err)
	switch {
	case errors.As(err, &bad):
		facade.Write(w, http.StatusBadRequest, bad.Error())
	case errors.Is(err, errNoFile):
		facade.Write(w, http.StatusNotFound, errNoFile.Error())
	case errors.Is(err, facade.ErrNoPlace), code == job.CodeQuotaExceeded, code == job.CodeUnavailable:
		overloaded().write(w)
	case errors.Is(err, job.ErrNotFound): // of the result, say: to CodeRunner a 404 means that files are to be sent
		facade.Write(w, http.StatusInternalServerError, "Server exception (the run's result is gone)")
	default:
		refuse(w, r, c.Host.Problem(r.Context(), err))
	}
}

// submit reads the request, and submits a job of it. What the body takes is given back then.
func submit(ctx context.Context, c *facade.Call) (language, string, error) {
	body, done, err := c.Host.Body(ctx)
	if err != nil {
		return language{}, "", err
	}
	defer done()
	languages, err := offered(ctx, c)
	if err != nil {
		return language{}, "", err
	}
	asked, err := readRunSpec(body, languages)
	if err != nil {
		return language{}, "", err
	}
	files, err := asked.find(ctx, c)
	if err != nil {
		return language{}, "", err
	}
	if asked.source == overloadSource {
		return language{}, "", facade.ErrNoPlace
	}
	maximums, err := c.Client.TenantMaximums(ctx)
	if err != nil {
		return language{}, "", err
	}
	spec := job.Spec{
		Runtime: asked.language.runtime, Commands: asked.language.commands(asked), Files: files, Entrypoint: asked.file,
		Stdin: asked.input, Limits: asked.limits(maximums), TruncateOutput: true,
	}
	facade.Fit(&spec, maximums)
	id, err := c.Submit(ctx, spec)
	return asked.language, id, err
}

// find returns the run's files, its source among them: a file of the client's with the source's name is there instead, and
// of several with one name the last.
func (s runSpec) find(ctx context.Context, c *facade.Call) ([]job.File, error) {
	names := []string{s.file}
	found := map[string]job.File{s.file: {Name: s.file, Content: s.source}}
	kept := map[string]job.File{} // by id: each is looked up once
	for _, f := range s.files {
		file, ok := kept[f.id]
		if !ok {
			var err error
			file, err = c.Client.FindFile(ctx, f.id)
			if errors.Is(err, job.ErrNotFound) {
				return nil, errNoFile
			}
			if err != nil {
				return nil, err
			}
			kept[f.id] = file
		}
		if _, again := found[f.name]; !again {
			names = append(names, f.name)
		}
		file.Name = f.name
		found[f.name] = file
	}
	files := make([]job.File, len(names))
	for i, name := range names {
		files[i] = found[name]
	}
	return files, nil
}
