package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/script"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// endpointLog is how many attempts are told of an endpoint, and endpointFailed how many of its
	// failed deliveries are known.
	endpointLog    = 500
	endpointFailed = 10_000
	// testLife is how long the delivery of a test is kept.
	testLife = 24 * time.Hour
)

// endpointRecord is an endpoint as Redis has it. Its health is what its lane says.
type endpointRecord struct {
	job.EndpointSettings
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
}

// Endpoints lists the tenant's endpoints, the oldest first.
func (s *Store) Endpoints(ctx context.Context, tenant string) ([]job.Endpoint, error) {
	if !job.ValidTenant(tenant) {
		return nil, job.ErrNoTenant
	}
	f, err := s.rdb.HGetAll(ctx, endpointsKey(tenant)).Result()
	if err != nil {
		return nil, fmt.Errorf("list endpoints: %w", err)
	}
	var list []job.Endpoint
	for id, text := range f {
		e, err := parseEndpoint(id, text)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b job.Endpoint) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return list, nil
}

// Endpoint returns an endpoint, or job.ErrNoEndpoint.
func (s *Store) Endpoint(ctx context.Context, tenant, id string) (job.Endpoint, error) {
	e, _, err := s.readEndpoint(ctx, tenant, id)
	return e, err
}

// readEndpoint returns an endpoint also as Redis has it.
func (s *Store) readEndpoint(ctx context.Context, tenant, id string) (e job.Endpoint, text string, err error) {
	if of, ok := job.TenantOfEndpoint(id); !ok || of != tenant {
		return e, "", job.ErrNoEndpoint
	}
	text, err = s.rdb.HGet(ctx, endpointsKey(tenant), id).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return e, "", job.ErrNoEndpoint
	case err != nil:
		return e, "", fmt.Errorf("read endpoint: %w", err)
	}
	e, err = parseEndpoint(id, text)
	return e, text, err
}

func parseEndpoint(id, text string) (job.Endpoint, error) {
	var r endpointRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return job.Endpoint{}, fmt.Errorf("read endpoint %s: %w", id, err)
	}
	return job.Endpoint{ID: id, EndpointSettings: r.EndpointSettings, CreatedAt: r.Created, UpdatedAt: r.Updated}, nil
}

// CreateEndpoint makes an endpoint. It fails with job.ErrTooManyEndpoints. The caller has checked
// the settings.
func (s *Store) CreateEndpoint(ctx context.Context, tenant string, settings job.EndpointSettings) (job.Endpoint, error) {
	if !job.ValidTenant(tenant) {
		return job.Endpoint{}, job.ErrNoTenant
	}
	now := s.now().UTC().Truncate(time.Millisecond)
	e := job.Endpoint{ID: job.NewEndpointID(tenant), EndpointSettings: settings, CreatedAt: now, UpdatedAt: now}
	if err := s.noteTenant(ctx, tenant); err != nil {
		return e, fmt.Errorf("create endpoint: %w", err)
	}
	if err := s.setEndpoint(ctx, tenant, e, "", false); err != nil {
		return job.Endpoint{}, err
	}
	return e, nil
}

// ChangeEndpoint makes an endpoint what change makes of its settings. It fails with
// job.ErrNoEndpoint, or as change does. One that leads elsewhere now, or is enabled, is no
// longer held to have failed.
func (s *Store) ChangeEndpoint(ctx context.Context, tenant, id string, enable bool, change func(*job.EndpointSettings) error) error {
	for {
		e, before, err := s.readEndpoint(ctx, tenant, id)
		if err != nil {
			return err
		}
		url := e.URL
		if err := change(&e.EndpointSettings); err != nil {
			return err
		}
		e.UpdatedAt = s.now().UTC().Truncate(time.Millisecond)
		err = s.setEndpoint(ctx, tenant, e, before, enable || e.URL != url)
		if !errors.Is(err, errStaleEndpoint) {
			return err
		}
	}
}

// DeleteEndpoint forgets an endpoint with all that is known of it, or fails with job.ErrNoEndpoint.
// Deliveries to it that are pending fail when their turn comes.
func (s *Store) DeleteEndpoint(ctx context.Context, tenant, id string) error {
	for {
		_, before, err := s.readEndpoint(ctx, tenant, id)
		if err != nil {
			return err
		}
		err = s.runSetEndpoint(ctx, tenant, id, before, "", false)
		if !errors.Is(err, errStaleEndpoint) {
			return err
		}
	}
}

var errStaleEndpoint = errors.New("the endpoint has changed meanwhile")

func (s *Store) setEndpoint(ctx context.Context, tenant string, e job.Endpoint, before string, enable bool) error {
	after, err := job.Marshal(endpointRecord{e.EndpointSettings, e.CreatedAt, e.UpdatedAt})
	if err != nil {
		return fmt.Errorf("encode endpoint: %w", err)
	}
	return s.runSetEndpoint(ctx, tenant, e.ID, before, string(after), enable)
}

func (s *Store) runSetEndpoint(ctx context.Context, tenant, id, before, after string, enable bool) error {
	now := s.now()
	answer, err := setEndpointScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": id, "before": before, "after": after, "enable": enable, "now": now, "again": now.Add(waitCheck),
	}).Slice()
	switch {
	case err != nil:
		return fmt.Errorf("set endpoint: %w", err)
	case answer[0] == "full":
		return job.ErrTooManyEndpoints
	case answer[0] == "stale":
		return errStaleEndpoint
	}
	s.enqueueDeliveries(ctx, tenant, answer[1])
	return nil
}

// TestEndpoint makes a delivery to an endpoint that is a test, and returns its id.
func (s *Store) TestEndpoint(ctx context.Context, tenant, id string) (string, error) {
	if of, ok := job.TenantOfEndpoint(id); !ok || of != tenant {
		return "", job.ErrNoEndpoint
	}
	now := s.now()
	did := DeliveryID(job.NewID(tenant), job.EventEndpointTest, id)
	made, err := testEndpointScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": did, "endpoint": id, "event": job.EventEndpointTest, "now": now, "expires": now.Add(testLife),
	}).Text()
	switch {
	case err != nil:
		return "", fmt.Errorf("test endpoint: %w", err)
	case made == "missing":
		return "", job.ErrNoEndpoint
	}
	s.enqueueFirstDelivery(ctx, tenant, made)
	return did, nil
}
