package record

import (
	"context"
	"fmt"
	"time"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

// Signing says which generations of a tenant's webhook secret sign its messages. What the
// secrets are is nowhere in Redis.
type Signing struct {
	// Generation is the current one, from 1.
	Generation int64
	// PreviousUntil is until when the one before signs, too; zero for not at all.
	PreviousUntil time.Time
}

// Rotating reports whether two generations sign.
func (s Signing) Rotating(now time.Time) bool { return s.PreviousUntil.After(now) }

// Signing returns what signs a tenant's messages. A tenant that never rotated its secret
// has the first generation, whether it has a record or not.
func (s *Store) Signing(ctx context.Context, tenant string) (Signing, error) {
	if !job.ValidTenant(tenant) {
		return Signing{}, job.ErrNoTenant
	}
	f, err := s.rdb.HGetAll(ctx, webhookKey(tenant)).Result()
	if err != nil {
		return Signing{}, fmt.Errorf("read webhook secret's generation: %w", err)
	}
	return parseSigning(tenant, "", f)
}

// EndpointSigning is Signing for what signs messages to an endpoint of the tenant.
func (s *Store) EndpointSigning(ctx context.Context, tenant, id string) (Signing, error) {
	if _, err := s.Endpoint(ctx, tenant, id); err != nil {
		return Signing{}, err
	}
	f, err := s.rdb.HGetAll(ctx, webhookKey(tenant)).Result()
	if err != nil {
		return Signing{}, fmt.Errorf("read webhook secret's generation: %w", err)
	}
	return parseSigning(tenant, id+":", f)
}

// RotateEndpointSigning is RotateSigning for what signs messages to an endpoint.
func (s *Store) RotateEndpointSigning(ctx context.Context, tenant, id string, keep time.Duration) (Signing, error) {
	if _, err := s.Endpoint(ctx, tenant, id); err != nil {
		return Signing{}, err
	}
	return s.rotateSigning(ctx, tenant, id+":", keep)
}

// RotateSigning makes the next generation the current one. The one before signs for keep
// longer; with 0 nothing but the new one signs from now on. It fails with job.ErrRotating
// while two sign, unless keep is 0.
func (s *Store) RotateSigning(ctx context.Context, tenant string, keep time.Duration) (Signing, error) {
	if !job.ValidTenant(tenant) {
		return Signing{}, job.ErrNoTenant
	}
	return s.rotateSigning(ctx, tenant, "", keep)
}

func (s *Store) rotateSigning(ctx context.Context, tenant, of string, keep time.Duration) (Signing, error) {
	answer, err := rotateSigningScript.Run(ctx, s.lasting, tenant, script.Args{"of": of, "now": s.now(), "keep": keep}).Slice()
	if err != nil {
		return Signing{}, fmt.Errorf("rotate webhook secret: %w", err)
	}
	generation, _ := answer[1].(string)
	until, _ := answer[2].(string)
	signing, err := parseSigning(tenant, "", map[string]string{"generation": generation, "previous_until": until})
	if err == nil && answer[0] == "two" {
		err = job.ErrRotating
	}
	return signing, err
}

// parseSigning reads what signs a tenant's messages, or with an endpoint's id and a colon, those to the endpoint.
func parseSigning(tenant, of string, f map[string]string) (Signing, error) {
	r := fields{of: "webhook secret of tenant " + tenant, f: f}
	return Signing{Generation: max(r.number(of+"generation"), 1), PreviousUntil: r.at(of + "previous_until")}, r.err
}
