package direct

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/internal/hooks"
	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/internal/templates"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// Delivered is what a request to a hook comes to: a job, or the answer to a handshake.
type Delivered struct {
	producer.HookAccepted
	Handshake *hooks.Answer
	// Subscribed says that the handshake confirmed a subscription of Amazon SNS.
	Subscribed bool
	// Hook is what the hook was as the request came.
	Hook job.HookSettings
}

// Knock is a request to a hook of the Client's tenant.
type Knock struct {
	client   *Client
	hook     record.Hook
	request  hooks.Request
	delivery hooks.Delivery
	verified bool
	now      time.Time

	template    job.Template
	templateErr error // why there is none; a delivery that was heard before doesn't need it
}

// OpenHook finds the hook that a request is for, before its body is read: a stranger who makes up ids holds
// no memory of the tenant's. It fails with job.ErrNoHook for one that is not there, paused or a disabled
// tenant's.
func (c *Client) OpenHook(ctx context.Context, id string) (*Knock, error) {
	h, err := c.records.Hook(ctx, c.tenant, id)
	if err != nil {
		return nil, err
	}
	if err := c.Enabled(ctx); h.Paused || job.CodeOf(err) == job.CodeForbidden {
		return nil, job.ErrNoHook
	} else if err != nil {
		return nil, err
	}
	return &Knock{client: c, hook: h, now: time.Now()}, nil
}

// Verify finds out who sent the request. It fails with hooks.ErrSignature or hooks.ErrTime; without it
// nothing is delivered.
func (k *Knock) Verify(ctx context.Context, r hooks.Request) error {
	k.now = time.Now()
	d, err := k.verify(ctx, r)
	if err != nil {
		return err
	}
	k.request, k.delivery, k.verified = r, d, true
	return nil
}

func (k *Knock) verify(ctx context.Context, r hooks.Request) (hooks.Delivery, error) {
	if k.hook.Sender == job.SenderSNS {
		return k.client.sns.Verify(ctx, k.hook.HookSettings, r, k.now)
	}
	good, err := k.client.openSecrets(k.hook, k.now)
	if err != nil {
		return hooks.Delivery{}, err
	}
	if k.client.links != nil {
		r.URL = k.client.links.base + "/v1/hooks/" + k.hook.ID
	}
	return hooks.Verify(k.hook.HookSettings, r, good, k.now)
}

// openSecrets returns a hook's secrets that are good now. One that was sealed to a key which the operator
// has dropped is of no use, unless it is the only one.
func (c *Client) openSecrets(h record.Hook, now time.Time) ([]string, error) {
	seals, err := c.seals()
	if err != nil {
		return nil, err
	}
	var good []string
	var unread error
	for _, s := range h.Secrets {
		if !s.Good(now) {
			continue
		}
		value, err := seals.Open(c.tenant, h.ID, secrets.Sealed{Key: s.Key, Data: s.Data})
		if err != nil {
			unread = err
			continue
		}
		good = append(good, string(value))
	}
	if len(good) == 0 {
		return nil, unread
	}
	return good, nil
}

// Deliver starts the hook's template, once for each delivery: the job is accepted durably when it returns.
// It fails with job.Invalid for a request that the template's schema refuses, or as Submit does; then
// the same request may come again.
func (k *Knock) Deliver(ctx context.Context) (Delivered, error) {
	if !k.verified {
		return Delivered{}, hooks.ErrSignature
	}
	if k.delivery.Handshake != nil {
		return Delivered{Handshake: k.delivery.Handshake, Subscribed: k.delivery.Visit != ""}, k.shake(ctx)
	}
	c, names := k.client, k.delivery.Keys
	k.template, k.templateErr = c.Template(ctx, k.hook.Template)
	claimed, err := k.claim(ctx)
	if err != nil {
		return Delivered{}, err
	}
	note := job.HookDelivery{At: k.now.UTC().Truncate(time.Millisecond), Outcome: job.DeliveryStarted, Delivery: job.Clip(k.delivery.ID, job.MaxDeliveryName)}
	if note.Job = claimed.Job; isRun(claimed.Job) {
		note.Job, note.Run = "", claimed.Job
	}
	switch {
	case claimed.Done:
		note.Outcome = job.DeliveryDuplicate
	case claimed.Job == "":
		err = k.templateErr
	default:
		err = k.start(ctx, claimed)
	}
	if err != nil {
		note.Outcome, note.Job, note.Run, note.Reason = job.DeliveryRefused, "", "", job.Clip(reason(err), 500)
	}
	// The job is there, or not: a note that fails must not hide which. Without it, the same delivery
	// finds the same job by its id, as long as that is kept, and by its key for a day.
	if noteErr := c.records.SettleDelivery(context.WithoutCancel(ctx), c.tenant, k.hook.ID, note, err == nil, names); noteErr != nil {
		c.log.WarnContext(ctx, "delivery to hook not noted", "hook_id", k.hook.ID, "job_id", claimed.Job, "error", noteErr)
	}
	if err != nil {
		return Delivered{}, err
	}
	return Delivered{HookAccepted: producer.HookAccepted{JobID: note.Job, RunID: note.Run, Duplicate: claimed.Done}, Hook: k.hook.HookSettings}, nil
}

