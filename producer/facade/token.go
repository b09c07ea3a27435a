package facade

import (
	"net/http"
	"slices"
	"strings"
)

// tokenHeaders are where clients of the servers whose place façades take put their token, besides
// Authorization: Judge0's own, the one of those who may do more first, and as its hosted version is reached; Jobe's,
// and E2B's.
var tokenHeaders = []string{"X-Auth-User", "X-Auth-Token", "X-RapidAPI-Key", "X-API-KEY", "X-Access-Token", "E2B-Traffic-Access-Token"}

// Token returns the token of a request, from wherever clients put it: one of the headers that such servers ask
// for; Authorization with the scheme Bearer, with none, or with Basic, as whose password it is sent (or as the user
// name, where there is no password); or the query parameter X-Auth-Token. The headers come first, since Authorization may
// be for a proxy on the way. A user's name alone, which is too short for a token, is none. ok is false where there is none, or, without such a header, more than one Authorization.
func Token(r *http.Request) (token string, ok bool) {
	for _, name := range tokenHeaders {
		if token := r.Header.Get(name); token != "" {
			return token, true
		}
	}
	switch values := r.Header.Values("Authorization"); {
	case len(values) > 1:
		return "", false
	case len(values) == 1 && values[0] != "" && !onlyUser(r):
		return authorization(r, values[0])
	}
	token = r.URL.Query().Get("X-Auth-Token")
	return token, token != ""
}

// minToken is how long a token is at least, in bytes.
const minToken = 20

// onlyUser reports whether Authorization names a user alone: E2B's clients say so as whom a program is to run, beside their token or without one.
func onlyUser(r *http.Request) bool {
	user, password, basic := r.BasicAuth()
	return basic && user != "" && password == "" && len(user) < minToken && len(r.Header.Values("Authorization")) == 1
}

func authorization(r *http.Request, value string) (token string, ok bool) {
	if user, password, basic := r.BasicAuth(); basic {
		if password == "" {
			password = user
		}
		return password, password != ""
	}
	scheme, token, found := strings.Cut(value, " ")
	switch {
	case !found:
		return scheme, true
	case strings.EqualFold(scheme, "Bearer"):
		return token, token != ""
	}
	return "", false
}

// HasToken reports whether a request says who asks, be it in a form that Token can't read.
func HasToken(r *http.Request) bool {
	_, ok := Token(r)
	for _, name := range append([]string{"Authorization"}, tokenHeaders...) {
		if name == "Authorization" && onlyUser(r) {
			continue
		}
		ok = ok || slices.ContainsFunc(r.Header.Values(name), func(value string) bool { return value != "" })
	}
	return ok
}
