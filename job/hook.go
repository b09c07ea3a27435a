package job

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Bounds of a tenant's hooks.
const (
	MaxHooks = 100
	// MaxHookBody is how large a request to a hook may be, bytes.
	MaxHookBody = 1 << 20
	// MaxHookBytes bounds a hook's settings, as JSON.
	MaxHookBytes = 32 << 10
	// MaxHookSecrets is how many secrets of a hook are good at once.
	MaxHookSecrets = 2
	// HookMemory is how long a hook knows a delivery again: Stripe and Standard Webhooks retry for days.
	HookMemory = 7 * 24 * time.Hour

	minHookSecret = 8
	maxHookSecret = 512
	hookMark      = "h-"
)

// What the metadata of a job that a hook started says besides [TemplateKey].
const (
	HookKey     = "glovebox.hook"     // the hook's id
	DeliveryKey = "glovebox.delivery" // what its sender calls the delivery, if anything

	// MaxDeliveryName is how many bytes of what a sender calls a delivery are kept.
	MaxDeliveryName = 255
)

// Senders whose signatures hooks know.
const (
	SenderStandard    = "standard-webhooks" // also Svix's customers, and GitLab from 19.0 on
	SenderGitHub      = "github"
	SenderGitLab      = "gitlab" // by X-Gitlab-Token
	SenderStripe      = "stripe"
	SenderSlack       = "slack"
	SenderBitbucket   = "bitbucket"
	SenderShopify     = "shopify"
	SenderDiscord     = "discord"
	SenderTwilio      = "twilio"
	SenderCloudEvents = "cloudevents" // by a bearer token
	SenderSNS         = "sns"         // Amazon Simple Notification Service, by a topic in place of a secret
	SenderHMAC        = "hmac"        // as Scheme says
	SenderBearer      = "bearer"      // Authorization: Bearer
)

// Senders lists all of them.
func Senders() []string {
	return []string{
		SenderStandard, SenderGitHub, SenderGitLab, SenderStripe, SenderSlack, SenderBitbucket, SenderShopify,
		SenderDiscord, SenderTwilio, SenderCloudEvents, SenderSNS, SenderHMAC, SenderBearer,
	}
}

// Hook is where a sender's requests start a template.
type Hook struct {
	ID string `json:"id" doc:"Whoever knows it can knock; what starts a job is the signature." example:"acme-h-abcdefghijklmnopqrstuvwxyz"`
	// Path is that of requests, below the API's URL.
	Path string `json:"path" doc:"Where the sender posts to, below the API's URL." example:"/v1/hooks/acme-h-abcdefghijklmnopqrstuvwxyz"`
	HookSettings
	Secrets   []HookSecret `json:"secrets" nullable:"false" doc:"Which secrets are good, the newest first; never what they are."`
	CreatedAt time.Time    `json:"created_at"`
}

// HookSettings are what a hook does.
type HookSettings struct {
	Template string `json:"template" doc:"The template that it starts: its newest revision, or with name@3 the third." example:"report"`
	Sender   string `json:"sender" enum:"standard-webhooks,github,gitlab,stripe,slack,bitbucket,shopify,discord,twilio,cloudevents,sns,hmac,bearer" doc:"Who posts, and so how requests are verified. GitLab from 19.0 on, with a signing token, is standard-webhooks."`
	// Scheme is how requests are signed, only with SenderHMAC.
	Scheme *HookScheme `json:"scheme,omitempty" doc:"With sender hmac: how requests are signed."`
	// From says where parameters are in the request, by JSON pointers into {body, headers, query,
	// delivery, hook, time}.
	From map[string]string `json:"from,omitempty" doc:"Where each parameter of the template is in the request: a JSON pointer (RFC 6901) into {body, headers, query, delivery, hook, time}. body is JSON, or a form's fields; headers' names are lower-case. What is not there is left out." example:"{\"ref\": \"/body/ref\"}"`
	// Body is where the job gets the body as it came: BodyStdin, or a file's name.
	Body string `json:"body,omitempty" doc:"Where the job gets the request's body, as it came: stdin, or the name of a file. Absent: nowhere." example:"event.json"`
	// URL is what the sender calls the hook, only with SenderTwilio, which signs it.
	URL string `json:"url,omitempty" doc:"With sender twilio: the hook's URL, as it is configured there. Absent: the API's public URL and path."`
	// TopicARN is whose messages start the template, only with SenderSNS.
	TopicARN string `json:"topic_arn,omitempty" doc:"With sender sns: the topic whose messages start the template. Amazon signs which topic a message is of, so that there is no secret." example:"arn:aws:sns:eu-central-1:123456789012:uploads"`
	// Answer is AnswerAccepted, the default, or AnswerResult.
	Answer string `json:"answer,omitempty" enum:"accepted,result" doc:"accepted, the default: the answer is 202 with the job's id, once that is accepted. result: it is held until the job has ended, and is what that printed."`
	// AnswerSeconds is how long AnswerResult waits.
	AnswerSeconds int `json:"answer_seconds,omitempty" minimum:"0" maximum:"60" doc:"With answer result: how long the answer is held, 1 to 60; 25 by default, 2 for slack. After it the answer is 504 with the job's id, and the job goes on." example:"25"`
	// ContentType of what the job prints.
	ContentType string `json:"content_type,omitempty" doc:"With answer result: the type of what the job prints, text/plain; charset=utf-8 by default. JSON, plain text, CSV and images are shown; XML, PDF, zip and application/octet-stream are downloads; no other is allowed." example:"application/json"`
	Paused      bool   `json:"paused,omitempty" doc:"A hook that is paused answers 404, as if it were not there."`
}