// claim finds the job or run that the delivery starts, or has started before.
func (k *Knock) claim(ctx context.Context) (record.Claimed, error) {
	name := rand.Text()
	if len(k.delivery.Keys) > 0 {
		name = k.delivery.Keys[0]
	}
	id := "" // until the template is read, nobody knows whether a job or a run is to start
	if k.templateErr == nil {
		id = k.startedBy(name)
	}
	if len(k.delivery.Keys) == 0 { // nothing names it, so nobody could know it again
		return record.Claimed{Job: id}, nil
	}
	return k.client.records.ClaimDelivery(ctx, k.client.tenant, k.hook.ID, id, k.delivery.Keys)
}

// shake does what a handshake wants done before it is answered, and lists what has a note.
func (k *Knock) shake(ctx context.Context) error {
	d, c := k.delivery, k.client
	if d.Note == "" {
		return nil
	}
	note := job.HookDelivery{At: k.now.UTC().Truncate(time.Millisecond), Outcome: job.DeliveryHandshake, Delivery: d.ID, Reason: d.Note}
	var err error
	if d.Visit != "" {
		err = c.sns.Visit(ctx, d.Visit)
	}
	if err != nil {
		note.Outcome, note.Reason = job.DeliveryRefused, "the subscription could not be confirmed: Amazon did not answer, or refused"
		err = fmt.Errorf("%w: %w", &job.Error{Code: job.CodeUnavailable, Message: "the subscription could not be confirmed"}, err)
	}
	if noteErr := c.records.SettleDelivery(context.WithoutCancel(ctx), c.tenant, k.hook.ID, note, false, nil); noteErr != nil {
		c.log.WarnContext(ctx, "delivery to hook not noted", "hook_id", k.hook.ID, "error", noteErr)
	}
	return err
}

// startedBy is the id of the job or run that a delivery starts: always the same, so that none is made twice.
// It can't be guessed, as the hook's can't.
func (k *Knock) startedBy(name string) string {
	sum := sha256.Sum256([]byte(k.hook.ID + "\n" + name))
	if k.template.Pipeline != nil {
		return job.RunID(k.client.tenant, sum[:16])
	}
	return k.client.tenant + "-" + job.EncodeID(sum[:16])
}

func isRun(id string) bool {
	_, ok := job.TenantOfRun(id)
	return ok
}

// reason is what the hook's owner is told of why a request was refused.
func reason(err error) string {
	if job.CodeOf(err) == "" {
		return "Glovebox could not accept the job"
	}
	return err.Error()
}

// start creates the job, if nobody has.
func (k *Knock) start(ctx context.Context, claimed record.Claimed) error {
	c := k.client
	if isRun(claimed.Job) {
		return k.startRun(ctx, claimed.Job)
	}
	if claimed.Seen {
		if _, err := c.records.Get(ctx, claimed.Job); !errors.Is(err, job.ErrNotFound) {
			return err
		}
	}
	spec, err := k.spec()
	if err != nil {
		return err
	}
	n := record.NewJob{ID: claimed.Job}
	if n.Key = k.key(claimed.Job); n.Key != "" {
		n.RequestHash = record.HashRequest([]byte(n.ID))
	}
	_, err = c.acceptFilled(ctx, n, spec)
	return unlessStarted(err)
}

// key is the idempotency key of what the delivery starts, or "" where nobody could know the delivery again. It knows for a day what was
// started, should this process die before the delivery is settled, and the job be purged then.
func (k *Knock) key(id string) string {
	if len(k.delivery.Keys) == 0 {
		return ""
	}
	return "hook:" + id
}

// unlessStarted is the error of a start, or nil where it was started before, be it gone by now.
func unlessStarted(err error) error {
	var gone *job.GoneError
	if errors.Is(err, record.ErrExists) || errors.As(err, &gone) {
		return nil
	}
	return err
}

