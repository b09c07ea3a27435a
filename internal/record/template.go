package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// maxLastRevisions is of how many deleted templates it is known how many revisions there were.
const maxLastRevisions = 10 * job.MaxTemplates

func templatesKey(tenant string) string      { return script.Key(tenant, "templates") }
func templateKey(tenant, name string) string { return script.Key(tenant, "template:"+name) }

// storedTemplate is a revision in its template's hash.
type storedTemplate struct {
	Params   json.RawMessage  `json:"params,omitempty"`
	Spec     job.TemplateSpec `json:"spec"`
	Pipeline *job.Pipeline    `json:"pipeline,omitempty"`
}

// TemplateHead is what a list says of a template: its newest revision.
type TemplateHead struct {
	Name     string
	Revision int64
	Created  time.Time
}

// SetTemplate stores a template as its next revision, or finds that it is what the newest one is: then
// that is returned. It fails with job.ErrTooManyTemplates, or with job.Invalid for one that is too large.
func (s *Store) SetTemplate(ctx context.Context, tenant string, t job.Template) (job.Template, error) {
	b, err := job.Marshal(storedTemplate{t.Params, t.Spec, t.Pipeline})
	if err != nil {
		return t, fmt.Errorf("encode template: %w", err)
	}
	if len(b) > job.MaxTemplateBytes {
		field := "spec"
		if t.Pipeline != nil {
			field = "pipeline"
		}
		return t, job.Invalid{{
			Field: field, Value: fmt.Sprintf("%d bytes with params, as JSON", len(b)), Message: "is too large",
			Allowed: fmt.Sprintf("up to %d bytes; larger files are uploaded (files[].upload)", job.MaxTemplateBytes),
		}}
	}
	answer, err := setTemplateScript.Run(ctx, s.rdb, tenant, script.Args{"name": t.Name, "template": b, "now": s.now()}).Slice()
	switch {
	case err != nil:
		return t, fmt.Errorf("store template: %w", err)
	case len(answer) != 2:
		return t, job.ErrTooManyTemplates
	}
	t.Revision, _ = answer[0].(int64)
	var at int64
	switch ms := answer[1].(type) {
	case int64:
		at = ms
	case string:
		at, err = strconv.ParseInt(ms, 10, 64)
	}
	t.CreatedAt = time.UnixMilli(at).UTC()
	return t, err
}

// Template returns a revision of a template, or with 0 the newest one. It fails with job.ErrNoTemplate.
func (s *Store) Template(ctx context.Context, tenant, name string, revision int64) (job.Template, error) {
	t := job.Template{Name: name, Revision: revision}
	if revision == 0 {
		line, err := s.rdb.HGet(ctx, templatesKey(tenant), name).Result()
		if errors.Is(err, redis.Nil) {
			return t, job.ErrNoTemplate
		}
		if err != nil {
			return t, fmt.Errorf("read template: %w", err)
		}
		head, err := parseTemplateHead(name, line)
		if err != nil {
			return t, err
		}
		t.Revision = head.Revision
	}
	text, err := s.rdb.HGet(ctx, templateKey(tenant, name), strconv.FormatInt(t.Revision, 10)).Result()
	if errors.Is(err, redis.Nil) {
		return t, job.ErrNoTemplate
	}
	if err != nil {
		return t, fmt.Errorf("read template: %w", err)
	}
	at, text, _ := strings.Cut(text, " ")
	created, err := strconv.ParseInt(at, 10, 64)
	var in storedTemplate
	if err == nil {
		err = json.Unmarshal([]byte(text), &in)
	}
	if err != nil {
		return t, fmt.Errorf("read template %s: %w", t.Ref(), err)
	}
	t.Params, t.Spec, t.Pipeline, t.CreatedAt = in.Params, in.Spec, in.Pipeline, time.UnixMilli(created).UTC()
	return t, nil
}

// Templates lists a tenant's templates by name.
func (s *Store) Templates(ctx context.Context, tenant string) ([]TemplateHead, error) {
	all, err := s.rdb.HGetAll(ctx, templatesKey(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	list := make([]TemplateHead, 0, len(all))
	for name, line := range all {
		head, err := parseTemplateHead(name, line)
		if err != nil {
			return nil, err
		}
		list = append(list, head)
	}
	slices.SortFunc(list, func(a, b TemplateHead) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// parseTemplateHead reads what set_template.lua wrote: revision, bytes, ms.
func parseTemplateHead(name, line string) (TemplateHead, error) {
	var revision, bytes, at int64
	if _, err := fmt.Sscanf(line, "%d %d %d", &revision, &bytes, &at); err != nil {
		return TemplateHead{}, fmt.Errorf("read template %s: %w", name, err)
	}
	return TemplateHead{name, revision, time.UnixMilli(at).UTC()}, nil
}

// DeleteTemplate forgets a template with all its revisions. It fails with job.ErrNoTemplate.
func (s *Store) DeleteTemplate(ctx context.Context, tenant, name string) error {
	n, err := deleteTemplateScript.Run(ctx, s.rdb, tenant, script.Args{"name": name}).Int()
	switch {
	case err != nil:
		return fmt.Errorf("delete template: %w", err)
	case n == 0:
		return job.ErrNoTemplate
	}
	return nil
}
