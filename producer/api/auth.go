package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/glovebox-run/glovebox/producer"
)

// TokenHash is what the API knows of a token that its settings name, so that a leak of
// them is not a leak of tokens.
type TokenHash [sha256.Size]byte

// HashToken returns what Config.Tokens has for a token. Tokens are random, so a plain
// hash is enough.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

type tenantKey struct{}

// tenantClient is the client of the tenant whose token the request had.
func (a *API) tenantClient(ctx context.Context) *producer.Client {
	tenant, _ := ctx.Value(tenantKey{}).(string) // "" owns no job
	return a.client.For(tenant)
}

// authenticate is middleware of every operation that asks for a token.
func (a *API) authenticate(ctx huma.Context, next func(huma.Context)) {
	security := ctx.Operation().Security
	if len(security) == 0 {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	if _, admin := security[0][adminScheme]; admin {
		if err := a.admin(r); err != nil {
			a.refuse(w, r, err)
			return
		}
		next(ctx)
		return
	}
	tenant, err := a.tenant(w, r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	next(huma.WithValue(ctx, tenantKey{}, tenant))
}

// errToken is a request without a token that somebody has.
var errToken = errors.New("no token, or not one of this Glovebox")

// tenant returns whose token the request has, and counts the request against that
// tenant's quota, about which w is told.
func (a *API) tenant(w http.ResponseWriter, r *http.Request) (string, error) {
	token, ok := bearer(r)
	if !ok {
		return "", errToken
	}
	tenant, err := a.tokenTenant(r.Context(), token)
	if err != nil {
		return "", err
	}
	admission, err := a.client.For(tenant).Admit(r.Context())
	announce(w.Header(), admission)
	return tenant, err
}

// tokenTenant compares with every token that the settings name, so that the time it
// takes says nothing, and then asks the records.
func (a *API) tokenTenant(ctx context.Context, token string) (tenant string, err error) {
	got := HashToken(token)
	for want, of := range a.tokens {
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			tenant = of
		}
	}
	if tenant != "" {
		return tenant, nil
	}
	if a.isAdmin(got) {
		return "", newProblem(http.StatusForbidden, producer.CodeForbidden, "the admin token is no tenant's: this needs one that a tenant has")
	}
	tenant, err = a.client.TokenTenant(ctx, token)
	if errors.Is(err, producer.ErrNoTenant) {
		return "", errToken
	}
	return tenant, err
}

// admin fails unless the request has the admin token. Only a tenant is told that its
// own is not enough.
func (a *API) admin(r *http.Request) error {
	token, ok := bearer(r)
	if ok && a.isAdmin(HashToken(token)) {
		return nil
	}
	if a.adminToken == nil {
		return newProblem(http.StatusForbidden, producer.CodeForbidden, "this Glovebox has no admin API: its operator has set no GLOVEBOX_ADMIN_TOKEN")
	}
	if !ok {
		return errToken
	}
	if _, err := a.tokenTenant(r.Context(), token); err != nil {
		return err
	}
	return newProblem(http.StatusForbidden, producer.CodeForbidden, "this needs the admin token")
}

func (a *API) isAdmin(got TokenHash) bool {
	return a.adminToken != nil && subtle.ConstantTimeCompare(got[:], a.adminToken[:]) == 1
}

// bearer is the token of the request, of which there may be one.
func bearer(r *http.Request) (string, bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, found && strings.EqualFold(scheme, "Bearer") && len(r.Header.Values("Authorization")) == 1
}

// announce tells of the tenant's quota of requests, if it has one, as
// draft-ietf-httpapi-ratelimit-headers does.
func announce(h http.Header, a producer.Admission) {
	if a.Quota == 0 {
		return
	}
	until := a.Reset
	if a.Wait > 0 {
		until = a.Wait
		h.Set("Retry-After", fmt.Sprint(seconds(a.Wait)))
	}
	h.Set("RateLimit-Policy", fmt.Sprintf(`"requests";q=%d;w=%d`, a.Quota, seconds(a.Window)))
	h.Set("RateLimit", fmt.Sprintf(`"requests";r=%d;t=%d`, a.Remaining, seconds(until)))
}

// seconds rounds up: who comes back after that many is not too early.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// refuse answers a request that was not admitted.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errToken) {
		writeUnauthorized(w, r)
		return
	}
	a.writeError(w, r, err)
}

func writeUnauthorized(w http.ResponseWriter, r *http.Request) {
	detail := "this needs a token: Authorization: Bearer <token>"
	w.Header().Set("WWW-Authenticate", `Bearer realm="glovebox"`)
	if r.Header.Get("Authorization") != "" {
		detail = "the token is not one of this Glovebox"
		w.Header().Set("WWW-Authenticate", `Bearer realm="glovebox", error="invalid_token"`)
	}
	writeProblem(w, producer.NewProblem(http.StatusUnauthorized, producer.CodeUnauthorized, detail))
}
