package direct

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/glovebox-run/glovebox/internal/hooks"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// hookDeliveries is how many deliveries a list has.
const hookDeliveries = 100

// CreateHook is [producer.Hooks.CreateHook].
func (c *Client) CreateHook(ctx context.Context, r producer.HookRequest) (producer.NewHook, error) {
	if err := c.checkHook(ctx, r.HookSettings); err != nil {
		return producer.NewHook{}, err
	}
	h := record.Hook{ID: job.NewHookID(c.tenant), HookSettings: r.HookSettings, Created: time.Now().UTC().Truncate(time.Millisecond)}
	made, err := c.addSecret(&h, r.Secret, 0, h.Created)
	if err != nil {
		return producer.NewHook{}, err
	}
	if err := c.records.CreateHook(ctx, c.tenant, h); err != nil {
		return producer.NewHook{}, err
	}
	return producer.NewHook{Hook: wireHook(h), Secret: made}, nil
}

// checkHook refuses settings with which no request could start anything.
func (c *Client) checkHook(ctx context.Context, s job.HookSettings) error {
	if _, err := c.terms(ctx); err != nil {
		return err
	}
	if err := s.Check(); err != nil || s.Paused { // what is paused starts nothing, were its template deleted or another now
		return err
	}
	t, err := c.Template(ctx, s.Template)
	if errors.Is(err, job.ErrNoTemplate) {
		return job.Invalid{{Field: "template", Value: s.Template, Message: "is not a template that this tenant has stored", Allowed: "a template's name, or name@revision"}}
	}
	if err != nil {
		return err
	}
	if err := c.mayReadFor(ctx, t); err != nil {
		return err
	}
	if t.Pipeline != nil {
		if err := checkPipelineHook(s); err != nil {
			return err
		}
		return checkFrom(t, s)
	}
	spec := t.Spec.Spec
	for _, f := range t.Spec.Files {
		spec.Files = append(spec.Files, job.File{Name: f.Name})
	}
	if err := checkBody(s.Body, t.Spec.Stdin != job.Value{} || spec.StdinBase64 != "", spec); err != nil {
		return err
	}
	if err := c.checkBesideSource(ctx, s.Body, spec); err != nil {
		return err
	}
	return checkFrom(t, s)
}

// checkFrom refuses a hook that gives its template no parameter which that requires. One that the template doesn't know is no fault as long as
// no request has it.
func checkFrom(t job.Template, s job.HookSettings) error {
	schema, err := templates.Parse(t.Params)
	if err != nil {
		return err
	}
	if missing := schema.Missing(slices.Collect(maps.Keys(s.From))); missing != nil {
		return missing
	}
	return nil
}

// checkBesideSource refuses a file for a request's body that is in the way of what the template's source becomes.
func (c *Client) checkBesideSource(ctx context.Context, body string, spec job.Spec) error {
	if spec.Source == "" || body == "" || body == job.BodyStdin {
		return nil
	}
	v, err := c.validator(ctx)
	if err != nil {
		return err
	}
	file := v.sourceFile(spec.Runtime, spec.Entrypoint)
	if err := (job.Spec{Source: spec.Source, Files: []job.File{{Name: body}}}).CheckSource(file); err != nil {
		return job.Invalid{{Field: "body", Value: body, Message: "can't be beside the template's source, which becomes " + file, Allowed: "stdin, or another file's name"}}
	}
	return nil
}

// checkPipelineHook refuses what is for a job only.
func checkPipelineHook(s job.HookSettings) error {
	var invalid job.Invalid
	if s.Body != "" {
		invalid = append(invalid, job.FieldError{Field: "body", Value: s.Body, Message: "is for a template that is a job, and this one is a pipeline", Allowed: "nothing; from gives the pipeline parameters"})
	}
	if s.Answer == job.AnswerResult {
		invalid = append(invalid, job.FieldError{Field: "answer", Value: s.Answer, Message: "is for a template that is a job, and this one is a pipeline", Allowed: "nothing; pipeline.completed tells of its end"})
	}
	if invalid != nil {
		return invalid
	}
	return nil
}

// addSecret gives a hook a secret, or makes one, which it returns. The one before expires after keep.
func (c *Client) addSecret(h *record.Hook, secret string, keep time.Duration, now time.Time) (made string, err error) {
	if h.Sender == job.SenderSNS {
		if secret != "" {
			return "", errSNSSecret
		}
		return "", nil
	}
	if secret == "" {
		made = hooks.NewSecret(h.Sender)
		secret = made
	}
	if secret == "" {
		return "", job.Invalid{{Field: "secret", Message: "is missing", Allowed: "what this sender signs with: it makes the secret itself"}}
	}
	if err := hooks.CheckSecret(h.Sender, secret); err != nil {
		return "", err
	}
	seals, err := c.seals()
	if err != nil {
		return "", err
	}
	sealed, err := seals.Public().Seal(c.tenant, h.ID, []byte(secret))
	if err != nil {
		return "", err
	}
	kept := []record.HookSecret{{Key: sealed.Key, Data: sealed.Data, Created: now}}
	for _, s := range h.Secrets {
		if s.Expires.IsZero() {
			s.Expires = now.Add(keep)
		}
		if s.Good(now) && len(kept) < job.MaxHookSecrets && keep > 0 {
			kept = append(kept, s)
		}
	}
	h.Secrets = kept
	return made, nil
}

