package job

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what [Terms] hold, and of a tenant's tokens and their labels.
const (
	MaxTermsEntries = 256 // of each list
	MaxHostBytes    = 255
	MaxLabelBytes   = 64
	MaxTokens       = 32 // of a tenant
	maxRate         = 1_000_000
	maxQuota        = 1 << 50
	// MaxRetentionSeconds is ten years.
	MaxRetentionSeconds = 10 * 365 * 24 * 60 * 60
	// MaxTokenLife is how far ahead a token may expire, if it does.
	MaxTokenLife = MaxRetentionSeconds * time.Second
)

// Tenant is who submits jobs: a name, the tokens that speak for it, and what it may do.
type Tenant struct {
	Name      string    `json:"name" doc:"1 to 32 lower-case letters and digits." example:"acme"`
	CreatedAt time.Time `json:"created_at"`
	// Revision counts the changes of Terms, from 1.
	Revision int64 `json:"revision" doc:"Counts the changes of terms; a change names the one that it is based on."`
	Terms    Terms `json:"terms"`
	// Tokens by age, the oldest first.
	Tokens []Token     `json:"tokens" nullable:"false"`
	Usage  TenantUsage `json:"usage" doc:"What its quotas count, now."`
}

// Terms are what a tenant may do. The zero value is bounded by the operator's maximums only.
type Terms struct {
	// Disabled refuses every request of the tenant. What it had queued still runs.
	Disabled bool   `json:"disabled,omitempty" doc:"Refuse every request of the tenant; what it had queued still runs."`
	Quotas   Quotas `json:"quotas,omitzero"`
	// Budget is what its jobs may cost in a month.
	Budget Budget `json:"budget,omitzero" doc:"What its jobs may cost in a calendar month of UTC."`
	// RetentionSeconds is how long jobs are kept after their end, unless they ask for
	// less; 0, or more than the operator's retention, means that one.
	RetentionSeconds int64 `json:"retention_seconds,omitempty" doc:"How long jobs, results and files are kept after a job's end, seconds, unless the job asks for less; 0, or more than the operator's own retention, means that one." minimum:"0"`
	// Maximums narrow the operator's; a field that is 0 or absent leaves them as they are.
	Maximums Limits `json:"maximums,omitzero" doc:"The most that a job may ask for, where that is less than the operator's own maximum."`
	// Runtimes are the names of those that jobs may use, Images the images of one's own, by
	// name@digest or by a name for all its digests. None in either means all.
	Runtimes []string `json:"runtimes,omitempty" doc:"Runtimes that jobs may use, by name. None here nor in images means all."`
	Images   []string `json:"images,omitempty" doc:"Images that jobs may bring, by name@sha256:… or by a name for all its digests. None here nor in runtimes means all that workers offer."`
	// CallbackHosts are the hosts that jobs may name in a callback, "*.example.com" for
	// every host below example.com; none means all that the operator's guard allows.
	CallbackHosts []string `json:"callback_hosts,omitempty" doc:"Hosts that callbacks may lead to, *.example.com for all below example.com; none means all that the operator's guard allows." example:"[\"hooks.example.com\"]"`
	// Placement are labels that every job of the tenant has in its placement. Of other tenants only those may name one of them whose own
	// terms have it.
	Placement Labels `json:"placement,omitempty" doc:"Labels that a worker has to have to run any job of the tenant: its pool. A tenant whose terms don't have such a label can't name it." example:"{\"pool\":\"exams\"}"`
	// Policy are rules after those of the operator: the first one that matches decides.
	Policy []Rule `json:"policy,omitempty" doc:"Rules that refuse jobs or have them wait for a decision, after the operator's own: the first that matches decides."`
}

