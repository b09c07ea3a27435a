package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// Worker is what glovebox-worker is told.
type Worker struct {
	Redis record.Config
	S3    artifacts.Config
	// Isolation is what programs are isolated by. Defaults to gVisor.
	Isolation job.Isolation
	// PodmanSocket is the path of the rootless Podman service's socket; only gVisor needs it, and Instance.
	PodmanSocket string
	// Agent is the path of the static glovebox-agent, which sandboxes mount.
	Agent string
	// Instance tells this installation's containers from those of others on the host.
	Instance string
	// Labels are what this worker is, and Only keys of them: a job that doesn't name these never runs here. Default to none.
	Labels job.Labels
	Only   []string
	// Concurrency is the most jobs at once. Defaults to the number of CPUs.
	Concurrency int
	// Warm is how many started sandboxes to keep of each runtime in demand. Defaults to
	// Concurrency.
	Warm int
	// Preload has interpreters wait in them, where their runtime knows how. Defaults to true.
	Preload bool
	// Snapshots is when sandboxes in which interpreters wait go on from a snapshot: "auto", where there is no
	// quiet second for them to preload by themselves, the default; "always", or "never".
	Snapshots string
	// MemoryMB is what the sandboxes may use together. Defaults to three quarters of
	// the machine's memory.
	MemoryMB int64
	// CacheMB is how much of the disk inputs and answers of graded jobs may take. Defaults to 1024.
	CacheMB int64
	// PauseMB is how much of the disk paused sessions may take. Defaults to 0: none is paused.
	PauseMB int64
	// PauseAfter is how long a session executes nothing before it is paused. Defaults to 60 s.
	PauseAfter time.Duration
	// Poll is how often an idle worker looks for a task, in case it was not told of one. Defaults to 1 s.
	Poll time.Duration
	// Grace is how long running jobs may take to end after SIGTERM. Defaults to 30 s.
	Grace time.Duration
	// Images are those that jobs may bring, each pinned by its digest.
	Images []string
	// MetricsAddr is where GET /metrics is answered, host:port or fd:N; "" for nowhere.
	MetricsAddr string
	// Signer attests results; nil where there is no key.
	Signer *attest.Signer
	// Secrets open what tenants store; nil where there is no key.
	Secrets *secrets.Keys
	// RequireCgroups keeps the worker from starting where the host's kernel doesn't bound
	// its sandboxes.
	RequireCgroups bool
	// Prices are what jobs cost; nil for nothing.
	Prices *job.Prices
	// Tracing is where spans go.
	Tracing Tracing
	// Log is "text" or "json".
	Log string
	// Warnings are about settings that work, and could be safer.
	Warnings []string
}

// ReadWorker reads a worker's environment. Its error lists every fault.
func ReadWorker(getenv Getenv) (Worker, error) {
	r := NewReader(getenv)
	concurrency := r.Int("GLOVEBOX_CONCURRENCY", runtime.NumCPU(), 1, 4096)
	w := Worker{
		Redis:       r.Redis(),
		S3:          r.S3(),
		Isolation:   r.isolation("GLOVEBOX_ISOLATION"),
		Agent:       r.Required("GLOVEBOX_AGENT", "the path of the glovebox-agent binary"),
		Concurrency: concurrency,
		Warm:        r.Int("GLOVEBOX_WARM", concurrency, 0, 4096),
		Preload:     r.Bool("GLOVEBOX_PRELOAD", true),
		Snapshots:   r.Choice("GLOVEBOX_SNAPSHOTS", "auto", "always", "never"),
		MemoryMB:    int64(r.Int("GLOVEBOX_MEMORY_MB", machineMB()*3/4, 64, 1<<30)),
		CacheMB:     int64(r.Int("GLOVEBOX_CACHE_MB", 1024, 0, 1<<30)),
		Poll:        r.Count("GLOVEBOX_POLL_MS", time.Millisecond, 1000, 1, 10_000),
		Grace:       r.Count("GLOVEBOX_GRACE_SECONDS", time.Second, 30, 1, 86_400),
		Images:      r.images("GLOVEBOX_IMAGES"),
		MetricsAddr: r.String("GLOVEBOX_METRICS_ADDR", ""),
		Prices:      r.prices("GLOVEBOX_PRICES"),
		Tracing:     r.tracing(),
		Signer:      r.signer("GLOVEBOX_SIGNING_KEY"),
		Secrets:     r.secretsKeys("GLOVEBOX_SECRETS_KEY"),
		Log:         r.Choice("GLOVEBOX_LOG", "text", "json"),

		RequireCgroups: r.Bool("GLOVEBOX_REQUIRE_CGROUPS", false),
	}
	w.PauseMB, w.PauseAfter = r.Pause()
	w.Labels, w.Only = r.Labels()
	if w.Isolation == job.GVisor {
		w.PodmanSocket = strings.TrimPrefix(r.Required("GLOVEBOX_PODMAN_SOCKET", "the path of the Podman service's socket"), "unix://")
		w.Instance = r.Required("GLOVEBOX_INSTANCE", "a word of letters and digits that names this installation")
	} else {
		if len(w.Images) > 0 {
			r.Fault("GLOVEBOX_IMAGES", "is set: want none with GLOVEBOX_ISOLATION=%s, which has no images", w.Isolation)
		}
		if w.RequireCgroups {
			r.Fault("GLOVEBOX_REQUIRE_CGROUPS", "is true: limits are soft with GLOVEBOX_ISOLATION=%s", w.Isolation)
		}
	}
	w.Warnings = r.insecure(w.Redis.URL, w.S3, "")
	return w, r.Err()
}