// BodyStdin is standard input, as [HookSettings] names it.
const BodyStdin = "stdin"

// HookScheme is how a sender signs: HMAC-SHA256 with the secret as it is typed.
type HookScheme struct {
	Signature string `json:"signature" doc:"The header that has the signature." example:"X-Signature"`
	Prefix    string `json:"prefix,omitempty" doc:"What stands before the signature in it." example:"sha256="`
	Encoding  string `json:"encoding" enum:"hex,base64"`
	Content   string `json:"content" doc:"What is signed: {body} once, and {id} and {timestamp} where those are signed, too; a character such as . stands between them." example:"{id}.{timestamp}.{body}"`
	Timestamp string `json:"timestamp,omitempty" doc:"The header that has the time, in seconds since 1970; it may be 5 minutes from now, either way." example:"X-Timestamp"`
	ID        string `json:"id,omitempty" doc:"The header that names the delivery: where that is signed, letters, digits, _ and -, up to 255." example:"X-Delivery-Id"`
}

// HookSecret is what is told of a hook's secret.
type HookSecret struct {
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"When it is no longer good; absent until it is rotated."`
}

// HookDelivery is a request to a hook that was verified.
type HookDelivery struct {
	At time.Time `json:"at"`
	// Outcome is DeliveryStarted, DeliveryDuplicate, DeliveryRefused or DeliveryHandshake.
	Outcome  string `json:"outcome" enum:"started,duplicate,refused,handshake" doc:"started a job; was a duplicate of a delivery before; was refused, for the reason that is given; or began or ended a subscription."`
	Delivery string `json:"delivery,omitempty" doc:"What its sender calls it."`
	Job      string `json:"job_id,omitempty" doc:"The job that it started, or that the one before did."`
	Run      string `json:"run_id,omitempty" doc:"Of a template that is a pipeline: the run instead."`
	Reason   string `json:"reason,omitempty"`
}

// The outcomes of a [HookDelivery].
const (
	DeliveryStarted   = "started"
	DeliveryDuplicate = "duplicate"
	DeliveryRefused   = "refused"
	DeliveryHandshake = "handshake" // of SenderSNS
)

// NewHookID returns a fresh id for a hook of the tenant: what a job's has, behind an "h-".
func NewHookID(tenant string) string {
	return tenant + "-" + hookMark + strings.TrimPrefix(NewID(tenant), tenant+"-")
}

// TenantOfHook returns the tenant of a hook, and false for what is no hook's id.
func TenantOfHook(id string) (tenant string, ok bool) {
	tenant, rest, _ := strings.Cut(id, "-")
	random, ok := strings.CutPrefix(rest, hookMark)
	if !ok {
		return "", false
	}
	return TenantOf(tenant + "-" + random)
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// Check returns what is wrong with a hook's settings as [Invalid], or nil.
func (h HookSettings) Check() error {
	var errs Invalid
	add := func(field string, value any, message, allowed string) {
		errs = append(errs, FieldError{field, value, message, allowed})
	}
	if _, _, err := ParseTemplateRef(h.Template); err != nil {
		add("template", clip(h.Template), "is no template's name", "a template's name, or name@revision")
	}
	if !slices.Contains(Senders(), h.Sender) {
		add("sender", clip(h.Sender), "is not known", strings.Join(Senders(), ", "))
	}
	switch {
	case h.Sender == SenderHMAC && h.Scheme == nil:
		add("scheme", nil, "is missing", "how requests are signed, for sender hmac")
	case h.Sender != SenderHMAC && h.Scheme != nil:
		add("scheme", nil, "is the sender's own", "nothing; sender hmac has one")
	case h.Scheme != nil:
		h.Scheme.check(add)
	}
	if h.Body != "" && h.Body != BodyStdin {
		if problem := CheckName(h.Body); problem != "" {
			add("body", clip(h.Body), problem, "stdin, or a file's name such as event.json")
		}
	}
	if u, err := url.Parse(h.URL); h.URL != "" && h.Sender != SenderTwilio {
		add("url", clip(h.URL), "is for sender twilio", "nothing")
	} else if h.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || len(h.URL) > MaxURLBytes) {
		add("url", clip(h.URL), "is no URL to which Twilio posts", fmt.Sprintf("https://HOST/v1/hooks/ID, as it is configured there, up to %d bytes", MaxURLBytes))
	}
	if _, ok := SNSHost(h.TopicARN); ok != (h.Sender == SenderSNS) || h.TopicARN != "" && !ok {
		add("topic_arn", clip(h.TopicARN), "does not fit the sender", "with sender sns a standard topic such as arn:aws:sns:eu-central-1:123456789012:uploads, else nothing")
	}
	h.checkAnswer(add)
	if len(h.From) > MaxArgs {
		add("from", len(h.From), "has too many entries", fmt.Sprintf("0 to %d", MaxArgs))
	} else {
		for name, pointer := range h.From {
			words, ok := ParsePointer(pointer)
			if !ok || len(words) == 0 || !slices.Contains(hookRoots, words[0]) || len(pointer) > MaxMetadataBytes {
				add("from."+clip(name), clip(pointer), "points at nothing of a request", "/"+strings.Join(hookRoots, ", /")+", and below: /body/ref")
			}
		}
	}
	if b, err := Marshal(h); err != nil || len(b) > MaxHookBytes {
		add("from", fmt.Sprintf("%d bytes with the other settings", len(b)), "is too large", fmt.Sprintf("up to %d bytes", MaxHookBytes))
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

var topicARN = regexp.MustCompile(`^arn:(aws|aws-cn|aws-us-gov):sns:([a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}):[0-9]{12}:[A-Za-z0-9_-]{1,256}$`)

// SNSHost returns the host of Amazon's that signs and confirms for a topic, and false for what is none. A FIFO
// topic is none, as those post to no URL.
func SNSHost(topic string) (host string, ok bool) {
	parts := topicARN.FindStringSubmatch(topic)
	if parts == nil {
		return "", false
	}
	host = "sns." + parts[2] + ".amazonaws.com"
	if parts[1] == "aws-cn" {
		host += ".cn"
	}
	return host, true
}

// hookRoots are what pointers of a hook begin with.
var hookRoots = []string{"body", "headers", "query", "delivery", "hook", "time"}

// touching finds what has nothing between that an id or a time can't have.
var touching = regexp.MustCompile(`\{id\}[A-Za-z0-9_-]*\{(timestamp|body)\}|\{(timestamp|body)\}[A-Za-z0-9_-]*\{id\}|\{(timestamp|body)\}[0-9]*\{(timestamp|body)\}`)

func (s HookScheme) check(add addFunc) {
	for _, h := range []struct{ field, name string }{{"signature", s.Signature}, {"timestamp", s.Timestamp}, {"id", s.ID}} {
		if !headerName.MatchString(h.name) && (h.name != "" || h.field == "signature") {
			add("scheme."+h.field, clip(h.name), "is no header's name", "letters, digits and -, up to 64")
		}
	}
	if s.Encoding != "hex" && s.Encoding != "base64" {
		add("scheme.encoding", clip(s.Encoding), "is not known", "hex, base64")
	}
	if len(s.Prefix) > 64 {
		add("scheme.prefix", clip(s.Prefix), "is too long", "up to 64 bytes")
	}
	id, timestamp := strings.Count(s.Content, "{id}"), strings.Count(s.Content, "{timestamp}")
	if strings.Count(s.Content, "{body}") != 1 || id > 1 || timestamp > 1 || len(s.Content) > 256 {
		add("scheme.content", clip(s.Content), "does not say what is signed", "{body} once, and {id} and {timestamp} at most once")
	}
	if touching.MatchString(s.Content) {
		add("scheme.content", clip(s.Content), "does not say where one ends and the next begins", "between {id}, {timestamp} and {body} a character that ids and times never have, such as . or :")
	}
	if (timestamp == 1) != (s.Timestamp != "") {
		add("scheme.timestamp", clip(s.Timestamp), "and {timestamp} in content belong together: a time that is not signed proves nothing", "both or none of them")
	}
	if id == 1 && s.ID == "" {
		add("scheme.id", nil, "is missing, and content has {id}", "the header that names the delivery")
	}
}

// CheckHookSecret returns what is wrong with the secret of a hook, which is never echoed, as [Invalid],
// or nil.
func CheckHookSecret(secret string) error {
	if len(secret) < minHookSecret || len(secret) > maxHookSecret || strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Invalid{{"secret", nil, "is no secret", fmt.Sprintf("%d to %d printable ASCII characters", minHookSecret, maxHookSecret)}}
	}
	return nil
}