// startRun begins the run, if nobody has.
func (k *Knock) startRun(ctx context.Context, id string) error {
	if _, err := k.client.records.StateOfRun(ctx, id); !errors.Is(err, job.ErrNotFound) {
		return err
	}
	if k.templateErr != nil {
		return k.templateErr
	}
	if k.template.Pipeline == nil {
		return job.Invalid{{Field: "template", Value: k.hook.Template, Message: "is no pipeline any more, as it was when this delivery first came", Allowed: "a new delivery"}}
	}
	if err := checkPipelineHook(k.hook.HookSettings); err != nil {
		return err // the template has changed since the hook was set
	}
	found, err := k.params()
	if err != nil {
		return err
	}
	params, err := job.Marshal(found)
	if err != nil {
		return err
	}
	_, err = k.client.openRun(ctx, record.NewRun{ID: id, Template: k.template.Ref(), Metadata: k.metadata(map[string]string{}), Key: k.key(id), Asked: []byte(id)}, k.template.Steps(), params)
	return unlessStarted(err)
}

// spec fills in the template from the request.
func (k *Knock) spec() (job.Spec, error) {
	t, err := k.template, k.templateErr
	if err == nil && t.Pipeline != nil {
		err = job.ErrIsPipeline
	}
	if err != nil {
		return job.Spec{}, err
	}
	schema, err := templates.Parse(t.Params)
	if err != nil {
		return job.Spec{}, err
	}
	params, err := k.params()
	if err == nil {
		err = schema.Check(params)
	}
	if err != nil {
		return job.Spec{}, err
	}
	spec, err := templates.Fill(t, params)
	if err != nil {
		return spec, err
	}
	spec.Metadata = k.metadata(spec.Metadata)
	return spec, k.addBody(&spec)
}

// metadata says beside what is given which hook it was, and what its sender calls the delivery.
func (k *Knock) metadata(given map[string]string) map[string]string {
	given[job.HookKey] = k.hook.ID
	if id := k.delivery.ID; id != "" {
		given[job.DeliveryKey] = job.Clip(strings.ToValidUTF8(id, "?"), job.MaxDeliveryName)
	}
	return given
}

// params are what the hook's pointers find.
func (k *Knock) params() (map[string]any, error) {
	withBody := false
	for _, pointer := range k.hook.From {
		withBody = withBody || pointer == "/body" || strings.HasPrefix(pointer, "/body/")
	}
	values, err := hooks.Values(k.hook.HookSettings, k.request, k.delivery, k.hook.ID, k.now, withBody)
	if err != nil {
		return nil, job.Invalid{{Field: "body", Message: err.Error(), Allowed: "JSON, or a form"}}
	}
	params := map[string]any{}
	for name, pointer := range k.hook.From {
		if v, ok := jsonvalue.Find(values, pointer); ok {
			params[name] = jsonvalue.Clone(v) // two may point at one object, and each has defaults of its own
		}
	}
	if jsonvalue.Exceeds(params, job.MaxParamsBytes) {
		return nil, job.Invalid{{Field: "params", Message: "are too large: the hook's from takes too much of the request", Allowed: fmt.Sprintf("up to %d bytes as JSON; the hook's body hands over a whole request", job.MaxParamsBytes)}}
	}
	return params, nil
}

// addBody gives the job the body as it came, where the hook says.
func (k *Knock) addBody(spec *job.Spec) error {
	if k.hook.Body == "" {
		return nil
	}
	if err := checkBody(k.hook.Body, spec.Stdin != "" || spec.StdinBase64 != "", *spec); err != nil {
		return err // the template has changed since the hook was set
	}
	var text, base64Text string
	if body := k.request.Body; utf8.Valid(body) {
		text = string(body)
	} else {
		base64Text = base64.StdEncoding.EncodeToString(body)
	}
	if k.hook.Body == job.BodyStdin {
		spec.Stdin, spec.StdinBase64 = text, base64Text
	} else {
		if len(spec.Files) == 1 {
			spec.RunFile(spec.Files[0].Name)
		}
		spec.Files = append(spec.Files, job.File{Name: k.hook.Body, Content: text, ContentBase64: base64Text})
	}
	return nil
}

// checkBody refuses a place for a request's body that the template's job has something in already.
func checkBody(place string, hasStdin bool, spec job.Spec) error {
	taken := job.FieldError{Field: "body", Value: place, Allowed: "nothing, or a place that the template leaves free: stdin, or a file's name"}
	switch {
	case place == "":
		return nil
	case place != job.BodyStdin:
		if !slices.ContainsFunc(spec.Files, func(f job.File) bool { return f.Name == place }) {
			return nil
		}
		taken.Message = "is one of the template's files"
	case spec.Graded():
		taken.Message = "is for a template without tests, each of which has its own"
	case hasStdin:
		taken.Message = "is what the template's stdin or stdin_base64 says"
	default:
		return nil
	}
	return job.Invalid{taken}
}
