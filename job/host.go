package job

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"
)

// HostOf is the host that a URL leads to, or "", in one spelling of all that DNS takes for the same: in lower case, without a port, brackets and the
// dot at its end. Rules and [Terms.AllowsCallback] go by it, so that none is got round by another spelling.
func HostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return plainHost(u.Hostname())
}

func plainHost(host string) string {
	host = strings.TrimRight(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
}

// isASCII reports whether a host is in the letters of DNS. Of others net/http makes some of these as it connects: fullwidth letters lead where plain ones do.
func isASCII(host string) bool {
	return !strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf })
}
