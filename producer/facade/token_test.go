package facade

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

func TestToken(t *testing.T) {
	t.Parallel()
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for name, tt := range map[string]struct {
		target  string
		headers []string
		want    string // "" for none
	}{
		"none":                  {"/", nil, ""},
		"bearer":                {"/", []string{"Authorization", "Bearer T"}, "T"},
		"bearer, small":         {"/", []string{"Authorization", "bearer T"}, "T"},
		"bearer of nothing":     {"/", []string{"Authorization", "Bearer "}, ""},
		"no scheme":             {"/", []string{"Authorization", "T"}, "T"},
		"another scheme":        {"/", []string{"Authorization", "Digest T"}, ""},
		"basic":                 {"/", []string{"Authorization", basic("any", "T")}, "T"},
		"basic, user only":      {"/", []string{"Authorization", basic("gb_acme_0123456789abcdef", "")}, "gb_acme_0123456789abcdef"},
		"a user's name":         {"/", []string{"Authorization", basic("root", "")}, ""},
		"a name and a query":    {"/?X-Auth-Token=T", []string{"Authorization", basic("root", "")}, "T"},
		"a name, twice":         {"/", []string{"Authorization", basic("root", ""), "Authorization", basic("root", "")}, ""},
		"basic of nothing":      {"/", []string{"Authorization", basic("", "")}, ""},
		"basic, no base64":      {"/", []string{"Authorization", "Basic *"}, ""},
		"twice":                 {"/", []string{"Authorization", "Bearer T", "Authorization", "Bearer T"}, ""},
		"Judge0":                {"/", []string{"X-Auth-Token", "T"}, "T"},
		"Judge0, authorization": {"/", []string{"X-Auth-User", "T"}, "T"},
		"RapidAPI":              {"/", []string{"X-RapidAPI-Key", "T", "X-RapidAPI-Host", "h"}, "T"},
		"Jobe":                  {"/", []string{"X-API-KEY", "T"}, "T"},
		"E2B":                   {"/", []string{"E2B-Traffic-Access-Token", "T"}, "T"},
		"query":                 {"/?X-Auth-Token=T", nil, "T"},
		"a proxy's":             {"/?X-Auth-Token=Q", []string{"X-Auth-Token", "T", "Authorization", basic("proxy", "P")}, "T"},
		"two of Judge0's":       {"/", []string{"X-Auth-Token", "H", "X-Auth-User", "T"}, "T"},
		"Authorization first":   {"/?X-Auth-Token=Q", []string{"Authorization", "Bearer T"}, "T"},
		"a wrong Authorization": {"/?X-Auth-Token=Q", []string{"Authorization", "Digest T"}, ""},
		"an empty one first":    {"/", []string{"Authorization", "", "Authorization", "Bearer T"}, ""},
		"an empty header first": {"/", []string{"X-API-KEY", "", "X-API-KEY", "T"}, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.target, http.NoBody)
		for i := 0; i < len(tt.headers); i += 2 {
			r.Header.Add(tt.headers[i], tt.headers[i+1])
		}
		if got, ok := Token(r); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %t, want %q", name, got, ok, tt.want)
		}
		said := func(value string) bool { return value != "" }
		if want := tt.want != "" || name != "a user's name" && (slices.ContainsFunc(r.Header.Values("Authorization"), said) || slices.ContainsFunc(r.Header.Values("X-API-KEY"), said)); HasToken(r) != want {
			t.Errorf("%s: HasToken is %t", name, !want)
		}
	}
}

// FuzzToken: whatever headers and query say, a request has a token that isn't empty, or none; one that has a token says
// who asks, so that nobody is let in as a guest by mistake.
func FuzzToken(f *testing.F) {
	f.Add("Authorization", "Basic eDp5", "X-Auth-Token=T")
	f.Add("X-API-KEY", "", "a=b;c")
	f.Fuzz(func(t *testing.T, header, value, query string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.URL.RawQuery = query
		r.Header.Add(header, value)
		token, ok := Token(r)
		if ok != (token != "") || ok && !HasToken(r) || r.Header.Get("Authorization") != "" && !HasToken(r) && !onlyUser(r) {
			t.Errorf("%q: %q, ?%q: got %q, %t", header, value, query, token, ok)
		}
	})
}
