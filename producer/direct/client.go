package direct

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/internal/hooks"
	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/internal/tracing"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/webhook"
)

// Config says where a [Client] finds Glovebox, and as whom.
type Config struct {
	// RedisURL is redis://:password@host:port/db. Only [Open] needs it.
	RedisURL string
	// S3 is the bucket. Only [Open] needs it.
	S3 artifacts.Config
	// Retention is how long a job is kept after its end, at most; the same for every
	// process of a deployment. Defaults to 7 days.
	Retention time.Duration
	// Tenant whose jobs these are. Defaults to "default".
	Tenant string
	// Maximums of what a job may ask for. A field that is 0 has the one of
	// job.DefaultMaximums.
	Maximums job.Limits
	// Isolations are those that jobs may accept at the least, beside gVisor. Defaults to none.
	Isolations []job.Isolation
	// NewTenants are the quotas of tenants that are created: of those that their terms leave
	// at 0. Defaults to none.
	NewTenants job.Quotas
	// Links makes the URLs in results absolute. Defaults to leaving them relative to
	// the API's /v1/jobs/<id>/.
	Links *Links
	// WebhookKeys are the operator's, from which tenants' webhook secrets are derived. Only
	// [producer.Webhooks] needs them, which is for the api.
	WebhookKeys *hookkeys.Keys
	// Guard refuses callbacks to addresses that no webhook will ever reach: the deliverer's. Defaults to
	// none, which leaves that to each attempt. What hooks fetch from Amazon SNS goes through it, too, or through
	// one that lets public addresses pass.
	Guard *webhook.Guard
	// Tracer makes spans of what is created. Defaults to none.
	Tracer *tracing.Tracer
	// Log defaults to discarding.
	Log *slog.Logger
}

// Client is [producer.Jobs] over Redis and the bucket. It is safe for concurrent use.
type Client struct {
	records  *record.Store
	secrets  *secrets.Store
	objects  *artifacts.Store
	done     *record.Listener
	tenant   string
	maximums job.Limits
	// isolations may be accepted at the least; gVisor is one of them.
	isolations []job.Isolation
	quotas     job.Quotas
	links      *Links
	memory     Memory // for what is read
	log        *slog.Logger
	close      []func() error

	token    job.Token     // whose holder asks; none has no id
	policy   policy.Policy // the operator's
	policies *policies     // of tenants
	// withoutHolds: see WithoutHolds.
	withoutHolds bool
	watching     bool            // see Watching
	tracer       *tracing.Tracer // or nil
	definitions  *pipelines.Cache
	problems     *problems      // that were read
	webhookKeys  *hookkeys.Keys // or nil
	guard        *webhook.Guard // or nil
	sns          *hooks.SNS
}

var (
	_ producer.Jobs        = (*Client)(nil)
	_ producer.Batches     = (*Client)(nil)
	_ producer.Watcher     = (*Client)(nil)
	_ producer.Files       = (*Client)(nil)
	_ producer.Lister      = (*Client)(nil)
	_ producer.Uploader    = (*Client)(nil)
	_ producer.Purger      = (*Client)(nil)
	_ producer.Interactive = (*Client)(nil)
	_ producer.Catalog     = (*Client)(nil)
	_ producer.Tenants     = (*Client)(nil)
	_ producer.Webhooks    = (*Client)(nil)
	_ producer.Endpoints   = (*Client)(nil)
	_ producer.Secrets     = (*Client)(nil)
	_ producer.Templates   = (*Client)(nil)
	_ producer.Problems    = (*Client)(nil)
	_ producer.Hooks       = (*Client)(nil)
	_ producer.Schedules   = (*Client)(nil)
	_ producer.Runs        = (*Client)(nil)
	_ producer.Metering    = (*Client)(nil)
	_ producer.Sessions    = (*Client)(nil)
	_ producer.Approvals   = (*Client)(nil)
)

// Open connects to Redis and the bucket. The caller closes the Client.
func Open(ctx context.Context, c Config) (*Client, error) {
	objects, err := artifacts.Open(ctx, c.S3)
	if err != nil {
		return nil, err
	}
	records, err := record.Open(ctx, record.Config{URL: c.RedisURL, Retention: c.Retention, Log: c.Log})
	if err != nil {
		objects.Close()
		return nil, err
	}
	client, err := New(c, records, objects) //nolint:contextcheck // the Client outlives ctx
	if err != nil {
		objects.Close()
		return nil, errors.Join(err, records.Close())
	}
	client.close = append(client.close, records.Close, func() error { objects.Close(); return nil })
	return client, nil
}

