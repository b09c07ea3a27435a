package config

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// insecureVariable names what the operator accepts although others on the network could
// read or change it.
const insecureVariable = "GLOVEBOX_INSECURE"

// What it may name.
const (
	insecureRedis = "redis" // no password
	insecureS3    = "s3"    // http to another machine
	insecureURL   = "url"   // http from other machines
)

// Insecure is what is unsafe about the settings of Redis and the bucket.
func (r *Reader) Insecure(redisURL string, s3 artifacts.Config) []string {
	return r.insecure(redisURL, s3, "")
}

// insecure adds a fault for each way over the network that nothing protects, and that
// GLOVEBOX_INSECURE doesn't name. It returns warnings about what is named, and about what
// only the users of this machine can use.
func (r *Reader) insecure(redisURL string, s3 artifacts.Config, publicURL string) (warnings []string) {
	accepted := strings.FieldsFunc(r.String(insecureVariable, ""), func(c rune) bool { return c == ',' || c == ' ' })
	for _, word := range accepted {
		if word != insecureRedis && word != insecureS3 && word != insecureURL {
			r.Fault(insecureVariable, "has %q: want %s, %s or %s, with commas", word, insecureRedis, insecureS3, insecureURL)
		}
	}
	refuse := func(word, name, what, mend string) {
		if slices.Contains(accepted, word) {
			warnings = append(warnings, name+" "+what)
			return
		}
		r.Fault(name, "%s: %s, or accept it with %s=%s", what, mend, insecureVariable, word)
	}
	if address, err := redisconn.Parse(redisURL); err == nil {
		password := address.Options.Password
		switch remote := slices.ContainsFunc(address.Hosts, func(host string) bool { return !local(host) }); {
		case password == "" && remote:
			refuse(insecureRedis, "GLOVEBOX_REDIS_URL", "has no password, so whoever reaches Redis reads and writes every job",
				`"glovebox redis-acl" makes users with passwords`)
		case password == "":
			warnings = append(warnings, "GLOVEBOX_REDIS_URL has no password: every user of this machine reads and writes every job")
		case remote && address.Options.TLSConfig == nil:
			warnings = append(warnings, "GLOVEBOX_REDIS_URL leads to another machine without TLS: whoever is on the network reads passwords and jobs")
		case remote && address.Sentinels != nil && !address.Sentinels.HavePassword():
			warnings = append(warnings, "GLOVEBOX_REDIS_URL has no sentinel_password: whoever reaches the Sentinels can have any server made the primary")
		case remote && address.Sentinels != nil && !address.Sentinels.HaveUser():
			warnings = append(warnings, "GLOVEBOX_REDIS_URL has no sentinel_username: who takes this process over can have any server made the primary, as the Sentinels' user default may do everything")
		}
	}
	for name, endpoint := range map[string]string{"GLOVEBOX_S3_ENDPOINT": s3.Endpoint, "GLOVEBOX_S3_PUBLIC_ENDPOINT": s3.PublicEndpoint} {
		if plain(endpoint) {
			refuse(insecureS3, name, "is http to another machine, so whoever is on the network reads files and results", "want https")
		}
	}
	if plain(publicURL) {
		refuse(insecureURL, "GLOVEBOX_PUBLIC_URL", "is http for other machines, so whoever is on the network reads tokens and results", "want https, from a proxy in front of the api")
	}
	slices.Sort(warnings)
	return warnings
}

// plain reports whether the URL is of http and leads to another machine.
func plain(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !local(u.Hostname())
}

// local reports whether the host is this machine by its name or address alone.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && ip.IsLoopback()
}
