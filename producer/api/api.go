package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/glovebox-run/glovebox/internal/tracing"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// Config says for whom the API works.
type Config struct {
	// Client does the work. Its tenant doesn't matter: tokens decide. The caller
	// closes it after Serve has returned.
	Client *direct.Client
	// Links verifies the capabilities in URLs of files; the same that Client signs with.
	Links *direct.Links
	// Tokens maps the SHA-256 of bearer tokens, as [HashToken] has it, to their tenants,
	// beside those in the tenants' records.
	Tokens map[TokenHash]string
	// AdminToken is the SHA-256 of the token of /v1/admin. Defaults to nobody's.
	AdminToken *TokenHash
	// MaxWait bounds Prefer: wait. Defaults to 60 s.
	MaxWait time.Duration
	// Prices are what POST /v1/code-sandbox/execute says that code cost. Defaults to none: then
	// it says nothing.
	Prices *job.Prices
	// Heartbeat is how often a watch that has nothing to tell says that it is there.
	// Defaults to 15 s.
	Heartbeat time.Duration
	// MaxWatchers is how many jobs a tenant may watch at once in this process. Defaults
	// to 100.
	MaxWatchers int
	// DownloadLife is how long a redirect to the bucket works. Defaults to 5 min.
	DownloadLife time.Duration
	// BatchBytes is how large a batch may be as it is sent. Defaults to DefaultBatchBytes.
	BatchBytes int64
	// Facades are other servers' contracts that are served beside the API's own. Defaults to none.
	Facades []facade.Facade
	// FacadeTenant is whose requests those to façades are that have no token; they may submit jobs
	// and read them. Defaults to nobody's: such requests are refused.
	FacadeTenant string
	// FacadeWait is how long a program of a client that waits may wait for a place, before its client is told that there is none.
	// Defaults to what the façade says: 10 s for Jobe's, a minute for Piston's.
	FacadeWait time.Duration
	// Version of Glovebox, for the OpenAPI document. Defaults to "dev".
	Version string
	// TrustedProxies are the addresses of proxies that say in X-Forwarded-For whom they ask
	// for. Defaults to none: then a request comes from its peer.
	TrustedProxies []netip.Prefix
	// Observe, if set, is told of each request that was answered: the pattern that
	// matched it, "" if none did, the status, -1 where a tenant's job made it, 0 where nothing was sent, and how long it took.
	Observe func(route string, status int, took time.Duration)
	// Tracer makes spans of requests that may change something. Defaults to none.
	Tracer *tracing.Tracer
	// Log defaults to discarding.
	Log *slog.Logger
}

// DefaultBatchBytes is how large a batch may be, unless the operator says otherwise.
const DefaultBatchBytes = 256 << 20

const (
	// bodyTime bounds how long the sender of a body that isn't small may pause.
	bodyTime = time.Minute
	// drainTime is what requests under way get when the API ends.
	drainTime = 20 * time.Second
)

// API is the handler of all routes.
type API struct {
	client     *direct.Client
	links      *direct.Links
	tokens     map[TokenHash]string
	adminToken *TokenHash
	proxies    []netip.Prefix
	failures   failures
	warned     atomic.Int64 // when of a proxy that is not trusted, in ns
	refusals   refusals
	maxWait    time.Duration
	life       time.Duration
	prices     *job.Prices // or nil
	bodyLimit  int64
	batchLimit int64
	bodyTime   time.Duration                                      // that the sender of a batch may take, and more as bytes come
	smallTime  time.Duration                                      // that the sender of a small body may take
	observe    func(route string, status int, took time.Duration) // or nil
	tracer     *tracing.Tracer                                    // or nil
	log        *slog.Logger
	handler    http.Handler
	ready      readiness
	heartbeat  time.Duration
	look       time.Duration // how often what lasts looks its token up again
	watchers   *tenantLimiter
	receipts   *tenantLimiter // of batches
	// What bodies hold: small ones, the operator's, others, and others while they are worked on.
	smallBodies, adminBodies, bodies, work *memoryBudget
	answers                                *memoryBudget // what they hold
	answerTime                             time.Duration
	readings                               *tenantLimiter // of batches' results
	patterns                               []string       // of all routes
	version                                string
	toolBodies                             *memoryBudget // calls of tools, until they are answered
	toolCalls                              *tenantLimiter
	crossOrigin                            *http.CrossOriginProtection // of /mcp, as its protocol wants it

	accesses     map[string]access // of all routes, façades' too
	facades      []facade.Facade
	facadeTenant string         // of requests to them without a token; "" for none
	facadeWait   time.Duration  // for a place; 0 for as long as they say
	lasting      sync.WaitGroup // their requests: http.Server.Shutdown waits for no WebSocket

	// draining ends when waits are no longer worth it.
	draining context.Context //nolint:containedctx // it is a switch of the API, not a request's
	drain    context.CancelFunc
}