// New returns a Client over stores that the caller has open and closes after it: for the api,
// which has them anyway. Programs outside this module call [Open].
func New(c Config, records *record.Store, objects *artifacts.Store) (*Client, error) {
	if c.Tenant == "" {
		c.Tenant = "default"
	}
	if !job.ValidTenant(c.Tenant) {
		return nil, fmt.Errorf("open client: tenant %.40q is not 1 to 32 lower-case letters and digits", c.Tenant)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	sns := hooks.NewSNS(webhook.NewHTTPClient(webhook.Config{Guard: c.Guard}), nil)
	// The listener lives as long as the Client, not as long as a context of Open.
	done := records.ListenDone(context.Background())
	return &Client{
		records: records, secrets: secrets.NewStore(records.Redis()), objects: objects, done: done, tenant: c.Tenant, links: c.Links, memory: unlimited{}, tracer: c.Tracer, definitions: &pipelines.Cache{}, problems: newProblems(), log: c.Log,
		maximums: c.Maximums.Or(job.DefaultMaximums), isolations: append([]job.Isolation{job.GVisor}, c.Isolations...), quotas: c.NewTenants, webhookKeys: c.WebhookKeys, guard: c.Guard, sns: sns, policies: &policies{},
		close: []func() error{done.Close, func() error { sns.Close(); return nil }},
	}, nil
}

// For returns a Client for the jobs of another tenant. It shares everything with c
// and needs no Close of its own.
func (c *Client) For(tenant string) *Client {
	other := *c
	other.tenant, other.close = tenant, nil
	return &other
}

// WithPolicy returns a Client of an operator with these rules. It needs no Close of its own.
func (c *Client) WithPolicy(p policy.Policy) *Client {
	other := c.For(c.tenant)
	other.policy = p
	return other
}

// WithSNS returns a Client that asks another Amazon SNS: a test's. It needs no Close of its own.
func (c *Client) WithSNS(sns *hooks.SNS) *Client {
	other := c.For(c.tenant)
	other.sns = sns
	return other
}

// Maximums is the most that a job may ask for.
func (c *Client) Maximums() job.Limits { return c.maximums }

// Close ends every Wait that is under way with nothing, so cancel these before.
func (c *Client) Close() error {
	var errs []error
	for _, f := range c.close {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Ready fails when a job submitted now would not be accepted durably.
func (c *Client) Ready(ctx context.Context) error {
	if err := c.records.Ping(ctx); err != nil {
		return err
	}
	err := c.objects.Check(ctx)
	if errors.Is(err, artifacts.ErrNotTried) { // somebody deleted what is tried
		err = c.objects.Guard(ctx)
	}
	return err
}

// owns reports whether id is a job of this tenant, as far as its name tells. Others'
// jobs are answered for as if they did not exist.
func (c *Client) owns(id string) bool {
	tenant, ok := job.TenantOf(id)
	return ok && tenant == c.tenant
}

// Runtimes is [producer.Catalog.Runtimes].
func (c *Client) Runtimes(ctx context.Context) ([]producer.Runtime, error) {
	published, err := c.records.Fleet.Runtimes(ctx)
	if err != nil {
		return nil, err
	}
	terms, err := c.terms(ctx)
	if err != nil {
		return nil, err
	}
	published = slices.DeleteFunc(published, func(r fleet.Runtime) bool { return !allowsRuntime(terms, r) })
	list := make([]producer.Runtime, len(published))
	for i, r := range published {
		list[i] = producer.Runtime{
			Name: r.Name, Version: r.Version, Aliases: r.Aliases, Image: r.Image,
			ImageDigest: r.ImageDigest, Limits: r.Limits, Compiles: r.Compiles, Warm: r.Warm, Isolation: r.Isolation, Sessions: r.Sessions, Languages: r.Languages,
		}
		if list[i].Aliases == nil {
			list[i].Aliases = []string{}
		}
		if list[i].Languages == nil {
			list[i].Languages = []string{}
		}
	}
	slices.SortStableFunc(list, func(a, b producer.Runtime) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Images is [producer.Catalog.Images].
func (c *Client) Images(ctx context.Context) ([]producer.Image, error) {
	published, err := c.records.Fleet.Images(ctx)
	if err != nil {
		return nil, err
	}
	terms, err := c.terms(ctx)
	if err != nil {
		return nil, err
	}
	published = slices.DeleteFunc(published, func(image string) bool { return !terms.AllowsImage(image) })
	list := make([]producer.Image, len(published))
	for i, image := range published {
		list[i] = producer.Image{Image: image}
	}
	return list, nil
}

// Slots is how many jobs all workers together run at once.
func (c *Client) Slots(ctx context.Context) (int64, error) {
	pipe := c.records.Redis().Pipeline()
	slots := c.records.Fleet.ReadSlots(ctx, pipe)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) { // nobody has counted lately
		return 0, fmt.Errorf("count slots: %w", err)
	}
	return slots()
}

// Keys lists the public keys that attest results: those in use, and those that were as
// long as there are results that they signed.
func (c *Client) Keys(ctx context.Context) ([]attest.Key, error) { return c.records.Fleet.Keys(ctx) }