// Pause is how much of a worker's disk paused sessions may take, MiB, and how long a session executes nothing before it is paused.
func (r *Reader) Pause() (mb int64, after time.Duration) {
	return int64(r.Int("GLOVEBOX_SESSION_PAUSE_MB", 0, 0, 1<<30)), r.Count("GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS", time.Second, 60, 1, 5400)
}

// Labels are those of a worker, and the keys of those that a job has to name to run there.
func (r *Reader) Labels() (labels job.Labels, only []string) {
	const name, onlyName = "GLOVEBOX_LABELS", "GLOVEBOX_LABELS_ONLY"
	labels, err := job.ParseLabels(r.getenv(name), job.MaxLabels)
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
	}
	only, onlyErr := job.ParseLabelKeys(r.getenv(onlyName))
	switch {
	case onlyErr != nil:
		r.Fault(onlyName, "can't be read: %v", onlyErr)
	case len(only) > job.MaxPlacement:
		r.Fault(onlyName, "has %d keys: want up to %d, as many labels as a job may name", len(only), job.MaxPlacement)
	case err == nil:
		for _, key := range only {
			if _, has := labels[key]; !has {
				r.Fault(onlyName, "has %q: want keys of %s, which has %q", key, name, labels.String())
			}
		}
	}
	return labels, only
}

// API is what glovebox api is told.
type API struct {
	Redis record.Config
	S3    artifacts.Config
	// Addr is host:port, or fd:N for a listening socket that was inherited.
	Addr string
	// PublicURL is how clients and receivers of webhooks reach the API, without a slash at the end.
	PublicURL string
	// Token is the bearer token of the tenant "default"; empty where only tenants' own
	// tokens are to be good.
	Token string
	// AdminToken is the operator's, for the admin API; empty for none.
	AdminToken string
	// WebhookKey is what tenants' webhook secrets are derived from: two words during a
	// rotation.
	WebhookKey string
	// CapabilityKeys sign the URLs of artifacts; the first signs, all verify.
	CapabilityKeys []artifacts.TokenKey
	// WebhookAllow are CIDR:port targets that webhooks may reach though they are private.
	WebhookAllow []string
	// WebhookSchedule are the delays of the attempts, as "0s,5s,5m"; empty for the
	// default of Standard Webhooks.
	WebhookSchedule string
	// Isolations may be accepted by jobs at the least, beside gVisor.
	Isolations []job.Isolation
	// NewTenants are the quotas of tenants that are created, where their terms name none.
	NewTenants job.Quotas
	// Tracing is where spans go.
	Tracing Tracing
	// Prices are what answers say that code cost; nil for nothing.
	Prices *job.Prices
	// Policy are the operator's rules.
	Policy policy.Policy
	// TrustedProxies are the addresses of proxies whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Facades are the names of those that are on.
	Facades []string
	// FacadeAddresses are addresses of their own, by name: host:port, or fd:N.
	FacadeAddresses map[string]string
	// FacadeTenant is whose requests to façades are that have no token; "" refuses them.
	FacadeTenant string
	// FacadeWait is how long a program may wait for a place that a façade's client waits for; 0 for as long as the façade says.
	FacadeWait time.Duration
	// BatchBytes is how large a batch may be as it is sent. Defaults to 256 MiB.
	BatchBytes int64
	// Poll is how often an idle deliverer looks for a task, in case it was not told of one. Defaults to 1 s.
	Poll time.Duration
	// Grace is how long deliveries under way may go on after SIGTERM. Defaults to 20 s.
	Grace time.Duration
	// MetricsAddr is where GET /metrics is answered, host:port or fd:N; "" for nowhere.
	MetricsAddr string
	// Log is "text" or "json".
	Log string
	// Warnings are about settings that work, and could be safer.
	Warnings []string
}