// Quotas bound what a tenant takes of a deployment. One that is 0 is no bound.
type Quotas struct {
	// RequestsPerMinute to the API, all processes together.
	RequestsPerMinute int64 `json:"requests_per_minute,omitempty" doc:"Requests to the API per minute." minimum:"0" example:"600"`
	// JobsQueued are jobs that no worker has started, or that are to be tried again.
	JobsQueued int64 `json:"jobs_queued,omitempty" doc:"Jobs that wait for a worker." minimum:"0" example:"1000"`
	// RunningAtOnce are jobs that workers have at the same time.
	RunningAtOnce int64 `json:"running_at_once,omitempty" doc:"Jobs that run at the same time; the others wait." minimum:"0" example:"20"`
	// Sessions that have not ended; 0 means [DefaultSessions].
	Sessions int64 `json:"sessions,omitempty" doc:"Sessions that have not ended; 0 means 16." minimum:"0" example:"4"`
	// BytesQueued are the specs of these jobs, as JSON.
	BytesQueued int64 `json:"bytes_queued,omitempty" doc:"Bytes of these jobs: their specs as JSON." minimum:"0"`
	// BytesStored are the objects that are kept of jobs that have ended. They are counted
	// when a job ends, so one job can pass the quota by what its limits let it keep.
	BytesStored int64 `json:"bytes_stored,omitempty" doc:"Bytes of artifacts, long outputs and results that are kept. Counted when a job ends, so jobs that were accepted before can pass it; none is accepted while it is reached." minimum:"0"`
	// BytesRecorded is what the records of jobs and batches take of Redis, from their
	// submission until they are no longer kept; 0 means the operator's quota for all.
	BytesRecorded int64 `json:"bytes_recorded,omitempty" doc:"Bytes of Redis that the records of jobs and batches take, from their submission until they are no longer kept: some 3 KiB each and their metadata, and the specs of jobs that have not ended. 0 means what the operator set for all tenants." minimum:"0"`
}

// TenantUsage is how much of its quotas a tenant uses.
type TenantUsage struct {
	JobsQueued  int64 `json:"jobs_queued"`
	BytesQueued int64 `json:"bytes_queued"`
	BytesStored int64 `json:"bytes_stored"`
	// BytesRecorded includes idempotency keys and deliveries that are pending.
	BytesRecorded int64 `json:"bytes_recorded"`
	Running       int64 `json:"running"`
}

