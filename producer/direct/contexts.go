package direct

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

// languagesOf are those that contexts of a runtime's sessions can have, its own first.
func (v validator) languagesOf(runtime string) []string {
	for _, r := range v.runtimes {
		if r.Name == runtime && len(r.Languages) > 0 {
			return r.Languages
		}
	}
	return []string{runtime} // of workers that are gone by now
}

// placeOf is where an execution of the session is executed that names a context and a language, or doesn't. It fails with job.Invalid.
func (v validator) placeOf(x record.Session, name, language string) (record.Place, error) {
	if language == job.FilesLanguage {
		if name != "" && name != job.MainContext {
			return record.Place{}, job.Invalid{{Field: "context", Value: name, Message: "has no files of its own", Allowed: job.MainContext + ", or none"}}
		}
		return record.Place{Language: language}, nil
	}
	languages := v.languagesOf(x.Settings.Runtime)
	if language != "" && !slices.Contains(languages, language) {
		return record.Place{}, job.Invalid{{Field: "language", Value: language, Message: "is none of the runtime's", Allowed: strings.Join(languages, ", ")}}
	}
	if name == "" || name == job.MainContext {
		if language != "" && language != languages[0] {
			return record.Place{}, job.Invalid{{Field: "language", Value: language, Message: "is not that of the context main", Allowed: languages[0] + ", or another context"}}
		}
		return record.Place{}, nil
	}
	if is, there := x.Context(name); there && language == "" {
		language = is.Language
	}
	return record.Place{Context: name, Language: cmp.Or(language, languages[0])}, nil
}

// RestartSession is [producer.Sessions.RestartSession].
func (c *Client) RestartSession(ctx context.Context, id string, r job.Restart) (job.Session, error) {
	if _, err := c.session(ctx, id); err != nil {
		return job.Session{}, err
	}
	if err := r.Check(); err != nil {
		return job.Session{}, err
	}
	if err := c.records.RestartContext(ctx, id, cmp.Or(r.Context, job.MainContext), r.Execution); err != nil {
		return job.Session{}, err
	}
	return c.Session(ctx, id)
}

// SessionContexts is [producer.Sessions.SessionContexts].
func (c *Client) SessionContexts(ctx context.Context, id string) ([]job.SessionContext, error) {
	x, err := c.session(ctx, id)
	if err != nil {
		return nil, err
	}
	v, err := c.validator(ctx)
	if err != nil {
		return nil, err
	}
	for i := range x.Contexts {
		x.Contexts[i].Language = cmp.Or(x.Contexts[i].Language, v.languagesOf(x.Settings.Runtime)[0])
	}
	return x.Contexts, nil
}

// MakeContext is [producer.Sessions.MakeContext].
func (c *Client) MakeContext(ctx context.Context, id, name string, s job.ContextSettings) (job.SessionContext, error) {
	x, err := c.session(ctx, id)
	if err != nil {
		return job.SessionContext{}, err
	}
	if err := job.CheckContext("name", name); err != nil {
		return job.SessionContext{}, err
	}
	if err := s.Check(); err != nil {
		return job.SessionContext{}, err
	}
	v, err := c.validator(ctx)
	if err != nil {
		return job.SessionContext{}, err
	}
	at, err := v.placeOf(x, name, s.Language)
	switch {
	case err != nil:
		return job.SessionContext{}, err
	case name == job.MainContext && s.Directory != "":
		return job.SessionContext{}, job.Invalid{{Field: "directory", Value: s.Directory, Message: "is not that of the context main", Allowed: "none"}}
	case name != job.MainContext:
		s.Language = at.Language
		if err := c.records.MakeContext(ctx, id, name, s); err != nil {
			return job.SessionContext{}, err
		}
	}
	all, err := c.SessionContexts(ctx, id)
	if err != nil {
		return job.SessionContext{}, err
	}
	for _, one := range all {
		if one.Name == name {
			return one, nil
		}
	}
	return job.SessionContext{}, job.ErrNoContext // deleted meanwhile
}

// DeleteContext is [producer.Sessions.DeleteContext].
func (c *Client) DeleteContext(ctx context.Context, id, name string) error {
	if _, err := c.session(ctx, id); err != nil {
		return err
	}
	if err := job.CheckContext("name", name); err != nil {
		return err
	}
	if name == job.MainContext {
		return job.Invalid{{Field: "name", Value: name, Message: "is the session's own, which can be restarted and not deleted", Allowed: "another context"}}
	}
	return c.records.ForgetContext(ctx, id, name)
}
