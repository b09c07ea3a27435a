package direct

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

// rules are what the jobs of a tenant may be, as they were when they were read.
type rules struct {
	client    *Client
	terms     job.Terms
	retention time.Duration
	maximums  job.Limits
	runtimes  []record.Runtime
	names     []string // of runtimes, with aliases
	// images are read for the first job that brings one.
	images func(context.Context) ([]string, error)
	// secrets are the names of the tenant's, nil until a job names one.
	secrets []string
}

// rules reads what a job of the tenant may be now. It is for one goroutine.
func (c *Client) rules(ctx context.Context) (rules, error) {
	runtimes, err := c.records.RecentRuntimes(ctx)
	if err != nil {
		return rules{}, fmt.Errorf("submit job: %w", err)
	}
	terms, err := c.terms(ctx)
	if err != nil {
		return rules{}, fmt.Errorf("submit job: %w", err)
	}
	r := rules{client: c, terms: terms, retention: c.records.Retention(terms), maximums: terms.Maximums.AtMost(c.maximums), runtimes: runtimes}
	var known bool
	var images []string
	r.images = func(ctx context.Context) ([]string, error) {
		if known {
			return images, nil
		}
		var err error
		images, err = c.records.Images(ctx)
		known = err == nil
		return images, err
	}
	return r, nil
}

// check returns the spec with its runtime's own name in the place of an alias. It fails
// with job.Invalid or job.ErrNoRuntimes.
func (r *rules) check(ctx context.Context, spec job.Spec) (job.Spec, error) {
	var images []string
	if spec.Image != "" {
		var err error
		if images, err = r.images(ctx); err != nil {
			return spec, fmt.Errorf("submit job: %w", err)
		}
	}
	if len(r.runtimes) == 0 && len(images) == 0 {
		return spec, job.ErrNoRuntimes
	}
	allowed := slices.DeleteFunc(slices.Clone(images), func(image string) bool { return !r.terms.AllowsImage(image) })
	if r.names == nil {
		for _, of := range r.runtimes {
			if allowsRuntime(r.terms, of) {
				r.names = append(append(r.names, of.Name), of.Aliases...)
			}
		}
	}
	var defaults job.Limits
	file := spec.Entrypoint
	for _, of := range r.runtimes {
		if (of.Name == spec.Runtime || slices.Contains(of.Aliases, spec.Runtime)) && allowsRuntime(r.terms, of) {
			defaults = of.Limits
			file = cmp.Or(file, of.File)
			spec.Runtime, spec.Limits = of.Name, spec.Limits.Within(of.Limits, r.maximums)
		}
	}
	if spec.Image != "" {
		spec.Limits = spec.Limits.Within(job.Limits{}, r.maximums)
	}
	if err := spec.Check(r.names, allowed, r.maximums); err != nil {
		return spec, err
	}
	if err := spec.CheckSource(file); err != nil {
		return spec, err
	}
	if err := r.checkSecrets(ctx, spec.Secrets); err != nil {
		return spec, err
	}
	if most := int64(r.retention / time.Second); spec.RetentionSeconds > most {
		return spec, job.Invalid{{
			Field: "retention_seconds", Value: spec.RetentionSeconds, Message: "is longer than jobs of this tenant are kept",
			Allowed: fmt.Sprintf("0 (as long as that) to %d", most),
		}}
	}
	if err := checkCallback(spec.Callback, r.terms); err != nil {
		return spec, err
	}
	return r.client.resolve(ctx, spec, spec.Limits.Filled(defaults))
}

// checkSecrets refuses a job that names a secret which the tenant doesn't have.
func (r *rules) checkSecrets(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if r.secrets == nil {
		var err error
		if r.secrets, err = r.client.records.SecretNames(ctx, r.client.tenant); err != nil {
			return fmt.Errorf("submit job: %w", err)
		}
	}
	var invalid job.Invalid
	for i, name := range names {
		if !slices.Contains(r.secrets, name) {
			invalid = append(invalid, job.FieldError{
				Field: fmt.Sprintf("secrets[%d]", i), Value: fmt.Sprintf("%.120s", name), Message: "is not a secret that this tenant has stored",
				Allowed: fmt.Sprintf("%.500s", strings.Join(r.secrets, ", ")),
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
func checkCallback(c *job.Callback, terms job.Terms) error {
	if c == nil {
		return nil
	}
	if err := webhook.CheckURL(c.URL); err != nil {
		return job.Invalid{{
			Field: "callback.url", Value: fmt.Sprintf("%.120s", c.URL), Message: err.Error(),
			Allowed: "https://host[:port]/path, the host a name or an address",
		}}
	}
	if !terms.AllowsCallback(c.URL) {
		return job.Invalid{{
			Field: "callback.url", Value: fmt.Sprintf("%.120s", c.URL), Message: "leads to a host that this tenant may not use",
			Allowed: fmt.Sprintf("hosts: %.500s", strings.Join(terms.CallbackHosts, ", ")),
		}}
	}
	return nil
}
