package config

import (
	"net/netip"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/job"
)

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

// DefaultAPIAddr is where the API listens unless told otherwise.
const DefaultAPIAddr = "127.0.0.1:8437"