// Token is what is known of a token once it was shown: not the token.
type Token struct {
	ID        string    `json:"id" doc:"What revokes it." example:"k7w3mq2a"`
	Label     string    `json:"label,omitempty" doc:"What its maker called it."`
	CreatedAt time.Time `json:"created_at"`
	// Scopes are what the token may do.
	Scopes []Scope `json:"scopes" doc:"What the token may do: submit, read, approve, manage." nullable:"false"`
	// ExpiresAt is when the token becomes worthless; nil for never.
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"When the token becomes worthless; absent for never."`
	// LastUsedAt is when the token was good for a request last, to the minute, as far as it is
	// known; nil for never.
	LastUsedAt *time.Time `json:"last_used_at,omitempty" doc:"When the token was used last, to the minute; absent if it never was."`
}

// May reports whether the token has the scope.
func (t Token) May(scope Scope) bool { return slices.Contains(t.Scopes, scope) }

// Expired reports whether the token is worthless by now.
func (t Token) Expired(now time.Time) bool { return t.ExpiresAt != nil && !now.Before(*t.ExpiresAt) }

// Check returns what is wrong with the terms as [Invalid], or nil.
func (t Terms) Check() error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	for _, q := range []struct {
		name        string
		value, most int64
	}{
		{"requests_per_minute", t.Quotas.RequestsPerMinute, maxRate},
		{"jobs_queued", t.Quotas.JobsQueued, maxQuota},
		{"bytes_queued", t.Quotas.BytesQueued, maxQuota},
		{"bytes_stored", t.Quotas.BytesStored, maxQuota},
		{"bytes_recorded", t.Quotas.BytesRecorded, maxQuota},
		{"running_at_once", t.Quotas.RunningAtOnce, maxQuota},
	} {
		if q.value < 0 || q.value > q.most {
			add("terms.quotas."+q.name, q.value, "is out of range", fmt.Sprintf("0 (no quota) to %d", q.most))
		}
	}
	t.Budget.check(add)
	if r := t.RetentionSeconds; r < 0 || r > MaxRetentionSeconds {
		add("terms.retention_seconds", r, "is out of range", fmt.Sprintf("0 (the operator's) to %d", MaxRetentionSeconds))
	}
	for i, f := range t.Maximums.fields() {
		if most := *unbounded.fields()[i].value; *f.value < 0 || *f.value > most {
			add("terms.maximums."+f.name, *f.value, "is out of range", fmt.Sprintf("0 (the operator's) to %d", most))
		}
	}
	if !(t.Maximums.CPUs >= 0 && t.Maximums.CPUs <= unbounded.CPUs) { // written so that NaN fails
		add("terms.maximums.cpus", fmt.Sprint(t.Maximums.CPUs), "is out of range", fmt.Sprintf("0 (the operator's) to %d", int64(unbounded.CPUs)))
	}
	checkEntries(add, "terms.runtimes", t.Runtimes, "the name of a runtime", runtimeName)
	checkEntries(add, "terms.images", t.Images, "an image's name, with @sha256:… or for all its digests without", imageName)
	checkEntries(add, "terms.callback_hosts", t.CallbackHosts, "a host such as hooks.example.com or *.example.com, without scheme and port", hostPattern)
	t.Placement.check(add, "terms.placement", MaxPlacement)
	errs = append(errs, CheckRules("terms.policy", t.Policy)...)
	if len(errs) == 0 {
		return nil
	}
	return errs
}

// unbounded is more than any limit can mean, and still safe to multiply.
var unbounded = Limits{
	WallMS: 1 << 40, CPUMS: 1 << 40, MemoryMB: 1 << 30, CPUs: 1 << 20, Processes: 1 << 30, OpenFiles: 1 << 30, AddressSpaceMB: 1 << 30, StackMB: 1 << 30, OutputKB: 1 << 30,
	FileMB: 1 << 30, DiskMB: 1 << 30, SourceKB: 1 << 30, Artifacts: 1 << 30, ArtifactMB: 1 << 30,
}

func checkEntries(add addFunc, field string, list []string, allowed string, ok func(string) bool) {
	if len(list) > MaxTermsEntries {
		add(field, len(list), "has too many entries", fmt.Sprintf("0 to %d", MaxTermsEntries))
		return
	}
	for i, entry := range list {
		switch {
		case !ok(entry):
			add(fmt.Sprintf("%s[%d]", field, i), clip(entry), "is not valid", allowed)
		case slices.Contains(list[:i], entry):
			add(fmt.Sprintf("%s[%d]", field, i), clip(entry), "appears more than once", "each entry once")
		}
	}
}

func runtimeName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_' && r != '+'
	})
}

// imageName is a pinned image, or its name alone.
func imageName(s string) bool {
	if !strings.Contains(s, "@") {
		s += "@sha256:" + strings.Repeat("0", 64)
	}
	return CheckImage(s) == ""
}

// hostPattern is a host as a URL spells it, in lower case, "*." before it or not.
func hostPattern(s string) bool {
	host := strings.TrimPrefix(s, "*.")
	u, err := url.Parse("https://" + host + "/")
	return err == nil && host != "" && len(host) <= MaxHostBytes && u.Host == host && u.Port() == "" && u.User == nil &&
		isASCII(host) && !strings.HasSuffix(host, ":") && !strings.HasSuffix(host, ".") && !strings.ContainsFunc(host, func(r rune) bool {
		return unicode.IsUpper(r) || unicode.IsSpace(r) || unicode.IsControl(r) || r == '*' || r == '%'
	})
}

// AllowsRuntime reports whether jobs may use the runtime of that name (no alias).
func (t Terms) AllowsRuntime(name string) bool {
	return len(t.Runtimes)+len(t.Images) == 0 || slices.Contains(t.Runtimes, name)
}

// AllowsImage reports whether jobs may bring the image, pinned by its digest.
func (t Terms) AllowsImage(image string) bool {
	name, _, _ := strings.Cut(image, "@")
	return len(t.Runtimes)+len(t.Images) == 0 || slices.Contains(t.Images, image) || slices.Contains(t.Images, name)
}

// AllowsCallback reports whether a callback may lead to rawURL.
func (t Terms) AllowsCallback(rawURL string) bool {
	if len(t.CallbackHosts) == 0 {
		return true
	}
	host := HostOf(rawURL)
	return slices.ContainsFunc(t.CallbackHosts, func(pattern string) bool {
		if below, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasSuffix(host, below) && host != below
		}
		return host != "" && host == plainHost(strings.Trim(pattern, "[]"))
	})
}

// CheckLabel says what is wrong with a token's label, or "".
func CheckLabel(s string) string {
	switch {
	case len(s) > MaxLabelBytes:
		return "is too long"
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "has a character that can't be printed"
	}
	return ""
}
