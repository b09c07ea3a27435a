package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/version"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/direct"
)

// defaultTenant is whose token GLOVEBOX_TOKEN is.
const defaultTenant = "default"

func (a *app) apiCommand() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "api",
		Short: "Serve the HTTP API, and deliver webhooks",
		Long: `Serve the HTTP API, deliver results to webhooks, and take back the jobs of lost
workers. Any number of api processes can share one Redis and one bucket. It runs no
code of anybody, so it belongs on hosts where no worker is.

It is told everything by its environment (a secret can be in a file: NAME_FILE=path):

  GLOVEBOX_REDIS_URL        redis://glovebox-api:password@host:6379/0 ("glovebox redis-acl"
                            makes the user), noeviction, AOF on; rediss:// for TLS; or with
                            Sentinels, with a user that may only ask them (docs/operations.md):
                            redis+sentinel://glovebox-api:password@s1:26379,s2:26379,s3:26379/0?
                            master=NAME&sentinel_username=glovebox&sentinel_password=PASSWORD
  GLOVEBOX_REDIS_WAIT_REPLICAS
                            how many replicas of Redis have to have a job, its end or an attempt
                            at a delivery before that is confirmed, 0 to 5; the same for every api
                            and worker. Where they haven't within a second, a submission is
                            answered 503 and may be sent again under its idempotency key
                            (default: 0)
  GLOVEBOX_S3_ENDPOINT      https://… of an S3-compatible store; empty for AWS
  GLOVEBOX_S3_PUBLIC_ENDPOINT
                            where clients reach the store, if that is elsewhere: links lead there
  GLOVEBOX_S3_PATH_STYLE    false: the bucket is a part of the host's name (default: true where
                            an endpoint is named); the same for workers
  GLOVEBOX_S3_REGION        such as eu-central-1
  GLOVEBOX_S3_BUCKET        private bucket for what jobs make
  GLOVEBOX_S3_ACCESS_KEY    and GLOVEBOX_S3_SECRET_KEY; empty for the instance's role
  GLOVEBOX_API_ADDR         host:port, or fd:N for a socket that was inherited
  GLOVEBOX_PUBLIC_URL       the URL at which clients and receivers reach the API
  GLOVEBOX_TOKEN            the token that clients of the tenant "default" present
  GLOVEBOX_ADMIN_TOKEN      the token for "glovebox tenant"; without it there is no admin
                            API, with it GLOVEBOX_TOKEN may be left out
  GLOVEBOX_WEBHOOK_KEY      32 random bytes in base64, from which each tenant's webhook
                            secret comes ("glovebox webhook"); the same for every api; a
                            new one first, during a rotation
  GLOVEBOX_CAPABILITY_KEY   32 random bytes in base64; a new one first, during a rotation
  GLOVEBOX_WEBHOOK_ALLOW    private targets that webhooks may reach: 10.1.2.0/24:443,…
  GLOVEBOX_WEBHOOK_SCHEDULE delays of the attempts; that of Standard Webhooks by default
  GLOVEBOX_RETENTION_SECONDS
                            how long jobs are kept after their end, at most; the same for
                            every api and worker (default: 604800, 7 days)
  GLOVEBOX_RESULT_SECONDS   how long results stay in Redis beside the bucket; the same for
                            every api and worker (default: 3600)
  GLOVEBOX_TENANT_QUOTAS    quotas of tenants that are created and whose terms name none, 0 for
                            no bound (default: requests_per_minute=6000,jobs_queued=20000,
                            bytes_queued=268435456,bytes_stored=10737418240)
  GLOVEBOX_RECORDS_MB       how much of Redis the records of a tenant may take whose terms
                            don't say, in MiB (default: 1024)
  GLOVEBOX_ISOLATION_ALLOWED
                            process: jobs may say that they accept less isolation than gVisor, and
                            run on workers with GLOVEBOX_ISOLATION=process (default: none may)
  GLOVEBOX_PRICES           what jobs cost, the same as workers have, in billionths of your
                            currency: run=200,cpu_second=14000,gib_second=4500 (default: none)
  GLOVEBOX_POLICY           a file of rules that refuse jobs, or hold them until somebody approves
                            them ("glovebox policy --help"; default: none)
  GLOVEBOX_TRUSTED_PROXIES  addresses or networks of the proxies in front of the api, with
                            commas: the client is the one that they name in
                            X-Forwarded-For. Without it, the client is always the peer
  GLOVEBOX_FACADES          other servers' contracts that are served, too: judge0, piston, jobe,
                            e2b, with commas (default: none). Each is below /NAME
  GLOVEBOX_FACADE_ADDRESSES addresses of their own for clients that can't be told a path, such as
                            judge0=0.0.0.0:2358,jobe=0.0.0.0:4000 (default: none)
  GLOVEBOX_FACADE_TENANT    the tenant that requests to façades without a token count as: for networks
                            in which everybody may run code (default: none, they are refused)
  GLOVEBOX_FACADE_WAIT_SECONDS
                            how long a program that a façade's client waits for may wait for a place,
                            1 to 3600, before the client is told to try again: more for whole classes
                            that press a button at once (default: 10 for jobe, 60 for piston)
  GLOVEBOX_BATCH_MB         how large a batch may be, in MiB (default: 256)
  GLOVEBOX_POLL_MS          how often an idle deliverer looks for a delivery, in case it
                            was not told of one (default: 1000)
  GLOVEBOX_GRACE_SECONDS    how long deliveries may go on after SIGTERM (default: 20)
  GLOVEBOX_METRICS_ADDR     host:port, or fd:N, at which Prometheus finds /metrics, for
                            operators only (default: nowhere)
  OTEL_EXPORTER_OTLP_ENDPOINT
                            http://host:4318 of an OpenTelemetry collector, which gets the
                            traces of jobs (default: nowhere, and none are made)
  OTEL_TRACES_SAMPLER_ARG   ratio of the traces that are begun which is sent (default: 1)
  GLOVEBOX_INSECURE         what to accept though others on the network could read it: redis (no
                            password), s3 and url (http), with commas (default: nothing)
  GLOVEBOX_LOG              text or json

While Redis is away as it starts, it waits, says so, and answers 503; it ends for what only
a changed setting mends: a password that is refused, a bucket that does not exist.

SIGTERM ends it: requests and deliveries under way may end, those who wait for a job
are sent away.`,
		Example: `  glovebox api --addr 0.0.0.0:8437`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.ReadAPI(a.getenv)
			if err != nil {
				return &failure{exitUsage, err, `"glovebox api --help" explains each variable`}
			}
			c.Addr = addr
			return a.serve(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&addr, "addr", config.DefaultAPIAddr, "`ADDRESS` to listen on: host:port, or fd:N")
	setTwin(cmd, "addr", "GLOVEBOX_API_ADDR")
	return cmd
}