// errSNSSecret is the fault of whoever gives one to a hook of Amazon SNS.
var errSNSSecret = job.Invalid{{Field: "secret", Message: "is what this sender has none of: it signs with Amazon's key", Allowed: "nothing; topic_arn says whose messages are taken"}}

func (c *Client) seals() (*secrets.Keys, error) {
	if c.webhookKeys == nil {
		return nil, errNoWebhookKeys
	}
	return c.webhookKeys.Seals()
}

// ChangeHook is [producer.Hooks.ChangeHook].
func (c *Client) ChangeHook(ctx context.Context, id string, s job.HookSettings) (job.Hook, error) {
	if !c.ownsHook(id) {
		return job.Hook{}, job.ErrNoHook
	}
	before, err := c.records.Hook(ctx, c.tenant, id)
	if err != nil {
		return job.Hook{}, err
	}
	before.Paused = true
	if !reflect.DeepEqual(before.HookSettings, s) { // else it is paused, whatever has become of what it fitted
		if err := c.checkHook(ctx, s); err != nil {
			return job.Hook{}, err
		}
	}
	h, err := c.records.ChangeHook(ctx, c.tenant, id, func(h *record.Hook) error {
		if s.Sender != h.Sender {
			return job.Invalid{{Field: "sender", Value: s.Sender, Message: "can't change: the secret is another sender's", Allowed: h.Sender + "; or make another hook"}}
		}
		h.HookSettings = s
		return nil
	})
	return wireHook(h), err
}

// RotateHook is [producer.Hooks.RotateHook].
func (c *Client) RotateHook(ctx context.Context, id string, r producer.HookRotateRequest) (producer.NewHook, error) {
	if !c.ownsHook(id) {
		return producer.NewHook{}, job.ErrNoHook
	}
	keep := r.Keep()
	if keep < 0 || keep > producer.MaxWebhookKeep {
		return producer.NewHook{}, job.Invalid{{
			Field: "expire_seconds", Value: fmt.Sprintf("%.0f", keep.Seconds()), Message: "is out of range",
			Allowed: fmt.Sprintf("0 to %.0f", producer.MaxWebhookKeep.Seconds()),
		}}
	}
	var made string
	h, err := c.records.ChangeHook(ctx, c.tenant, id, func(h *record.Hook) (err error) {
		if h.Sender == job.SenderSNS {
			return errSNSSecret
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		good := slices.DeleteFunc(slices.Clone(h.Secrets), func(s record.HookSecret) bool { return !s.Good(now) })
		if len(good) >= job.MaxHookSecrets && keep > 0 {
			return &job.Error{Code: job.CodeRotating, Message: fmt.Sprintf("two secrets of the hook are good already, the older one until %s: wait until then, or rotate with expire_seconds 0",
				good[len(good)-1].Expires.Format(time.RFC3339))}
		}
		made, err = c.addSecret(h, r.Secret, keep, now)
		return err
	})
	if err != nil {
		return producer.NewHook{}, err
	}
	return producer.NewHook{Hook: wireHook(h), Secret: made}, nil
}

// Hook is [producer.Hooks.Hook].
func (c *Client) Hook(ctx context.Context, id string) (job.Hook, error) {
	if !c.ownsHook(id) {
		return job.Hook{}, job.ErrNoHook
	}
	h, err := c.records.Hook(ctx, c.tenant, id)
	return wireHook(h), err
}

// ListHooks is [producer.Hooks.ListHooks].
func (c *Client) ListHooks(ctx context.Context) ([]job.Hook, error) {
	held := &reservation{Memory: c.memory}
	if err := held.Take(ctx, answerWeight*job.MaxHooks*job.MaxHookBytes); err != nil {
		return nil, err
	}
	all, err := c.records.Hooks(ctx, c.tenant)
	if err != nil {
		held.keep(0)
		return nil, err
	}
	list, needed := make([]job.Hook, len(all)), int64(0)
	for i, h := range all {
		list[i] = wireHook(h)
		needed += answerWeight * int64(h.Stored())
	}
	held.keep(needed)
	return list, nil
}

// DeleteHook is [producer.Hooks.DeleteHook].
func (c *Client) DeleteHook(ctx context.Context, id string) error {
	if !c.ownsHook(id) {
		return job.ErrNoHook
	}
	return c.records.DeleteHook(ctx, c.tenant, id)
}

// HookDeliveries is [producer.Hooks.HookDeliveries].
func (c *Client) HookDeliveries(ctx context.Context, id string) ([]job.HookDelivery, error) {
	if _, err := c.Hook(ctx, id); err != nil {
		return nil, err
	}
	return c.records.HookDeliveries(ctx, c.tenant, id, hookDeliveries)
}

func (c *Client) ownsHook(id string) bool {
	tenant, ok := job.TenantOfHook(id)
	return ok && tenant == c.tenant
}

func wireHook(h record.Hook) job.Hook {
	w := job.Hook{ID: h.ID, Path: "/v1/hooks/" + h.ID, HookSettings: h.HookSettings, Secrets: []job.HookSecret{}, CreatedAt: h.Created}
	for _, s := range h.Secrets {
		told := job.HookSecret{CreatedAt: s.Created}
		if !s.Expires.IsZero() {
			told.ExpiresAt = &s.Expires
		}
		if s.Good(time.Now()) {
			w.Secrets = append(w.Secrets, told)
		}
	}
	return w
}
