package dev

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/supervise"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/redisacl"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	bucket   = "glovebox"
	s3Region = "us-east-1"
)

// redisRoles are the users of Redis, and which secret is whose password.
var redisRoles = map[redisacl.Role]string{redisacl.Admin: redisPassword, redisacl.API: redisAPI, redisacl.Worker: redisWorker}

// redisURL leads to Redis by a socket, which no other user of the machine can reach.
func (s *stack) redisURL(role redisacl.Role) string {
	return "unix://" + string(role) + ":" + s.data.secrets[redisRoles[role]] + "@" + filepath.Join(s.socketDir, "redis.sock")
}

func (s *stack) redis() (supervise.Command, error) {
	conf, users := s.data.path("redis", "redis.conf"), s.data.path("redis", "users.acl")
	var list strings.Builder
	for role, secret := range redisRoles {
		fmt.Fprintf(&list, "user %s %s\n", role, redisacl.User{Role: role}.Rules(s.data.secrets[secret]))
	}
	if err := os.WriteFile(users, []byte(list.String()), 0o600); err != nil {
		return supervise.Command{}, fmt.Errorf("write Redis users: %w", err)
	}
	lines := []string{
		"port 0", "unixsocket " + filepath.Join(s.socketDir, "redis.sock"),
		"unixsocketperm 777", // the directory lets in only us and the worker
		"dir " + quoted(s.data.path("redis")), "aclfile " + quoted(users),
		"maxmemory-policy noeviction", "save \"\"",
		// An accepted job survives a power cut too.
		"appendonly yes", "appendfsync always", "",
	}
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		return supervise.Command{}, fmt.Errorf("write Redis configuration: %w", err)
	}
	return supervise.Command{
		Name: "redis", Argv: []string{s.tools.redis, conf}, Dir: s.data.path("redis"),
		Env: own(), Files: []*os.File{s.data.lock},
		Ready: func(ctx context.Context) error {
			options, err := redis.ParseURL(s.redisURL(redisacl.Admin))
			if err != nil {
				return err
			}
			options.MaxRetries = -1
			client := redis.NewClient(options)
			defer client.Close()
			return client.Ping(ctx).Err() // while it loads, it answers an error
		},
	}, nil
}