// memoryLimit is where the garbage collector begins to work harder: above what bodies and
// all else are meant to take at once, below the unit's MemoryMax (ADR 25).
const memoryLimit = 400 << 20

// serve runs the api, the deliverer and the sweeper, which fires schedules, until ctx ends or one of them fails.
func (a *app) serve(ctx context.Context, c config.API) (err error) {
	log := config.Logger(a.stderr, c.Log)
	if a.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	for _, w := range c.Warnings {
		log.Warn("a setting could be safer", "what", w)
	}
	redis.SetLogger(&logging.VoidLogger{}) // what it would say, our own calls return
	hooks, err := readDelivery(c)
	if err != nil {
		return err
	}
	listener, err := config.Listen(ctx, c.Addr)
	if errors.Is(err, config.ErrAddr) {
		return usagef("--addr: %v", err)
	} else if err != nil {
		return err
	}
	defer listener.Close()
	facades, err := listenForFacades(ctx, c)
	if err != nil {
		return err
	}
	defer facades.close()
	tracer, err := c.Tracing.Open(ctx, "glovebox-api", "", log)
	if err != nil {
		return err
	}
	defer tracer.Close() //nolint:contextcheck // it sends the last spans after ctx has ended
	m, err := newMetrics(ctx, c)
	if err != nil {
		return err
	}
	defer metrics.Start(ctx, m.listener, m.registry, nil, log)()
	c.S3.Observe = m.s3.Observe
	objects, err := artifacts.Open(ctx, c.S3)
	if err != nil {
		return err
	}
	defer objects.Close()
	c.Redis.Log, c.Redis.Observer, c.Redis.Prices = log, m.records, c.Prices
	records, err := awaitRecords(ctx, listener, c.Redis, log)
	if err != nil && ctx.Err() != nil {
		return nil // it was told to end as it waited
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	m.watch(records)
	private, err := guardBucket(ctx, objects, log)
	if err != nil {
		return err
	}
	tokens, err := artifacts.NewTokens(c.CapabilityKeys...)
	if err != nil {
		return err
	}
	links, err := direct.NewLinks(c.PublicURL, tokens)
	if err != nil {
		return err
	}
	opened, err := direct.New( //nolint:contextcheck // it listens until it is closed, which is after ctx has ended
		direct.Config{Tenant: defaultTenant, Isolations: c.Isolations, NewTenants: c.NewTenants, Links: links, WebhookKeys: hooks.keys, Guard: hooks.guard, Tracer: tracer, Log: log}, records, objects,
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	client := opened.WithPolicy(c.Policy)
	settings := api.Config{Client: client, Links: links, Tokens: map[api.TokenHash]string{}, BatchBytes: c.BatchBytes, Prices: c.Prices, TrustedProxies: c.TrustedProxies, Facades: facadesNamed(c.Facades), FacadeTenant: c.FacadeTenant, FacadeWait: c.FacadeWait, Version: version.Read().Version, Observe: m.http.Observe, Tracer: tracer, Log: log}
	if c.Token != "" {
		settings.Tokens[api.HashToken(c.Token)] = defaultTenant
	}
	if c.AdminToken != "" {
		admin := api.HashToken(c.AdminToken)
		settings.AdminToken = &admin
	}
	handler, err := api.New(settings)
	if err != nil {
		return err
	}
	deliveries, sender, err := newDeliverer(c, hooks, records, client, links, m.deliverer, tracer, log)
	if err != nil {
		return err
	}
	defer sender.Close()
	sweeper := &record.Sweeper{Records: records, Log: log, DeleteObjects: objects.SweepJob, DeleteUpload: objects.SweepUpload, Fire: client.Firer(), Advance: client.Advancer().Advance}

	log.Info("api serves", "addr", listener.Addr().String(), "url", c.PublicURL)
	group, ctx := errgroup.WithContext(ctx)
	if !private {
		group.Go(func() error { return guardLater(ctx, objects, log) })
	}
	group.Go(func() error { return handler.Serve(ctx, listener) })
	facades.serve(ctx, group, handler, log)
	group.Go(func() error { return deliveries.Run(ctx) })
	group.Go(func() error { sweeper.Run(ctx); return nil })
	return group.Wait()
}

// durable fails when Redis may drop accepted jobs, and warns when a restart of it would
// lose them.
func durable(ctx context.Context, records *record.Store, log *slog.Logger) error {
	if err := records.Ping(ctx); err != nil {
		return err
	}
	info, err := records.Redis().Info(ctx, "persistence").Result()
	if err != nil || !strings.Contains(info, "aof_enabled:1") {
		log.Warn("Redis has no AOF, or does not say: a restart of it may lose accepted jobs; glovebox doctor says more", "error", err)
	}
	return nil
}
