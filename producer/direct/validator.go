package direct

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/job"
)

// validator knows what the jobs of a tenant may be, as it was when it was made.
type validator struct {
	client     *Client
	terms      job.Terms
	retention  time.Duration
	maximums   job.Limits
	runtimes   []fleet.Runtime
	names      map[job.Isolation][]string // of runtimes, with aliases, by what a job accepts at the least
	images     []string
	imagesRead bool
	kinds      []fleet.Slots // of workers, as images are
	kindsRead  bool
	// secrets are the names of the tenant's, nil until a job names one.
	secrets []string
	// problems are those that jobs name, by digest.
	problems map[string]job.Problem
	// head is that of the one that a single job names, which was read just before; empty: it was not.
	head job.ProblemHead
}

// validator reads what a job of the tenant may be now. It is for one goroutine.
func (c *Client) validator(ctx context.Context) (validator, error) {
	runtimes, err := c.records.Fleet.RecentRuntimes(ctx)
	if err != nil {
		return validator{}, fmt.Errorf("submit job: %w", err)
	}
	terms, err := c.terms(ctx)
	if err != nil {
		return validator{}, fmt.Errorf("submit job: %w", err)
	}
	return validator{
		client: c, terms: terms, retention: c.records.Retention(terms), maximums: terms.Maximums.AtMost(c.maximums), runtimes: runtimes,
	}, nil
}

// LimitsOf returns the limits that a job would have if it were submitted now. It fails as Submit
// would for what is wrong with the spec.
func (c *Client) LimitsOf(ctx context.Context, spec job.Spec) (job.Limits, error) {
	v, err := c.validator(ctx)
	if err != nil {
		return job.Limits{}, err
	}
	done, err := c.checkOfProblem(ctx, spec.Problem)
	if err != nil {
		return job.Limits{}, err
	}
	defer done()
	_, limits, err := v.check(ctx, spec)
	return limits, err
}

// knownImages are those that workers have. They are read for the first job that brings one.
func (v *validator) knownImages(ctx context.Context) ([]string, error) {
	if v.imagesRead {
		return v.images, nil
	}
	images, err := v.client.records.Fleet.Images(ctx)
	if err != nil {
		return nil, fmt.Errorf("submit job: %w", err)
	}
	v.images, v.imagesRead = images, true
	return images, nil
}

// check returns the spec with its runtime's own name in the place of an alias, and all the
// limits that the job will have. It fails with job.Invalid or job.ErrNoRuntimes.
func (v *validator) check(ctx context.Context, spec job.Spec) (checked job.Spec, limits job.Limits, err error) {
	var none job.Limits
	var images []string
	if spec.Image != "" {
		if images, err = v.knownImages(ctx); err != nil {
			return spec, none, err
		}
	}
	if len(v.runtimes) == 0 && len(images) == 0 {
		return spec, none, job.ErrNoRuntimes
	}
	if spec, err = v.expand(ctx, spec); err != nil {
		return spec, none, err
	}
	allowed := slices.DeleteFunc(slices.Clone(images), func(image string) bool { return !v.terms.AllowsImage(image) })
	if err := v.checkIsolation(spec); err != nil {
		return spec, none, err
	}
	names := v.namesFor(spec.Isolation)
	var defaults job.Limits
	file := spec.Entrypoint
	for _, of := range v.runtimes {
		if (of.Name == spec.Runtime || slices.Contains(of.Aliases, spec.Runtime)) && v.offers(of, spec.Isolation) {
			defaults = of.Limits
			file = cmp.Or(file, of.File)
			spec.Runtime, spec.Limits = of.Name, spec.Limits.Within(of.Limits, v.maximums)
		}
	}
	if spec.Image != "" {
		spec.Limits = spec.Limits.Within(none, v.maximums)
	}
	spec.Checker = v.checker(spec.Checker, spec.Isolation)
	if err := spec.Check(names, allowed, v.maximums); err != nil {
		return spec, none, err
	}
	if spec.Placement, err = v.place(ctx, spec.Placement); err != nil {
		return spec, none, err
	}
	if err := spec.CheckSource(file); err != nil {
		return spec, none, err
	}
	if invalid := v.client.mayRead(spec.Files); invalid != nil {
		return spec, none, invalid
	}
	if program := spec.CheckerProgram(); program != nil {
		if err := program.Spec().CheckSource(v.sourceFile(program.Runtime, program.Entrypoint)); err != nil {
			return spec, none, err
		}
	}
	if err := v.checkSecrets(ctx, spec.Secrets); err != nil {
		return spec, none, err
	}
	if most := int64(v.retention / time.Second); spec.RetentionSeconds > most {
		return spec, none, job.Invalid{{
			Field: "retention_seconds", Value: spec.RetentionSeconds, Message: "is longer than jobs of this tenant are kept",
			Allowed: fmt.Sprintf("0 (as long as that) to %d", most),
		}}
	}
	if err := v.checkCallback(spec.Callback); err != nil {
		return spec, none, err
	}
	return spec, spec.Limits.Filled(defaults), nil
}