// ReadAPI reads the api's environment. Its error lists every fault.
func ReadAPI(getenv Getenv) (API, error) {
	r := NewReader(getenv)
	a := API{
		Redis:           r.Redis(),
		S3:              r.S3(),
		Addr:            r.String("GLOVEBOX_API_ADDR", DefaultAPIAddr),
		PublicURL:       strings.TrimSuffix(r.Required("GLOVEBOX_PUBLIC_URL", "the URL at which clients reach the API"), "/"),
		AdminToken:      r.Secret("GLOVEBOX_ADMIN_TOKEN"),
		WebhookKey:      r.RequiredSecret("GLOVEBOX_WEBHOOK_KEY", "32 random bytes in base64, or two such keys with a space between"),
		CapabilityKeys:  r.tokenKeys("GLOVEBOX_CAPABILITY_KEY"),
		WebhookAllow:    strings.FieldsFunc(r.getenv("GLOVEBOX_WEBHOOK_ALLOW"), func(c rune) bool { return c == ',' || c == ' ' }),
		WebhookSchedule: r.String("GLOVEBOX_WEBHOOK_SCHEDULE", ""),
		Isolations:      r.isolations("GLOVEBOX_ISOLATION_ALLOWED"),
		NewTenants:      r.quotas("GLOVEBOX_TENANT_QUOTAS", DefaultQuotas),
		Prices:          r.prices("GLOVEBOX_PRICES"),
		Policy:          r.policy("GLOVEBOX_POLICY"),
		Tracing:         r.tracing(),
		TrustedProxies:  r.networks("GLOVEBOX_TRUSTED_PROXIES"),
		Facades:         r.facades("GLOVEBOX_FACADES"),
		FacadeTenant:    r.String("GLOVEBOX_FACADE_TENANT", ""),
		FacadeWait:      r.Count("GLOVEBOX_FACADE_WAIT_SECONDS", time.Second, 0, 1, 3600),
		BatchBytes:      int64(r.Int("GLOVEBOX_BATCH_MB", 256, 1, 1<<20)) << 20,
		Poll:            r.Count("GLOVEBOX_POLL_MS", time.Millisecond, 1000, 1, 10_000),
		Grace:           r.Count("GLOVEBOX_GRACE_SECONDS", time.Second, 20, 0, 86_400),
		MetricsAddr:     r.String("GLOVEBOX_METRICS_ADDR", ""),
		Log:             r.Choice("GLOVEBOX_LOG", "text", "json"),
	}
	a.Redis.RecordBytes = int64(r.Int("GLOVEBOX_RECORDS_MB", record.DefaultRecordBytes>>20, 1, 1<<30)) << 20
	if a.AdminToken == "" {
		a.Token = r.RequiredSecret("GLOVEBOX_TOKEN", "the token that clients present")
	} else {
		a.Token = r.Secret("GLOVEBOX_TOKEN")
	}
	for name, token := range map[string]string{"GLOVEBOX_TOKEN": a.Token, "GLOVEBOX_ADMIN_TOKEN": a.AdminToken} {
		if token != "" && len(token) < minToken {
			r.Fault(name, "has %d characters: want at least %d random ones", len(token), minToken)
		}
	}
	if a.AdminToken != "" && a.AdminToken == a.Token {
		r.Fault("GLOVEBOX_ADMIN_TOKEN", "is the same as GLOVEBOX_TOKEN: want a secret of its own")
	}
	r.CheckURL("GLOVEBOX_PUBLIC_URL", a.PublicURL)
	a.FacadeAddresses = r.facadeAddresses("GLOVEBOX_FACADE_ADDRESSES", a.Facades)
	if a.FacadeTenant != "" && !job.ValidTenant(a.FacadeTenant) {
		r.Fault("GLOVEBOX_FACADE_TENANT", "is no tenant's name: want 1 to 32 lower-case letters and digits")
	}
	a.Warnings = append(r.insecure(a.Redis.URL, a.S3, a.PublicURL), anonymousWarning(a.Facades, a.FacadeTenant)...)
	return a, r.Err()
}