// New returns the API.
func New(c Config) (*API, error) {
	if c.Client == nil || c.Links == nil {
		return nil, errors.New("open API: it needs a client and links")
	}
	if len(c.Tokens) == 0 && c.AdminToken == nil {
		return nil, errors.New("open API: there is no token, so nobody could use it")
	}
	for hash, tenant := range c.Tokens {
		if c.AdminToken != nil && hash == *c.AdminToken {
			return nil, errors.New("open API: the admin token is a tenant's too; want one of its own")
		}
		if !job.ValidTenant(tenant) {
			return nil, fmt.Errorf("open API: tenant %.40q is not 1 to 32 lower-case letters and digits", tenant)
		}
	}
	if err := checkFacades(c); err != nil {
		return nil, err
	}
	a := &API{
		accesses: maps.Clone(accesses), facades: c.Facades, facadeTenant: c.FacadeTenant, facadeWait: c.FacadeWait,
		client: c.Client, links: c.Links, tokens: c.Tokens, adminToken: c.AdminToken, proxies: c.TrustedProxies, maxWait: c.MaxWait, life: c.DownloadLife, prices: c.Prices, batchLimit: c.BatchBytes, observe: c.Observe, log: c.Log,
		// What limits.source_kb counts may be a third longer in base64 and still longer
		// with JSON's escapes.
		bodyLimit: max(c.Client.Maximums().SourceKB<<10, job.MaxTestsInline)*2 + 1<<20,
	}
	a.bodyTime, a.smallTime = bodyTime, smallTime
	a.failures.share = failureShare
	a.smallBodies, a.adminBodies = newEvenMemoryBudget(smallMemory), newMemoryBudget(adminMemory, adminMemory)
	a.bodies = newMemoryBudget(bodiesAtOnce*a.bodyLimit, bodiesAtOnce*a.bodyLimit/2)
	a.work = newMemoryBudget(workWeight*a.bodyLimit, math.MaxInt64)
	a.answers, a.answerTime = newEvenMemoryBudget(answerMemory), answerTime
	if a.batchLimit == 0 {
		a.batchLimit = DefaultBatchBytes
	}
	a.heartbeat, a.look = c.Heartbeat, lookInterval
	if a.heartbeat == 0 {
		a.heartbeat = 15 * time.Second
	}
	if c.MaxWatchers == 0 {
		c.MaxWatchers = 100
	}
	a.watchers = newTenantLimiter(c.MaxWatchers, job.CodeTooManyWatchers,
		"the tenant watches %d jobs here already, as many as it may; Prefer: wait waits for a result without watching")
	a.receipts = newTenantLimiter(maxReceipts, job.CodeRateLimited, "the tenant sends %d batches here already, as many as it may")
	a.readings = newTenantLimiter(maxReadings, job.CodeRateLimited, "results of the tenant's batches are read %d times here already, as often as it may be")
	if a.maxWait == 0 {
		a.maxWait = time.Minute
	}
	if a.life == 0 {
		a.life = 5 * time.Minute
	}
	a.tracer = c.Tracer
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	a.toolBodies = newMemoryBudget(toolMemory, toolMemory/4)
	a.toolCalls = newTenantLimiter(maxToolCalls, job.CodeRateLimited, "the tenant has %d calls of tools under way here already, as many as it may")
	a.version, a.crossOrigin = c.Version, http.NewCrossOriginProtection()
	a.draining, a.drain = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	listed := &listedMux{mux, &a.patterns}
	for _, f := range c.Facades {
		a.mount(listed, f)
	}
	if err := errors.Join(a.routes(listed, c.Version), a.checkAccesses()); err != nil {
		return nil, err
	}
	a.handler = a.tidyFacades(a.identify(a.record(a.recover(notFound(mux)))))
	return a, nil
}

// listedMux notes the patterns of its routes, for a test that no route escapes.
type listedMux struct {
	*http.ServeMux
	patterns *[]string
}

// HandleFunc is what humago registers with, too.
func (m *listedMux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	*m.patterns = append(*m.patterns, pattern)
	m.ServeMux.HandleFunc(pattern, handler)
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Drain answers every wait that is under way with what the job is now, ends every watch,
// and lets none begin. For servers other than Serve, which calls it.
func (a *API) Drain() { a.drain() }

// Serve answers on l until ctx ends. Then it releases waiters, lets requests end for
// up to 20 s, and returns nil unless some had to be cut off.
func (a *API) Serve(ctx context.Context, l net.Listener) error { return a.serve(ctx, l, a) }

// idleTime is how long a connection waits for its next request. A load balancer keeps its own for less (terraform/api.tf: 400 s): one that sends
// a request while its target closes the connection answers 502, and nobody knows whether a job was accepted.
const idleTime = 7 * time.Minute

// serve is Serve with a handler of its own.
func (a *API) serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	srv := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       idleTime,
		WriteTimeout:      a.maxWait + bodyTime + 30*time.Second,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve API: %w", err)
	case <-ctx.Done():
	}
	a.Drain()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := srv.Shutdown(grace)
	if err != nil {
		err = errors.Join(fmt.Errorf("end API: requests were cut off: %w", err), srv.Close())
	}
	over := make(chan struct{})
	go func() { a.lasting.Wait(); close(over) }()
	select {
	case <-over:
	case <-grace.Done():
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve API: %w", served))
	}
	return err
}
