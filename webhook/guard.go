package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// ErrBlocked means that the guard refused an address.
var ErrBlocked = errors.New("address is not allowed for webhooks")

// GuardConfig says what a [Guard] lets through.
type GuardConfig struct {
	// Ports of public addresses. Defaults to 80 and 443.
	Ports []uint16
	// Allow lists addresses that are let through though they are not public, each with
	// its own ports. Defaults to none.
	Allow []Target
}

// Guard decides which addresses webhooks may be sent to: public ones, on a few ports,
// and what an operator allows. It is safe for concurrent use.
//
// [Guard.Control] goes into a net.Dialer, where it sees the address of every
// connection after resolving and before the first packet.
type Guard struct {
	ports  []uint16
	allow  []Target
	public *ssrf.Guardian
}

// azureWire is Azure's metadata and configuration service: a public address by its
// number, and internal to every virtual machine.
var azureWire = netip.MustParsePrefix("168.63.129.16/32")

// NewGuard returns a guard.
func NewGuard(c GuardConfig) *Guard {
	ports := slices.Clone(c.Ports)
	if len(ports) == 0 {
		ports = []uint16{80, 443}
	}
	return &Guard{
		ports: ports,
		allow: slices.Clone(c.Allow),
		// The library follows IANA's registries of special addresses. It checks ports
		// before its own allow lists, so what an operator allows is not told to it.
		public: ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azureWire)),
	}
}

// Control refuses a connection with [ErrBlocked]; it has the form of net.Dialer.Control.
func (g *Guard) Control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%w: %s is no TCP", ErrBlocked, network)
	}
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is no address", ErrBlocked, address)
	}
	return g.Check(a)
}

// Check refuses an address with [ErrBlocked]. Its error names the address, which is
// for an operator's eyes if it came from a host name.
func (g *Guard) Check(a netip.AddrPort) error {
	ip := a.Addr().Unmap() // ::ffff:127.0.0.1 is 127.0.0.1
	if ip.Zone() != "" {
		return fmt.Errorf("%w: %s has a zone", ErrBlocked, a)
	}
	if g.allowed(ip, a.Port()) {
		return nil
	}
	if !slices.Contains(g.ports, a.Port()) {
		return fmt.Errorf("%w: %s: port is none of %s", ErrBlocked, a, g.portList())
	}
	if err := g.public.SafeAddr(ip); err != nil {
		return fmt.Errorf("%w: %w", ErrBlocked, err)
	}
	return nil
}

func (g *Guard) portList() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(g.ports), "[]"), " ", ", ")
}

// allowed reports whether the operator allows ip. An address that carries another
// (NAT64, 6to4, Teredo, IPv4-compatible) leads there in the end, so that one must be
// public or allowed as well: who allows 64:ff9b::/96 to reach the internet does not
// mean 64:ff9b::127.0.0.1.
func (g *Guard) allowed(ip netip.Addr, port uint16) bool {
	match := func(ip netip.Addr) bool {
		return slices.ContainsFunc(g.allow, func(t Target) bool { return t.contains(ip, port) })
	}
	if !match(ip) {
		return false
	}
	for _, inner := range embedded(ip) {
		if !match(inner) && g.public.SafeAddr(inner) != nil {
			return false
		}
	}
	return true
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	teredo     = netip.MustParsePrefix("2001::/32")
	compatible = netip.MustParsePrefix("::/96")
)

// embedded returns the IPv4 addresses that an IPv6 address carries.
func embedded(ip netip.Addr) []netip.Addr {
	if !ip.Is6() {
		return nil
	}
	b := ip.As16()
	v4 := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(b[at : at+4])) }
	switch {
	case ip == netip.IPv6Loopback() || ip == netip.IPv6Unspecified():
		return nil // within ::/96, and what they say
	case nat64.Contains(ip), compatible.Contains(ip):
		return []netip.Addr{v4(12)}
	case nat64Local.Contains(ip): // at the end, or as RFC 6052 splits it after 48 bits
		if split := netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}); !split.IsUnspecified() {
			return []netip.Addr{split}
		}
		return []netip.Addr{v4(12)}
	case sixToFour.Contains(ip):
		return []netip.Addr{v4(2)}
	case teredo.Contains(ip): // its server, and its client with every bit turned
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		return []netip.Addr{v4(4), client}
	}
	return nil
}