const (
	// minBits4 and minBits6 are the least that a trusted network's prefix has: a shorter one
	// is a slip that trusts much of the world, 0.0.0.0/0 all of it.
	minBits4 = 8
	minBits6 = 32
	// mappedBits is where IPv4 begins in an IPv6 address that holds one.
	mappedBits = 96
)

// networks reads addresses and networks, with commas or spaces between.
func (r *Reader) networks(name string) []netip.Prefix {
	var list []netip.Prefix
	for _, word := range strings.FieldsFunc(r.getenv(name), func(c rune) bool { return c == ',' || c == ' ' }) {
		network, err := netip.ParsePrefix(word)
		if address, addrErr := netip.ParseAddr(word); err != nil && addrErr == nil {
			network, err = address.Prefix(address.BitLen())
		}
		if err != nil {
			r.Fault(name, "has %.60q: want addresses or networks such as 10.1.2.3 or 10.1.2.0/24", word)
			continue
		}
		if a := network.Addr(); a.Is4In6() && network.Bits() >= mappedBits { // as addresses are compared
			network = netip.PrefixFrom(a.Unmap(), network.Bits()-mappedBits)
		}
		least := minBits4
		if network.Addr().Is6() {
			least = minBits6
		}
		if network.Bits() < least || network.Addr().Is4In6() {
			r.Fault(name, "has %.60q, which is too many addresses to trust: want the proxies' own network, of /%d or longer in IPv4 and /%d in IPv6", word, minBits4, minBits6)
			continue
		}
		list = append(list, network.Masked())
	}
	return list
}

// DefaultAPIAddr is where the API listens unless told otherwise.
const DefaultAPIAddr = "127.0.0.1:8437"

// DefaultQuotas bound a new tenant unless its terms or the operator say something else: enough for
// two of the largest batches, and for a tenant that nobody configured.
const DefaultQuotas = "requests_per_minute=6000,jobs_queued=20000,bytes_queued=268435456,bytes_stored=10737418240"

// quotas reads the quotas of new tenants.
func (r *Reader) quotas(name, otherwise string) job.Quotas {
	q, err := job.ParseQuotas(r.String(name, otherwise))
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
	}
	return q
}

// isolation reads one, gVisor where nothing is said.
func (r *Reader) isolation(name string) job.Isolation {
	i, err := job.ParseIsolation(r.getenv(name))
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
		return job.GVisor
	}
	return i
}

// isolations reads those that may be less than gVisor, with commas or spaces between.
func (r *Reader) isolations(name string) []job.Isolation {
	var list []job.Isolation
	for _, word := range strings.FieldsFunc(r.getenv(name), func(c rune) bool { return c == ',' || c == ' ' }) {
		i, err := job.ParseIsolation(word)
		if err != nil {
			r.Fault(name, "can't be read: %v", err)
			continue
		}
		if i != job.GVisor && !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	return list
}

// prices reads what a job costs, nil where nothing is said.
func (r *Reader) prices(name string) *job.Prices {
	text := r.String(name, "")
	if text == "" {
		return nil
	}
	p, err := job.ParsePrices(text)
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
	}
	return &p
}

// policy reads the rules in the file that a setting names. Where they can't be read nothing starts: it would let all through.
func (r *Reader) policy(name string) policy.Policy {
	path := r.String(name, "")
	if path == "" {
		return policy.Policy{}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
		return policy.Policy{}
	}
	p, err := policy.ParseFile(b)
	if err != nil {
		r.Fault(name, "%s: %v", path, err)
	}
	return p
}

// minToken keeps anyone from choosing a token that can be guessed.
const minToken = 20

