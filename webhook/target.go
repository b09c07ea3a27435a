package webhook

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Target is a range of addresses and ports that an operator allows, though the guard
// would refuse them.
type Target struct {
	Prefix     netip.Prefix
	From, Upto uint16 // ports, both included
}

// ParseTarget reads ADDRESS[/BITS]:PORTS, where PORTS is a port, a range or "*":
// "10.1.2.3:8080", "127.0.0.0/8:*", "192.168.0.0/16:8000-8999", "[fd00::/8]:443".
// Host names are refused: an address is what gets checked, at the moment of dialling.
func ParseTarget(text string) (Target, error) {
	fail := func(why string) (Target, error) {
		return Target{}, fmt.Errorf("read allowed target %.80q: %s; write ADDRESS[/BITS]:PORTS as in 10.0.0.0/8:443, [fd00::/8]:8000-8999 or 127.0.0.1:*", text, why)
	}
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return fail("there is no port")
	}
	address, ports := text[:colon], text[colon+1:]
	bracketed := strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]")
	if bracketed {
		address = address[1 : len(address)-1]
	}
	prefix, err := parsePrefix(address)
	switch {
	case err != nil:
		return fail("the address is neither IPv4 nor [IPv6]")
	case prefix.Addr().Is6() != bracketed:
		return fail("IPv6 stands in brackets, IPv4 does not")
	case prefix.Addr().Is4In6():
		return fail("an IPv4 address is written as such")
	case prefix != prefix.Masked():
		return fail("the address has bits beyond its prefix; did you mean " + prefix.Masked().String() + "?")
	}
	from, upto, ok := parsePorts(ports)
	if !ok {
		return fail("the ports are not a number, a range or *")
	}
	return Target{prefix, from, upto}, nil
}

// String returns what ParseTarget reads.
func (t Target) String() string {
	address := t.Prefix.String()
	if t.Prefix.IsSingleIP() {
		address = t.Prefix.Addr().String()
	}
	if t.Prefix.Addr().Is6() {
		address = "[" + address + "]"
	}
	switch {
	case t.From == 1 && t.Upto == 65535:
		return address + ":*"
	case t.From == t.Upto:
		return fmt.Sprintf("%s:%d", address, t.From)
	}
	return fmt.Sprintf("%s:%d-%d", address, t.From, t.Upto)
}

func (t Target) contains(a netip.Addr, port uint16) bool {
	return t.Prefix.Contains(a) && t.From <= port && port <= t.Upto
}

func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		return netip.ParsePrefix(s)
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("no address: %q", s)
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

func parsePorts(s string) (from, upto uint16, ok bool) {
	if s == "*" {
		return 1, 65535, true
	}
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	from, okFrom := parsePort(first)
	upto, okUpto := parsePort(last)
	return from, upto, okFrom && okUpto && from <= upto
}

func parsePort(s string) (uint16, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}
