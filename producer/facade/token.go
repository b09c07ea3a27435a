package facade

import (
	"net/http"
	"strings"
)

// tokenHeaders are where clients of the servers whose place façades take put their token, besides
// Authorization: Judge0's own and as its hosted version is reached, Jobe's, and E2B's.
var tokenHeaders = []string{"X-Auth-Token", "X-RapidAPI-Key", "X-API-KEY", "X-Access-Token", "E2B-Traffic-Access-Token", "X-Auth-User"}

// Token returns the token of a request, from wherever clients put it: Authorization with the scheme
// Bearer, with none, or with Basic, as whose password it is sent (or as the user name, where there is no password);
// one of the headers that such servers ask for; or the query parameter X-Auth-Token. ok is false where
// there is none, or more than one Authorization.
func Token(r *http.Request) (token string, ok bool) {
	switch values := r.Header.Values("Authorization"); {
	case len(values) > 1:
		return "", false
	case len(values) == 1 && values[0] != "":
		return authorization(r, values[0])
	}
	for _, name := range tokenHeaders {
		if token := r.Header.Get(name); token != "" {
			return token, true
		}
	}
	token = r.URL.Query().Get("X-Auth-Token")
	return token, token != ""
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
	return ok || r.Header.Get("Authorization") != ""
}
