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

// EndpointSettings are those of an endpoint, with its headers sealed.
type EndpointSettings struct {
	job.EndpointSettings
	Sealed SealedHeaders `json:"sealed,omitzero"`
}

// SealedHeaders are the headers of an endpoint: the names, and all of it as JSON, sealed to a key of the api's.
type SealedHeaders struct {
	Names []string `json:"names"`
	Key   string   `json:"key"` // id of what it is sealed to
	Data  []byte   `json:"data"`
}

// IsZero reports whether there are none.
func (h SealedHeaders) IsZero() bool { return len(h.Names) == 0 }

// endpointRecord is an endpoint as Redis has it. Its health is what its lane says.
type endpointRecord struct {
	EndpointSettings
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
		r, err := parseEndpoint(id, text)
		if err != nil {
			return nil, err
		}
		list = append(list, r.endpoint(id))
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
	r, _, err := s.readEndpoint(ctx, tenant, id)
	return r.endpoint(id), err
}

// readEndpoint returns an endpoint also as Redis has it.
func (s *Store) readEndpoint(ctx context.Context, tenant, id string) (r endpointRecord, text string, err error) {
	if of, ok := job.TenantOfEndpoint(id); !ok || of != tenant {
		return r, "", job.ErrNoEndpoint
	}
	text, err = s.rdb.HGet(ctx, endpointsKey(tenant), id).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return r, "", job.ErrNoEndpoint
	case err != nil:
		return r, "", fmt.Errorf("read endpoint: %w", err)
	}
	r, err = parseEndpoint(id, text)
	return r, text, err
}

func parseEndpoint(id, text string) (r endpointRecord, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, fmt.Errorf("read endpoint %s: %w", id, err)
	}
	return r, nil
}

func (r endpointRecord) endpoint(id string) job.Endpoint {
	return job.Endpoint{ID: id, EndpointSettings: r.EndpointSettings.EndpointSettings, HeaderNames: r.Sealed.Names, CreatedAt: r.Created, UpdatedAt: r.Updated}
}

// CreateEndpoint makes an endpoint, of an id of [job.NewEndpointID]. It fails with job.ErrTooManyEndpoints. The caller has checked
// the settings.
func (s *Store) CreateEndpoint(ctx context.Context, id string, settings EndpointSettings) (job.Endpoint, error) {
	tenant, ok := job.TenantOfEndpoint(id)
	if !ok {
		return job.Endpoint{}, job.ErrNoTenant
	}
	now := s.now().UTC().Truncate(time.Millisecond)
	r := endpointRecord{settings, now, now}
	if err := s.noteTenant(ctx, tenant); err != nil {
		return job.Endpoint{}, fmt.Errorf("create endpoint: %w", err)
	}
	if err := s.setEndpoint(ctx, tenant, id, r, "", false); err != nil {
		return job.Endpoint{}, err
	}
	return r.endpoint(id), nil
}

// ChangeEndpoint makes an endpoint what change makes of its settings. It fails with
// job.ErrNoEndpoint, or as change does. One that leads elsewhere now, or is enabled, is no
// longer held to have failed.
func (s *Store) ChangeEndpoint(ctx context.Context, tenant, id string, enable bool, change func(*EndpointSettings) error) error {
	for {
		r, before, err := s.readEndpoint(ctx, tenant, id)
		if err != nil {
			return err
		}
		url := r.URL
		if err := change(&r.EndpointSettings); err != nil {
			return err
		}
		r.Updated = s.now().UTC().Truncate(time.Millisecond)
		err = s.setEndpoint(ctx, tenant, id, r, before, enable || r.URL != url)
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

func (s *Store) setEndpoint(ctx context.Context, tenant, id string, r endpointRecord, before string, enable bool) error {
	r.Headers = nil // they are sealed
	after, err := job.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode endpoint: %w", err)
	}
	return s.runSetEndpoint(ctx, tenant, id, before, string(after), enable)
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

// TestEndpoint makes a delivery to an endpoint that is a test, and returns its id. It fails with job.ErrNoEndpoint, or with
// a *job.Error of code quota_exceeded where the tenant's records have no room for it.
func (s *Store) TestEndpoint(ctx context.Context, tenant, id string) (string, error) {
	if of, ok := job.TenantOfEndpoint(id); !ok || of != tenant {
		return "", job.ErrNoEndpoint
	}
	terms, err := s.terms(ctx, tenant)
	if err != nil {
		return "", fmt.Errorf("test endpoint: %w", err)
	}
	most, now := s.mostRecorded(terms), s.now()
	did := DeliveryID(job.NewID(tenant), job.EventEndpointTest, id)
	made, err := testEndpointScript.Run(ctx, s.rdb, tenant, script.Args{
		"id": did, "endpoint": id, "event": job.EventEndpointTest, "now": now, "expires": now.Add(testLife), "most_recorded": most,
	}).Text()
	switch {
	case err != nil:
		return "", fmt.Errorf("test endpoint: %w", err)
	case made == "missing":
		return "", job.ErrNoEndpoint
	case made == "bytes_recorded":
		return "", overRecorded(most)
	}
	s.enqueueFirstDelivery(ctx, tenant, made)
	return did, nil
}
