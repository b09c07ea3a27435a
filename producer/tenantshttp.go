package producer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/glovebox-run/glovebox/job"
)

// TenantList is what GET /v1/admin/tenants answers.
type TenantList struct {
	Tenants []job.Tenant `json:"tenants" nullable:"false"`
}

// TenantRequest is what POST /v1/admin/tenants takes.
type TenantRequest struct {
	Name  string    `json:"name" doc:"1 to 32 lower-case letters and digits." example:"acme"`
	Terms job.Terms `json:"terms,omitzero"`
}

// TermsRequest is what PUT /v1/admin/tenants/{name} takes.
type TermsRequest struct {
	Revision int64     `json:"revision" doc:"The revision that the new terms are based on."`
	Terms    job.Terms `json:"terms" doc:"The new terms, whole."`
}

// TokenRequest is what POST /v1/admin/tenants/{name}/tokens takes.
type TokenRequest struct {
	Label string `json:"label,omitempty" doc:"What you call it: up to 64 bytes." example:"ci"`
	// Scopes are what the token may do. None means all.
	Scopes []job.Scope `json:"scopes,omitempty" doc:"What the token may do: submit, read, approve, manage. None means all of them." example:"[\"submit\",\"read\"]"`
	// ExpiresAt is when the token becomes worthless. Defaults to never.
	ExpiresAt time.Time `json:"expires_at,omitzero" doc:"When the token becomes worthless, at most ten years ahead; absent for never." example:"2027-01-01T00:00:00Z"`
}

const tenantsPath = "/v1/admin/tenants"

// CreateTenant is [Tenants.CreateTenant].
func (h *HTTP) CreateTenant(ctx context.Context, name string, terms job.Terms) (job.Tenant, error) {
	var t job.Tenant
	err := h.send(ctx, http.MethodPost, tenantsPath, TenantRequest{name, terms}, &t)
	return t, err
}

// ListTenants is [Tenants.ListTenants].
func (h *HTTP) ListTenants(ctx context.Context) ([]job.Tenant, error) {
	var list TenantList
	err := h.json(ctx, http.MethodGet, tenantsPath, 0, nil, &list)
	return list.Tenants, err
}

// GetTenant is [Tenants.GetTenant].
func (h *HTTP) GetTenant(ctx context.Context, name string) (job.Tenant, error) {
	var t job.Tenant
	if !job.ValidTenant(name) {
		return t, job.ErrNoTenant // "..", say, would mean another URL
	}
	err := h.json(ctx, http.MethodGet, tenantsPath+"/"+name, 0, nil, &t)
	return t, err
}

// SetTerms is [Tenants.SetTerms].
func (h *HTTP) SetTerms(ctx context.Context, name string, revision int64, terms job.Terms) (job.Tenant, error) {
	var t job.Tenant
	if !job.ValidTenant(name) {
		return t, job.ErrNoTenant
	}
	err := h.send(ctx, http.MethodPut, tenantsPath+"/"+name, TermsRequest{revision, terms}, &t)
	return t, err
}

// StopTenant is [Tenants.StopTenant].
func (h *HTTP) StopTenant(ctx context.Context, name string) (Stopped, error) {
	var s Stopped
	if !job.ValidTenant(name) {
		return s, job.ErrNoTenant
	}
	err := h.json(ctx, http.MethodPost, tenantsPath+"/"+name+"/stop", 0, nil, &s)
	return s, err
}

// AddToken is [Tenants.AddToken].
func (h *HTTP) AddToken(ctx context.Context, tenant string, t TokenRequest) (NewToken, error) {
	var made NewToken
	if !job.ValidTenant(tenant) {
		return made, job.ErrNoTenant
	}
	err := h.send(ctx, http.MethodPost, tenantsPath+"/"+tenant+"/tokens", t, &made)
	return made, err
}

// RevokeToken is [Tenants.RevokeToken].
func (h *HTTP) RevokeToken(ctx context.Context, tenant, id string) error {
	switch {
	case !job.ValidTenant(tenant):
		return job.ErrNoTenant
	case id == "" || id == "." || id == "..":
		return job.ErrNoToken
	}
	res, err := h.do(ctx, http.MethodDelete, tenantsPath+"/"+tenant+"/tokens/"+url.PathEscape(id), 0, nil)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// send sends a request with a JSON body.
func (h *HTTP) send(ctx context.Context, method, path string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return h.json(ctx, method, path, 0, b, into)
}
