package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/glovebox-run/glovebox/producer"
)

// TokenHash is what the API knows of a token, so that a leak of its settings is not a
// leak of tokens.
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
	if len(ctx.Operation().Security) == 0 {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	tenant, ok := a.bearer(r)
	if !ok {
		writeUnauthorized(w, r)
		return
	}
	next(huma.WithValue(ctx, tenantKey{}, tenant))
}

// bearer returns the tenant of the request's token. It compares with every token, so
// that the time it takes says nothing.
func (a *API) bearer(r *http.Request) (tenant string, ok bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) > 1 {
		return "", false
	}
	got := HashToken(token)
	for want, of := range a.tokens {
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			tenant, ok = of, true
		}
	}
	return tenant, ok
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
