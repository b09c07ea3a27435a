package config

import (
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/internal/policy"
	"github.com/glovebox-run/glovebox/job"
)

const (
	// minBits4 and minBits6 are the least that a trusted network's prefix has: a shorter one
	// is a slip that trusts much of the world, 0.0.0.0/0 all of it.
	minBits4 = 8
	minBits6 = 32
	// mappedBits is where IPv4 begins in an IPv6 address that holds one.
	mappedBits = 96
)

// networks reads addresses and networks, with commas or spaces between.
func (r *Reader) networks(name string) []netip.Prefix {
	var list []netip.Prefix
	for _, word := range strings.FieldsFunc(r.getenv(name), func(c rune) bool { return c == ',' || c == ' ' }) {
		network, err := netip.ParsePrefix(word)
		if address, addrErr := netip.ParseAddr(word); err != nil && addrErr == nil {
			network, err = address.Prefix(address.BitLen())
		}
		if err != nil {
			r.Fault(name, "has %.60q: want addresses or networks such as 10.1.2.3 or 10.1.2.0/24", word)
			continue
		}
		if a := network.Addr(); a.Is4In6() && network.Bits() >= mappedBits { // as addresses are compared
			network = netip.PrefixFrom(a.Unmap(), network.Bits()-mappedBits)
		}
		least := minBits4
		if network.Addr().Is6() {
			least = minBits6
		}
		if network.Bits() < least || network.Addr().Is4In6() {
			r.Fault(name, "has %.60q, which is too many addresses to trust: want the proxies' own network, of /%d or longer in IPv4 and /%d in IPv6", word, minBits4, minBits6)
			continue
		}
		list = append(list, network.Masked())
	}
	return list
}

// DefaultQuotas bound a new tenant unless its terms or the operator say something else: enough for
// two of the largest batches, and for a tenant that nobody configured.
const DefaultQuotas = "requests_per_minute=6000,jobs_queued=20000,bytes_queued=268435456,bytes_stored=10737418240"

// quotas reads the quotas of new tenants.
func (r *Reader) quotas(name, otherwise string) job.Quotas {
	q, err := job.ParseQuotas(r.String(name, otherwise))
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
	}
	return q
}

// isolation reads one, gVisor where nothing is said.
func (r *Reader) isolation(name string) job.Isolation {
	i, err := job.ParseIsolation(r.getenv(name))
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
		return job.GVisor
	}
	return i
}

// isolations reads those that may be less than gVisor, with commas or spaces between.
func (r *Reader) isolations(name string) []job.Isolation {
	var list []job.Isolation
	for _, word := range strings.FieldsFunc(r.getenv(name), func(c rune) bool { return c == ',' || c == ' ' }) {
		i, err := job.ParseIsolation(word)
		if err != nil {
			r.Fault(name, "can't be read: %v", err)
			continue
		}
		if i != job.GVisor && !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	return list
}

// prices reads what a job costs, nil where nothing is said.
func (r *Reader) prices(name string) *job.Prices {
	text := r.String(name, "")
	if text == "" {
		return nil
	}
	p, err := job.ParsePrices(text)
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
	}
	return &p
}

// policy reads the rules in the file that a setting names. Where they can't be read nothing starts: it would let all through.
func (r *Reader) policy(name string) policy.Policy {
	path := r.String(name, "")
	if path == "" {
		return policy.Policy{}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		r.Fault(name, "can't be read: %v", err)
		return policy.Policy{}
	}
	p, err := policy.ParseFile(b)
	if err != nil {
		r.Fault(name, "%s: %v", path, err)
	}
	return p
}

// images reads the images that jobs may bring: words, or lines of a file with comments.
func (r *Reader) images(name string) []string {
	var list []string
	for line := range strings.Lines(r.Secret(name)) { // it is none, but may be in a file, too
		line, _, _ = strings.Cut(line, "#")
		for _, image := range strings.Fields(line) {
			if problem := job.CheckImage(image); problem != "" {
				r.Fault(name, "has %.600q, which %s: want %s", image, problem, job.ImageForm)
			}
			list = append(list, image)
		}
	}
	return list
}
