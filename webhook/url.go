package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
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
// name of the DNS does.
func numeric(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := strings.ToLower(labels[len(labels)-1])
	if digits, hex := strings.CutPrefix(last, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
