package hooks

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/jsonvalue"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/webhook"
)

// What is wrong with a request that nothing is started for.
var (
	// ErrSignature means that the request has no signature by any of the secrets, or two.
	ErrSignature = errors.New("the request is not signed as this hook's sender signs")
	// ErrTime means that it was signed too long ago, or with a clock that is wrong.
	ErrTime = errors.New("the request was signed too long ago, or by a clock that is ahead")

	errSignature, errTime = ErrSignature, ErrTime
)

// Request is what came.
type Request struct {
	Header   http.Header
	RawQuery string
	Body     []byte // as it came
	// URL is the hook's, without a query, which Twilio signs.
	URL string
	// Permit is asked before anything is fetched to verify the request, and its error is that of the
	// verification. Defaults to a yes.
	Permit func() error
}

// Delivery is a request whose sender is known.
type Delivery struct {
	// ID is what the sender calls it, or "".
	ID string
	// Keys name the delivery: a request with one of them is the same once more. They are the id where
	// that is a part of what is signed by itself; else the id and the digest of what is signed, as whoever
	// took down a request could send it again under another id, or with headers by which none is found in
	// the body. There is none where nothing names it.
	Keys []string
	// Handshake is what to answer to a request that only asks if somebody is there; else nil.
	Handshake *Answer
	// Visit is a URL that the handshake wants to be visited before it is answered, Note what is listed of it.
	Visit, Note string
	// Body is what is signed of the body, where that isn't all of it; else nil.
	Body map[string]any
}

// Answer is what a sender is told.
type Answer struct {
	Status      int
	ContentType string
	Body        []byte
}

// Verify returns what a request is, if one of the secrets has signed it as the hook's sender signs. It
// fails with ErrSignature or ErrTime. Amazon's senders have no secret: [SNS.Verify] is theirs.
func Verify(h job.HookSettings, r Request, secrets []string, now time.Time) (Delivery, error) {
	if len(secrets) == 0 {
		return Delivery{}, ErrSignature
	}
	if scheme, ok := schemes[h.Sender]; ok {
		return verifyScheme(h.Sender, scheme, r, secrets, now)
	}
	switch h.Sender {
	case job.SenderHMAC:
		return verifyScheme(h.Sender, *h.Scheme, r, secrets, now)
	case job.SenderStandard:
		return verifyStandard(r, secrets, now)
	case job.SenderStripe:
		return verifyStripe(r, secrets, now)
	case job.SenderDiscord:
		return verifyDiscord(r, secrets, now)
	case job.SenderTwilio:
		return verifyTwilio(h, r, secrets)
	case job.SenderGitLab:
		token, err := header(r.Header, "X-Gitlab-Token")
		if err != nil || !anyEqual(token, secrets) {
			return Delivery{}, ErrSignature
		}
		return unsigned(r.Header, "Idempotency-Key", r.Body)
	case job.SenderCloudEvents, job.SenderBearer:
		return verifyBearer(h.Sender, r, secrets)
	}
	return Delivery{}, ErrSignature
}

func verifyScheme(sender string, s job.HookScheme, r Request, secrets []string, now time.Time) (Delivery, error) {
	in, err := check(s, r, secrets, now)
	if err != nil {
		return Delivery{}, err
	}
	d := Delivery{ID: in.id, Keys: keys(in.id, in.content)}
	switch {
	case strings.Contains(s.Content, "{id}"):
		d.Keys = keys(in.id, nil)
		if in.id == "" { // signed as empty
			d.Keys = keys("", in.content)
		}
	case sender == job.SenderSlack:
		slack(&d, r, in.content)
	case sender == job.SenderGitHub && r.Header.Get("X-Github-Event") == "ping":
		d.Handshake = &Answer{http.StatusOK, "text/plain", []byte("pong\n")}
	}
	return d, nil
}

// keys are those of an id and of what is signed, where there is any.
func keys(id string, content []byte) (list []string) {
	if id != "" {
		list = append(list, "id:"+id)
	}
	if content != nil {
		sum := sha256.Sum256(content)
		list = append(list, "digest:"+hex.EncodeToString(sum[:]))
	}
	return list
}

// unsigned is a delivery whose id is not signed.
func unsigned(h http.Header, name string, content []byte) (Delivery, error) {
	id, err := optional(h, name)
	return Delivery{ID: id, Keys: keys(id, content)}, err
}

// slack reads what is signed, too: the body. Its retries have a new time, and the same id.
func slack(d *Delivery, r Request, content []byte) {
	body, err := Body(r)
	if err != nil {
		return
	}
	if kind, _ := jsonvalue.Find(body, "/type"); kind == "url_verification" {
		challenge, _ := jsonvalue.Find(body, "/challenge")
		text, _ := challenge.(string)
		d.Handshake = &Answer{http.StatusOK, "text/plain", []byte(text)}
	}
	for _, pointer := range []string{"/event_id", "/trigger_id"} {
		if id := textAt(body, pointer); id != "" {
			d.ID, d.Keys = id, keys(id, content)
			return
		}
	}
}

func textAt(v any, pointer string) string {
	found, _ := jsonvalue.Find(v, pointer)
	text, _ := found.(string)
	return job.Clip(text, maxHeader)
}

// CheckSecret returns what is wrong with the secret of a hook of that sender as job.Invalid, or nil.
func CheckSecret(sender, secret string) error {
	if err := job.CheckHookSecret(secret); err != nil {
		return err
	}
	wrong := job.FieldError{Field: "secret", Message: "is not of the form that the sender's secrets have"}
	switch sender {
	case job.SenderStandard:
		if _, err := webhook.ParseVerifiers(secret); err == nil && !strings.Contains(secret, " ") {
			return nil
		}
		wrong.Allowed = "whsec_… or whpk_…"
	case job.SenderDiscord:
		if key, err := hex.DecodeString(secret); err == nil && len(key) == ed25519.PublicKeySize {
			return nil
		}
		wrong.Allowed = "the application's public key: 64 hex digits"
	default:
		return nil
	}
	return job.Invalid{wrong}
}

// NewSecret returns a random secret of the form that the sender's have, or "" where the sender makes it.
func NewSecret(sender string) string {
	switch sender {
	case job.SenderDiscord, job.SenderStripe, job.SenderSlack, job.SenderShopify, job.SenderTwilio:
		return ""
	case job.SenderStandard:
		return webhook.NewSecret().Reveal()
	}
	return rand.Text() + rand.Text()
}