// quoted writes a path as redis.conf reads it.
func quoted(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

func (s *stack) s3Socket() string { return filepath.Join(s.socketDir, "s3.sock") }

func (s *stack) s3() supervise.Command {
	return supervise.Command{
		Name: "s3", Argv: []string{s.tools.versitygw, "--port", s.s3Socket(), "--region", s3Region, "--quiet", "posix", s.data.path("s3")},
		Dir: s.data.path("s3"), Files: []*os.File{s.data.lock},
		Env:   append(own(), "ROOT_ACCESS_KEY="+s.data.secrets[s3AccessKey], "ROOT_SECRET_KEY="+s.data.secrets[s3SecretKey]),
		Ready: func(ctx context.Context) error { return s.ensureBucket(ctx) },
	}
}

// ensureBucket fails as long as the server doesn't answer.
func (s *stack) ensureBucket(ctx context.Context) error {
	if err := dial(ctx, "unix", s.s3Socket()); err != nil {
		return err
	}
	store, err := artifacts.Open(ctx, artifacts.Config{
		Endpoint: "http://" + s.s3Addr, Region: s3Region, Bucket: bucket, PathStyle: true, MaxAttempts: 1,
		AccessKey: s.data.secrets[s3AccessKey], SecretKey: s.data.secrets[s3SecretKey],
	})
	if err != nil {
		return err
	}
	defer store.Close()
	return store.EnsureBucket(ctx)
}

func (s *stack) podmanSocket() string { return filepath.Join(s.podmanDir, "podman.sock") }

func (s *stack) podman() supervise.Command {
	return supervise.Command{
		Name: "podman", Argv: []string{s.tools.podman, "system", "service", "--time", "0", "unix://" + s.podmanSocket()},
		Env: s.user.environment(), User: s.user.credential,
		Ready: func(ctx context.Context) error { return dial(ctx, "unix", s.podmanSocket()) },
	}
}

// shared is what worker and api are told alike.
func (s *stack) shared() []string {
	return []string{
		"GLOVEBOX_S3_ENDPOINT=http://" + s.s3Addr, "GLOVEBOX_S3_REGION=" + s3Region, "GLOVEBOX_S3_BUCKET=" + bucket,
		"GLOVEBOX_S3_ACCESS_KEY=" + s.data.secrets[s3AccessKey], "GLOVEBOX_S3_SECRET_KEY=" + s.data.secrets[s3SecretKey],
		"GLOVEBOX_LOG=json",
	}
}

func (s *stack) api() supervise.Command {
	env := append(own(), s.shared()...)
	env = append(
		env, "GLOVEBOX_REDIS_URL="+s.redisURL(redisacl.API), "GLOVEBOX_API_ADDR=fd:3", "GLOVEBOX_METRICS_ADDR=fd:4", "GLOVEBOX_PUBLIC_URL="+s.url,
		"GLOVEBOX_TOKEN="+s.data.secrets[apiToken], "GLOVEBOX_ADMIN_TOKEN="+s.data.secrets[adminToken], "GLOVEBOX_WEBHOOK_KEY="+s.data.secrets[webhookKey],
		"GLOVEBOX_CAPABILITY_KEY="+s.data.secrets[capabilityKey],
		"GLOVEBOX_WEBHOOK_ALLOW=127.0.0.0/8:*,[::1]:*", "GLOVEBOX_FACADES="+strings.Join(config.Facades(), ","), s.graceSetting(),
	)
	if !s.withPodman() {
		env = append(env, "GLOVEBOX_ISOLATION_ALLOWED="+string(s.Isolation))
	}
	if s.exposed { // the user asked for that, and is told
		env = append(env, "GLOVEBOX_INSECURE=url")
	}
	return supervise.Command{
		Name: "api", Argv: []string{"/proc/self/exe", "api"}, Env: append(env, s.Extra...),
		// The socket is ours, so that clients wait rather than fail while the api is away.
		Files: []*os.File{s.listener, s.metrics["api"].file}, Grace: s.Grace + 5*time.Second,
		Ready: func(ctx context.Context) error { return get(ctx, s.localURL+"/readyz") },
	}
}

func (s *stack) worker() supervise.Command {
	env := append(s.user.environment(), s.shared()...)
	env = append(
		env, "GLOVEBOX_REDIS_URL="+s.redisURL(redisacl.Worker), "GLOVEBOX_METRICS_ADDR=fd:3", "GLOVEBOX_AGENT="+s.programs.agent,
		"GLOVEBOX_INSTANCE="+s.data.secrets[instance], "GLOVEBOX_SIGNING_KEY="+s.data.secrets[signingKey],
		"GLOVEBOX_SECRETS_KEY="+s.data.secrets[secretsKey], s.graceSetting(),
	)
	env = append(env, s.Extra...)
	if s.withPodman() {
		env = append(env, "GLOVEBOX_PODMAN_SOCKET="+s.podmanSocket())
	} else {
		env = append(env, "GLOVEBOX_ISOLATION="+string(s.Isolation))
	}
	return supervise.Command{
		Name: "worker", Argv: []string{s.programs.worker}, Env: env, User: s.user.credential,
		Files: []*os.File{s.metrics["worker"].file},
		Grace: s.Grace + 10*time.Second,
		Ready: func(ctx context.Context) error { _, err := s.published(ctx); return err },
	}
}

// webhookSecrets are what signs the webhooks of GLOVEBOX_TOKEN's tenant now.
func (s *stack) webhookSecrets(ctx context.Context) ([]producer.WebhookSecret, error) {
	api, err := producer.New(s.localURL, s.data.secrets[apiToken])
	if err != nil {
		return nil, err
	}
	defer api.Close()
	return api.WebhookSecrets(ctx)
}

func (s *stack) graceSetting() string {
	return fmt.Sprintf("GLOVEBOX_GRACE_SECONDS=%d", int(s.Grace.Seconds()))
}

// published are the runtimes that the worker which runs now has published.
func (s *stack) published(ctx context.Context) ([]fleet.Runtime, error) {
	records, err := record.Open(ctx, record.Config{URL: s.redisURL(redisacl.API)})
	if err != nil {
		return nil, err
	}
	defer records.Close()
	all, err := records.Fleet.Runtimes(ctx)
	if err != nil {
		return nil, err
	}
	var fresh []fleet.Runtime
	for _, r := range all {
		built := r.ImageDigest != "" || !s.withPodman() // others are the builder's
		if built && !r.SeenAt.Before(s.began) {
			fresh = append(fresh, r)
		}
	}
	if len(fresh) == 0 {
		return nil, fmt.Errorf("the worker has published no runtime yet")
	}
	return fresh, nil
}

// own is the environment of what runs as we do. Only what is needed to reach webhooks
// on the internet is taken from ours.
func own() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LANG=C.UTF-8"}
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v := os.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

func dial(ctx context.Context, network, addr string) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return err
	}
	return c.Close()
}

func get(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, res.Status)
	}
	return nil
}

// urls returns the URL that clients are told and the one that surely leads here from
// here, for a listener on addr, and whether other machines may reach it.
func urls(addr net.Addr) (public, local string, exposed bool) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return "", "", false
	}
	if !tcp.IP.IsUnspecified() {
		u := (&url.URL{Scheme: "http", Host: tcp.String()}).String()
		return u, u, !tcp.IP.IsLoopback()
	}
	local = fmt.Sprintf("http://127.0.0.1:%d", tcp.Port)
	host, err := os.Hostname()
	if err != nil {
		return local, local, true
	}
	return fmt.Sprintf("http://%s:%d", host, tcp.Port), local, true
}
