package e2b

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// prepareSandbox reads what is asked for.
func prepareSandbox(ctx context.Context, r *http.Request, c *facade.Call) (s job.SessionSettings, err error) {
	q, err := readRequest(ctx, r, c)
	if err != nil {
		return s, err
	}
	if err := refused(q); err != nil {
		return s, err
	}
	template, err := q.text("templateID")
	if err != nil {
		return s, err
	}
	metadata, err := q.texts("metadata")
	if err != nil {
		return s, err
	}
	if s.Env, err = q.texts("envVars"); err != nil {
		return s, err
	}
	timeout, given, err := q.number("timeout")
	if err != nil {
		return s, err
	}
	if !given {
		timeout = defaultTimeout
	}
	if s.TTLSeconds, err = lifetime(timeout); err != nil {
		return s, err
	}
	return fill(ctx, c, s, template, metadata)
}

// fill says what a session has besides.
func fill(ctx context.Context, c *facade.Call, s job.SessionSettings, template string, metadata map[string]string) (job.SessionSettings, error) {
	var err error
	if s.Runtime, err = runtimeOf(ctx, c, template); err != nil {
		return s, err
	}
	s.IdleSeconds = s.TTLSeconds                         // a sandbox of E2B's lives on if nothing is asked of it
	env := map[string]string{"GLOVEBOX_RESULTS": "only"} // what clients are told as a result, or as an error, is not printed, too
	maps.Copy(env, s.Env)
	s.Env = env
	s.Metadata = map[string]string{templateKey: template}
	for k, v := range metadata {
		if strings.HasPrefix(k, ownKeys) {
			return s, facade.BadRequest("metadata." + job.Clip(k, 60) + " is not for clients: want a name that doesn't begin with " + ownKeys)
		}
		s.Metadata[k] = v
	}
	if c.Anonymous {
		s.Metadata[guestKey] = "true"
	}
	maximums, err := c.Client.TenantMaximums(ctx)
	if err != nil {
		return s, err
	}
	s.Limits = sandboxLimits(maximums)
	return s, nil
}

// sandboxLimits are those of E2B's sandboxes, as far as the tenant may have so much: there is no time limit of an execution but
// the client's own, and what is read of a file is printed.
func sandboxLimits(m job.Limits) job.Limits {
	return job.Limits{
		WallMS: m.WallMS, MemoryMB: min(512, m.MemoryMB), DiskMB: min(256, m.DiskMB), Processes: min(256, m.Processes), OpenFiles: min(1024, m.OpenFiles),
		OutputKB: m.OutputKB, SourceKB: m.SourceKB, Artifacts: min(64, m.Artifacts),
	}
}

// refused fails for what would change what a sandbox can do, and is not there.
func refused(q request) error {
	pause, err := q.truth("autoPause")
	if err != nil {
		return err
	}
	if pause {
		return facade.BadRequest("autoPause: Glovebox's sandboxes can't be paused; they end")
	}
	// There is no network. That isn't refused: E2B's SDK for Python asks for it with each sandbox, unless told not to.
	if _, err := q.truth("allow_internet_access"); err != nil {
		return err
	}
	for _, name := range []string{"mcp", "volumeMounts", "iam"} {
		if q.has(name) && string(q[name]) != "[]" && string(q[name]) != "{}" {
			return facade.BadRequest(name + ": Glovebox has no such thing")
		}
	}
	return nil
}

// multi is the runtime with several languages.
const multi = "multi"

// runtimeOf is the runtime of a template: E2B's own templates are the runtime with several languages, or where no worker has that, Python. Any
// other is a runtime's name.
func runtimeOf(ctx context.Context, c *facade.Call, template string) (string, error) {
	name, _, _ := strings.Cut(template, ":") // a tag
	switch name {
	case "", "base", "code-interpreter", "code-interpreter-v1":
	default:
		return name, nil
	}
	list, err := c.Client.Runtimes(ctx)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(list, func(r producer.Runtime) bool { return r.Name == multi }) {
		return multi, nil
	}
	return "python", nil
}
