package config

import (
	"net"
	"slices"
	"strings"
)

// Facades are the names of all façades.
func Facades() []string { return []string{"e2b", "jobe", "judge0", "piston"} }

// facades reads which façades are on.
func (r *Reader) facades(name string) []string {
	var on []string
	for _, word := range words(r.getenv(name)) {
		switch {
		case !slices.Contains(Facades(), word):
			r.Fault(name, "has %.60q: want some of %s, with commas", word, strings.Join(Facades(), ", "))
		case !slices.Contains(on, word):
			on = append(on, word)
		}
	}
	return on
}

// facadeAddresses reads the addresses of those that have one of their own.
func (r *Reader) facadeAddresses(name string, on []string) map[string]string {
	addresses := map[string]string{}
	for _, word := range words(r.getenv(name)) {
		facade, address, ok := strings.Cut(word, "=")
		switch {
		case !ok || address == "":
			r.Fault(name, "has %.60q: want façade=host:port, with commas between", word)
		case !slices.Contains(on, facade):
			r.Fault(name, "has an address for %.60q, which GLOVEBOX_FACADES doesn't turn on", facade)
		case addresses[facade] != "":
			r.Fault(name, "has two addresses for %.60q: want one each", facade)
		default:
			addresses[facade] = address
		}
	}
	return addresses
}

// anonymousWarning says that façades serve requests without a token, if they do.
func anonymousWarning(on []string, tenant string) []string {
	if len(on) == 0 || tenant == "" {
		return nil
	}
	return []string{"GLOVEBOX_FACADE_TENANT is set: whoever reaches " + strings.Join(on, ", ") + " runs code as the tenant " + tenant +
		", with no token, and so does any page that is open in a browser that reaches it"}
}

// AnonymousAbroad returns those of the addresses, of the api and of façades of their own, at which other machines reach façades that serve
// requests without a token.
func (r *Reader) AnonymousAbroad(api string) []string {
	if r.String("GLOVEBOX_FACADE_TENANT", "") == "" {
		return nil
	}
	addresses := []string{api}
	for _, word := range words(r.getenv("GLOVEBOX_FACADE_ADDRESSES")) {
		_, address, _ := strings.Cut(word, "=")
		addresses = append(addresses, address)
	}
	return slices.DeleteFunc(addresses, func(address string) bool {
		host, _, _ := net.SplitHostPort(address)
		return host != "" && local(host) // without a host it is every address of this machine
	})
}

// words splits a list at commas and blanks.
func words(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || c == ' ' })
}

// AnonymousFacades is what the api warns of, for doctor: that façades serve requests without a token.
func (r *Reader) AnonymousFacades() []string {
	return anonymousWarning(r.facades("GLOVEBOX_FACADES"), r.String("GLOVEBOX_FACADE_TENANT", ""))
}
