package producer

import (
	"context"
	"net/http"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// Hooks is what a tenant does with requests of others that start its templates. Safe for concurrent use.
type Hooks interface {
	// CreateHook makes a hook. Without a secret it makes one of those senders that are told theirs. It
	// fails with job.Invalid, job.ErrNoTemplate or job.ErrTooManyHooks.
	CreateHook(ctx context.Context, r HookRequest) (NewHook, error)
	// ChangeHook replaces a hook's settings; its secrets stay.
	ChangeHook(ctx context.Context, id string, s job.HookSettings) (job.Hook, error)
	// RotateHook gives a hook a new secret, or makes one where r has none. The one before is good for
	// r.Keep longer. It fails with job.ErrRotating while two are good, unless that is 0.
	RotateHook(ctx context.Context, id string, r HookRotateRequest) (NewHook, error)
	// Hook returns a hook, or job.ErrNoHook.
	Hook(ctx context.Context, id string) (job.Hook, error)
	// ListHooks lists them, the oldest first.
	ListHooks(ctx context.Context) ([]job.Hook, error)
	// DeleteHook forgets a hook. Jobs that it started go on.
	DeleteHook(ctx context.Context, id string) error
	// HookDeliveries lists the last 100 requests that were verified, the newest first.
	HookDeliveries(ctx context.Context, id string) ([]job.HookDelivery, error)
}

var _ Hooks = (*Client)(nil)

// HookRequest is the body of POST /v1/hooks.
type HookRequest struct {
	job.HookSettings
	// Secret that the sender signs with.
	Secret string `json:"secret,omitempty" doc:"What the sender signs with, 8 to 512 printable characters; of Discord its public key, of standard-webhooks whsec_… or whpk_…. Absent: Glovebox makes one, for the senders that are told theirs."`
}

// HookRotateRequest is the body of POST /v1/hooks/{id}/rotate.
type HookRotateRequest struct {
	Secret        string `json:"secret,omitempty" doc:"The new secret. Absent: Glovebox makes one, for the senders that are told theirs."`
	ExpireSeconds *int64 `json:"expire_seconds,omitempty" doc:"How long the secret until now is good beside the new one: 0 to 604800, 86400 by default." example:"86400"`
}

// Keep is what the request says, or the default.
func (r HookRotateRequest) Keep() time.Duration { return RotateRequest{r.ExpireSeconds}.Keep() }

// NewHook is a hook with the secret that was made, which is shown once.
type NewHook struct {
	job.Hook
	Secret string `json:"secret,omitempty" doc:"The secret that Glovebox made, to give to the sender: it is not shown again."`
}

// HookList is the answer of GET /v1/hooks.
type HookList struct {
	Hooks []job.Hook `json:"hooks" nullable:"false" doc:"The oldest first."`
}

// HookDeliveryList is the answer of GET /v1/hooks/{id}/deliveries.
type HookDeliveryList struct {
	Deliveries []job.HookDelivery `json:"deliveries" nullable:"false" doc:"The newest first, 100 at most."`
}

// HookAccepted is what a sender is told whose request started a job, or did before.
type HookAccepted struct {
	JobID     string `json:"job_id,omitempty"`
	RunID     string `json:"run_id,omitempty" doc:"Of a template that is a pipeline: the run instead."`
	Duplicate bool   `json:"duplicate,omitempty" doc:"The request came before: this is the job of then."`
}

const hooksPath = "/v1/hooks"

// CreateHook is [Hooks.CreateHook].
func (c *Client) CreateHook(ctx context.Context, r HookRequest) (NewHook, error) {
	var h NewHook
	err := c.send(ctx, http.MethodPost, hooksPath, r, &h)
	return h, err
}

// ChangeHook is [Hooks.ChangeHook].
func (c *Client) ChangeHook(ctx context.Context, id string, s job.HookSettings) (job.Hook, error) {
	var h job.Hook
	path, err := hookPath(id)
	if err == nil {
		err = c.send(ctx, http.MethodPut, path, s, &h)
	}
	return h, err
}

// RotateHook is [Hooks.RotateHook].
func (c *Client) RotateHook(ctx context.Context, id string, r HookRotateRequest) (NewHook, error) {
	var h NewHook
	path, err := hookPath(id)
	if err == nil {
		err = c.send(ctx, http.MethodPost, path+"/rotate", r, &h)
	}
	return h, err
}

// Hook is [Hooks.Hook].
func (c *Client) Hook(ctx context.Context, id string) (job.Hook, error) {
	var h job.Hook
	path, err := hookPath(id)
	if err == nil {
		err = c.json(ctx, http.MethodGet, path, 0, nil, &h)
	}
	return h, err
}

// ListHooks is [Hooks.ListHooks].
func (c *Client) ListHooks(ctx context.Context) ([]job.Hook, error) {
	var list HookList
	err := c.json(ctx, http.MethodGet, hooksPath, 0, nil, &list)
	return list.Hooks, err
}

// DeleteHook is [Hooks.DeleteHook].
func (c *Client) DeleteHook(ctx context.Context, id string) error {
	path, err := hookPath(id)
	if err != nil {
		return err
	}
	res, err := c.do(ctx, http.MethodDelete, path)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// HookDeliveries is [Hooks.HookDeliveries].
func (c *Client) HookDeliveries(ctx context.Context, id string) ([]job.HookDelivery, error) {
	var list HookDeliveryList
	path, err := hookPath(id)
	if err == nil {
		err = c.json(ctx, http.MethodGet, path+"/deliveries", 0, nil, &list)
	}
	return list.Deliveries, err
}

func hookPath(id string) (string, error) {
	if _, ok := job.TenantOfHook(id); !ok {
		return "", job.ErrNoHook // "..", say, would mean another URL
	}
	return hooksPath + "/" + id, nil
}
