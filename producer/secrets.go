package producer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/glovebox-run/glovebox/job"
)

// Secrets is what a tenant does with the secrets that it stores for its jobs. Nobody but
// a job that names one ever gets to see what it is. Safe for concurrent use.
type Secrets interface {
	// SetSecret stores a secret, in the place of one of that name: jobs that start from
	// then on have it. It fails with job.Invalid, job.ErrTooManySecrets or job.ErrNoSecretsKey.
	SetSecret(ctx context.Context, name, value string) (job.Secret, error)
	// DeleteSecret forgets one, or fails with job.ErrNoSecret. Jobs that are queued and name it
	// will fail.
	DeleteSecret(ctx context.Context, name string) error
	// ListSecrets lists them by name.
	ListSecrets(ctx context.Context) ([]job.Secret, error)
}

var _ Secrets = (*Client)(nil)

// SecretRequest is the body of PUT /v1/secrets/{name}.
type SecretRequest struct {
	Value string `json:"value" doc:"What the secret is: 8 to 32768 bytes."`
}

// SecretList is the answer of GET /v1/secrets.
type SecretList struct {
	Secrets []job.Secret `json:"secrets" doc:"The tenant's secrets by name: never what they are." nullable:"false"`
}

// SetSecret is [Secrets.SetSecret].
func (c *Client) SetSecret(ctx context.Context, name, value string) (job.Secret, error) {
	if err := job.CheckSecret(name, value); err != nil {
		return job.Secret{}, err
	}
	b, err := json.Marshal(SecretRequest{value})
	if err != nil {
		return job.Secret{}, fmt.Errorf("encode secret: %w", err)
	}
	var s job.Secret
	err = c.json(ctx, http.MethodPut, secretPath(name), 0, b, &s)
	return s, err
}

// DeleteSecret is [Secrets.DeleteSecret].
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	if !job.ValidSecretName(name) {
		return job.ErrNoSecret // "..", say, would mean another URL
	}
	res, err := c.do(ctx, http.MethodDelete, secretPath(name))
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// ListSecrets is [Secrets.ListSecrets].
func (c *Client) ListSecrets(ctx context.Context) ([]job.Secret, error) {
	var list SecretList
	err := c.json(ctx, http.MethodGet, "/v1/secrets", 0, nil, &list)
	return list.Secrets, err
}

func secretPath(name string) string { return "/v1/secrets/" + url.PathEscape(name) }
