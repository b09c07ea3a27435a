package piston

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// patience is how long a program may wait for its turn, unless the operator says otherwise. Piston itself has no bound.
const patience = time.Minute

func noPlace(c *facade.Call) string {
	return fmt.Sprintf("no place was free within %s", c.Patience(patience))
}

// execute runs a program and answers what it did.
func execute(w http.ResponseWriter, r *http.Request, c *facade.Call) {
	if !checkMediaType(r) {
		writeMessage(w, http.StatusUnsupportedMediaType, "requests must be of type application/json")
		return
	}
	ctx := r.Context()
	program, id, err := submit(ctx, c)
	if err != nil {
		refuseExecute(w, r, c, err)
		return
	}
	result, err := c.Finish(ctx, w, id, c.Patience(patience))
	if err != nil {
		refuseExecute(w, r, c, err)
		return
	}
	switch result.Status {
	case job.Canceled:
		writeMessage(w, http.StatusInternalServerError, "the program was canceled")
		return
	case job.InternalError:
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	said, err := answer(ctx, c, program, result)
	if err != nil {
		refuseExecute(w, r, c, err)
		return
	}
	said.write(w)
}

// refuseExecute says why a program was not run.
func refuseExecute(w http.ResponseWriter, r *http.Request, c *facade.Call, err error) {
	var bad facade.BadRequest
	var invalid job.Invalid
	switch {
	case errors.As(err, &bad):
		writeMessage(w, http.StatusBadRequest, bad.Error())
	case errors.Is(err, facade.ErrNoPlace):
		w.Header().Set("Retry-After", "5")
		writeMessage(w, http.StatusServiceUnavailable, noPlace(c))
	case errors.As(err, &invalid) && len(invalid) > 0:
		writeMessage(w, http.StatusBadRequest, inOurWords(invalid[0]))
	default:
		refuse(w, r, c.Host.Problem(r.Context(), err))
	}
}

// submit reads the request, and submits a job of it. What the body takes is given back then.
func submit(ctx context.Context, c *facade.Call) (program runtime, id string, err error) {
	body, done, err := c.Host.Body(ctx)
	if err != nil {
		return program, "", err
	}
	defer done()
	program, spec, err := specOf(ctx, c, body)
	if err != nil {
		return program, "", err
	}
	id, err = c.Submit(ctx, spec)
	return program, id, err
}

// specOf makes a job of a request's text.
func specOf(ctx context.Context, c *facade.Call, body []byte) (runtime, job.Spec, error) {
	asked, err := readRequest(body)
	if err != nil {
		return runtime{}, job.Spec{}, err
	}
	list, err := runtimes(ctx, c)
	if err != nil {
		return runtime{}, job.Spec{}, err
	}
	program, ok := find(list, asked.language, asked.version)
	if !ok {
		return program, job.Spec{}, facade.BadRequest(job.Clip(asked.language, 100) + "-" + job.Clip(asked.version, 100) + " runtime is unknown")
	}
	maximums, err := c.Client.TenantMaximums(ctx)
	if err != nil {
		return program, job.Spec{}, err
	}
	spec, err := program.language.spec(asked, maximums)
	facade.Fit(&spec, maximums)
	return program, spec, err
}

// spec is the job of a request.
func (l language) spec(asked request, maximums job.Limits) (job.Spec, error) {
	limits, err := limitsOf(asked.limits, maximums)
	if err != nil {
		return job.Spec{}, err
	}
	spec := job.Spec{
		Runtime: l.runtime, Commands: l.commands, Args: asked.args, Stdin: asked.stdin, Limits: limits,
		Env: map[string]string{"PISTON_LANGUAGE": l.name},
	}
	if !strings.HasSuffix(spec.Stdin, "\n") {
		spec.Stdin += "\n"
	}
	first := l.main(asked.files)
	if first < 0 {
		return spec, facade.BadRequest("files must include at least one utf8 encoded file")
	}
	main := ""
	for i, f := range asked.files {
		name := f.name
		switch {
		case i == first:
			main = l.mainFile(name, func(name string) bool {
				return slices.ContainsFunc(asked.files, func(f file) bool { return name != "" && f.name == name })
			})
			if name = main; name == "" { // the runtime has a name for it, which isn't known here
				spec.Source = string(f.content)
				continue
			}
		case name == "":
			name = fmt.Sprintf("file%d%s", i, unnamed)
			fallthrough
		default:
			if f.utf8 {
				name = l.besideFile(name)
			}
		}
		spec.Files = append(spec.Files, jobFile(name, f.content))
	}
	spec.Entrypoint = main
	if l.commands != nil {
		spec.Args = append([]string{main}, spec.Args...)
	}
	return spec, nil
}

// main is the place of the main file: the first source. Where all sources are compiled, a header is none, unless there is
// nothing else.
func (l language) main(files []file) int {
	i := slices.IndexFunc(files, func(f file) bool { return (f.utf8 || l.name == "file") && (!l.together || l.isSource(f.name)) })
	if i < 0 {
		i = slices.IndexFunc(files, func(f file) bool { return f.utf8 })
	}
	return i
}

// jobFile is text where it can be: that is shorter.
func jobFile(name string, content []byte) job.File {
	if utf8.Valid(content) {
		return job.File{Name: name, Content: string(content)}
	}
	return job.File{Name: name, ContentBase64: base64.StdEncoding.EncodeToString(content)}
}

// limitsOf are a job's limits for those of a request. It fails with a facade.BadRequest for what is beyond the tenant's
// maximum.
func limitsOf(asked map[string]float64, maximums job.Limits) (job.Limits, error) {
	var limits job.Limits
	for _, l := range []struct {
		name string
		to   *int64
		unit float64 // how many of the request's make one of ours
		most int64
	}{
		{"compile_memory_limit", &limits.CompileMemoryMB, 1 << 20, maximums.MemoryMB},
		{"run_memory_limit", &limits.MemoryMB, 1 << 20, maximums.MemoryMB},
		{"compile_timeout", &limits.CompileWallMS, 1, maximums.WallMS},
		{"run_timeout", &limits.WallMS, 1, maximums.WallMS},
		{"compile_cpu_time", nil, 1, maximums.CPUMS},
		{"run_cpu_time", &limits.CPUMS, 1, maximums.CPUMS},
	} {
		n, ok := asked[l.name]
		if !ok {
			continue
		}
		if n > float64(l.most)*l.unit {
			return limits, facade.BadRequest(fmt.Sprintf("%s cannot exceed the configured limit of %.0f", l.name, float64(l.most)*l.unit))
		}
		if l.to != nil { // CPU time of a compile step follows from its wall-clock time
			*l.to = int64(math.Ceil(n / l.unit))
		}
	}
	return limits, nil
}

// inOurWords says what is wrong with a field of the job in the names of the request.
func inOurWords(f job.FieldError) string {
	switch f.Field {
	case "source", "entrypoint":
		f.Field = "files"
	case "runtime":
		f.Field = "language"
	}
	return f.Error()
}