// Redis reads where the records are, and how long jobs are kept.
func (r *Reader) Redis() record.Config {
	url := r.RequiredSecret("GLOVEBOX_REDIS_URL", redisconn.Forms)
	if _, err := redisconn.Parse(url); err != nil && url != "" {
		r.Fault("GLOVEBOX_REDIS_URL", "%v", err)
	}
	return record.Config{
		URL:        url,
		Replicas:   r.Int("GLOVEBOX_REDIS_WAIT_REPLICAS", 0, 0, 5),
		Retention:  r.Count("GLOVEBOX_RETENTION_SECONDS", time.Second, 7*24*60*60, 1, job.MaxRetentionSeconds),
		ResultLife: r.Count("GLOVEBOX_RESULT_SECONDS", time.Second, 60*60, 1, job.MaxRetentionSeconds),
	}
}

// S3 reads where the bucket is. Without an endpoint it is AWS's S3, and without keys
// AWS's own chain finds them.
func (r *Reader) S3() artifacts.Config {
	c := artifacts.Config{
		Endpoint:       r.String("GLOVEBOX_S3_ENDPOINT", ""),
		PublicEndpoint: r.String("GLOVEBOX_S3_PUBLIC_ENDPOINT", ""),
		Region:         r.String("GLOVEBOX_S3_REGION", "us-east-1"),
		Bucket:         r.Required("GLOVEBOX_S3_BUCKET", "the name of the bucket"),
		AccessKey:      r.Secret("GLOVEBOX_S3_ACCESS_KEY"),
		SecretKey:      r.Secret("GLOVEBOX_S3_SECRET_KEY"),
	}
	// Servers other than AWS's seldom have a name for each bucket.
	c.PathStyle = r.Bool("GLOVEBOX_S3_PATH_STYLE", c.Endpoint != "")
	r.CheckURL("GLOVEBOX_S3_ENDPOINT", c.Endpoint)
	r.CheckURL("GLOVEBOX_S3_PUBLIC_ENDPOINT", c.PublicEndpoint)
	if (c.AccessKey == "") != (c.SecretKey == "") {
		r.Fault("GLOVEBOX_S3_ACCESS_KEY", "and GLOVEBOX_S3_SECRET_KEY go together: want both or neither")
	}
	return c
}

// tokenKeys reads base64 keys, the first of which signs. A key's public id is derived
// from it, so that a rotation is one more word and nothing has to be named.
func (r *Reader) tokenKeys(name string) []artifacts.TokenKey {
	var keys []artifacts.TokenKey
	for _, word := range strings.Fields(r.RequiredSecret(name, "32 random bytes in base64")) {
		secret, err := base64.StdEncoding.DecodeString(word)
		if err != nil || len(secret) < 32 {
			r.Fault(name, "is not 32 or more bytes in base64: openssl rand -base64 32 makes one")
			continue
		}
		sum := sha256.Sum256(secret)
		keys = append(keys, artifacts.TokenKey{ID: hex.EncodeToString(sum[:4]), Secret: secret})
	}
	return keys
}

// signer reads a key to attest results with, if there is one.
func (r *Reader) signer(name string) *attest.Signer {
	seed := r.Secret(name)
	if seed == "" {
		return nil
	}
	s, err := attest.NewSigner(seed)
	if err != nil {
		r.Fault(name, "is not 32 bytes in base64: openssl rand -base64 32 makes one")
		return nil
	}
	return s
}

// secretsKeys reads the keys that open tenants' secrets, if there are any.
func (r *Reader) secretsKeys(name string) *secrets.Keys {
	words := r.Secret(name)
	if words == "" {
		return nil
	}
	keys, err := secrets.ParseKeys(words)
	if err != nil {
		r.Fault(name, "is not one or several times 32 bytes in base64: openssl rand -base64 32 makes one")
		return nil
	}
	return keys
}

// images reads the images that jobs may bring: words, or lines of a file with comments.
func (r *Reader) images(name string) []string {
	var list []string
	for line := range strings.Lines(r.Secret(name)) { // it is none, but may be in a file, too
		line, _, _ = strings.Cut(line, "#")
		for _, image := range strings.Fields(line) {
			if problem := job.CheckImage(image); problem != "" {
				r.Fault(name, "has %.600q, which %s: want %s", image, problem, job.ImageForm)
			}
			list = append(list, image)
		}
	}
	return list
}

// machineMB is the memory of the machine in MiB.
func machineMB() int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 1024 // sysinfo(2) can only fail for a bad pointer
	}
	return int(info.Totalram * uint64(info.Unit) >> 20)
}
