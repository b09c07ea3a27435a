package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrURL means that a URL can't be that of a webhook, wherever it may lead.
var ErrURL = errors.New("webhook URL is not usable")

// CheckURL refuses, with [ErrURL], what is no plain http or https URL. It does not
// resolve: whether an address is allowed is decided at each attempt, by a [Guard].
//
// Hosts like 0x7f.1, 017700000001 and 2130706433 are refused because programs disagree
// on whether they are names or 127.0.0.1.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// CheckURL is [CheckURL], and refuses also, with [ErrBlocked], a host that is an address which
// [Guard.Check] refuses: no attempt could reach it. A name may lead elsewhere at each attempt,
// so it passes.
func (g *Guard) CheckURL(raw string) error {
	u, err := parseURL(raw)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil //nolint:nilerr // it is a name
	}
	port, ok := parsePort(u.Port())
	switch {
	case ok:
	case u.Scheme == "http":
		port = 80
	default:
		port = 443
	}
	if err := g.Check(netip.AddrPortFrom(ip, port)); err != nil {
		return &Error{g.refusal(u.Host), err}
	}
	return nil
}

// refusal says to a tenant that the address in a URL is not allowed.
func (g *Guard) refusal(host string) string {
	return fmt.Sprintf("the address %s is not allowed: webhooks go to public addresses, ports %s", host, g.portList())
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: it can't be parsed", ErrURL) // the parser's error would quote a password
	}
	host := u.Hostname()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		err = errors.New("it begins with neither http:// nor https://")
	case host == "":
		err = errors.New("it has no host")
	case u.User != nil:
		err = errors.New("it has a user name or password")
	case strings.Contains(host, "%"):
		err = errors.New("its host has a zone or an escape")
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		err = errors.New("its port is empty")
	case strings.Contains(host, ":") && !isAddress(host):
		err = errors.New("its host is no address: write IPv6 in brackets")
	case numeric(host):
		err = errors.New("its host is a number: write IPv4 as four decimal numbers")
	}
	if _, ok := parsePort(u.Port()); err == nil && u.Port() != "" && !ok {
		err = errors.New("its port is not 1 to 65535")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	u.Fragment = ""
	return u, nil
}

// numeric reports whether a host that is no plain address ends in a number, as no
// name of the DNS does. Net/http makes digits of the characters that Unicode has for them, and
// drops some that can't be seen.
func numeric(host string) bool {
	if isAddress(host) {
		return false
	}
	labels := strings.FieldsFunc(host, func(c rune) bool { return strings.ContainsRune(dots, c) })
	if len(labels) == 0 {
		return false
	}
	last := strings.ToLower(labels[len(labels)-1])
	if digits, hex := strings.CutPrefix(last, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return !strings.ContainsFunc(last, func(c rune) bool {
		return c < utf8.RuneSelf && (c < '0' || c > '9') || unicode.IsLetter(c)
	})
}

// dots are what may stand between the labels of a name (UTS 46, section 2.3).
const dots = ".\u3002\uff0e\uff61"