// offers reports whether a runtime is there for a job of the tenant that accepts that isolation at the least.
func (v *validator) offers(of fleet.Runtime, least job.Isolation) bool {
	return of.Isolation.Suffices(least) && allowsRuntime(v.terms, of)
}

// namesFor are the names and aliases of the runtimes that are there for such a job.
func (v *validator) namesFor(least job.Isolation) []string {
	least = least.Or()
	if _, known := v.names[least]; !known {
		if v.names == nil {
			v.names = map[job.Isolation][]string{}
		}
		v.names[least] = nil
		for _, of := range v.runtimes {
			if v.offers(of, least) && !slices.Contains(v.names[least], of.Name) {
				v.names[least] = append(append(v.names[least], of.Name), of.Aliases...)
			}
		}
	}
	return v.names[least]
}

// isolationFor is the first isolation that the operator allows in which all those runtimes are there, else the last.
func (v *validator) isolationFor(runtimes []string) (least job.Isolation) {
	for _, least = range v.client.isolations {
		offered := v.namesFor(least)
		if !slices.ContainsFunc(runtimes, func(name string) bool { return !slices.Contains(offered, name) }) {
			break
		}
	}
	return least
}

// checkIsolation refuses less than the operator allows, and says what would do where no worker isolates as much as the job wants.
func (v *validator) checkIsolation(spec job.Spec) error {
	least, allowed := spec.Isolation.Or(), v.client.isolations
	if !slices.Contains(allowed, least) {
		message := "is not allowed by the operator of this Glovebox"
		if !slices.Contains(job.Isolations(), least) {
			message = "is no isolation"
		}
		return job.Invalid{{Field: "isolation", Value: fmt.Sprintf("%.100s", least), Message: message, Allowed: job.JoinIsolations(allowed)}}
	}
	if slices.Contains(v.namesFor(least), spec.Runtime) {
		return nil
	}
	for _, less := range allowed {
		if slices.Contains(v.namesFor(less), spec.Runtime) {
			return job.Invalid{{
				Field: "isolation", Value: string(least), Message: fmt.Sprintf("is what no worker gives that has the runtime %s", spec.Runtime),
				Allowed: fmt.Sprintf("%s, for code that you trust", less),
			}}
		}
	}
	return nil
}

// within is [job.Limits.Within] of a runtime, as check stores it.
func (v *validator) within(l job.Limits, runtime string, least job.Isolation) job.Limits {
	for _, of := range v.runtimes {
		if of.Name == runtime && v.offers(of, least) {
			return l.Within(of.Limits, v.maximums)
		}
	}
	return l
}

// checker returns a checker whose program, if it has one, names its runtime by its own name, and what it
// may use at most.
func (v *validator) checker(c *job.Checker, least job.Isolation) *job.Checker {
	if c == nil || c.Program == nil {
		return c
	}
	checker, program := *c, *c.Program
	for _, of := range v.runtimes {
		if (of.Name == program.Runtime || slices.Contains(of.Aliases, program.Runtime)) && v.offers(of, least) {
			program.Runtime, program.Limits = of.Name, program.Limits.Within(of.Limits, v.maximums)
		}
	}
	checker.Program = &program
	return &checker
}

// sourceFile is the file that a source becomes, "" for that of a runtime which no worker has.
func (v *validator) sourceFile(runtime, entrypoint string) string {
	for _, of := range v.runtimes {
		if of.Name == runtime || slices.Contains(of.Aliases, runtime) {
			return cmp.Or(entrypoint, of.File)
		}
	}
	return entrypoint
}

// checkSecrets refuses a job that names a secret which the tenant doesn't have.
func (v *validator) checkSecrets(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if v.secrets == nil {
		var err error
		if v.secrets, err = v.client.secrets.Names(ctx, v.client.tenant); err != nil {
			return fmt.Errorf("submit job: %w", err)
		}
	}
	var invalid job.Invalid
	for i, name := range names {
		if !slices.Contains(v.secrets, name) {
			invalid = append(invalid, job.FieldError{
				Field: fmt.Sprintf("secrets[%d]", i), Value: fmt.Sprintf("%.120s", name), Message: "is not a secret that this tenant has stored",
				Allowed: fmt.Sprintf("%.500s", strings.Join(v.secrets, ", ")),
			})
		}
	}
	if invalid != nil {
		return invalid
	}
	return nil
}

// checkCallback refuses a callback that could never be delivered, or not for this tenant:
// each attempt would say so.
func (v *validator) checkCallback(c *job.Callback) error {
	if c == nil {
		return nil
	}
	return v.client.checkURL("callback.url", c.URL, v.terms)
}

// TenantMaximums is the most that a job of the tenant may ask for.
func (c *Client) TenantMaximums(ctx context.Context) (job.Limits, error) {
	terms, err := c.terms(ctx)
	if err != nil {
		return job.Limits{}, err
	}
	return terms.Maximums.AtMost(c.maximums), nil
}
