package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Address is where Redis is, and as whom.
type Address struct {
	// Options are a client's, as the URL says. Their Addr is the server's, or names the Sentinels.
	Options *redis.Options
	// Hosts are the machines in the URL, without ports: none for a socket.
	Hosts []string
	// Sentinels find the primary; nil where the URL names a server.
	Sentinels *Sentinels
}

// Forms are those that an address of Redis may have.
const Forms = "redis://user:password@host:port/db, or redis+sentinel://user:password@host1:port,host2:port,host3:port/db?master=name"

var errNoURL = errors.New("is no URL of a Redis: want " + Forms)

// sentinelPort is where a Sentinel listens unless the URL says otherwise.
const sentinelPort = "26379"

// Parse reads the URL of a server, redis://, rediss:// for TLS or unix://, or that of Sentinels:
//
//	redis+sentinel://user:password@host1:26379,host2:26379,host3:26379/db?master=name
//
// and rediss+sentinel:// for TLS to all of them. User and password are Redis'; the Sentinels' own are
// the parameters sentinel_username and sentinel_password. Other parameters, as read_timeout, are
// those of redis.ParseURL. An error says nothing of what the URL holds: there is a password in it.
func Parse(address string) (Address, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return Address{}, errNoURL
	}
	if strings.HasSuffix(scheme, "+cluster") {
		return Address{}, errCluster
	}
	plain, ofSentinels := strings.CutSuffix(scheme, "+sentinel")
	if !ofSentinels {
		options, err := redis.ParseURL(address)
		if err != nil {
			return Address{}, errNoURL
		}
		bound(options)
		a := Address{Options: options}
		if options.Network == "tcp" {
			host, _, _ := net.SplitHostPort(options.Addr)
			a.Hosts = []string{host}
		}
		return a, nil
	}
	return parseSentinels(plain, rest)
}

// parseSentinels reads what follows redis+sentinel://. Several hosts are no URL, so it is read as that of the first.
func parseSentinels(scheme, rest string) (Address, error) {
	if scheme != "redis" && scheme != "rediss" {
		return Address{}, errNoURL
	}
	end := len(rest)
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		end = i
	}
	user, list := "", rest[:end]
	if i := strings.LastIndex(list, "@"); i >= 0 {
		user, list = list[:i+1], list[i+1:]
	}
	a := Address{}
	var addrs []string
	for i, addr := range strings.Split(list, ",") {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			host, port = strings.Trim(addr, "[]"), sentinelPort
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" || strings.ContainsAny(host, " @[]") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return Address{}, fmt.Errorf("has no host:port as address %d of its Sentinels: want those, with commas between", i+1)
		}
		if addr = net.JoinHostPort(host, port); slices.Contains(addrs, addr) {
			return Address{}, fmt.Errorf("has a Sentinel twice: address %d", i+1)
		}
		addrs, a.Hosts = append(addrs, addr), append(a.Hosts, host)
	}
	u, err := url.Parse(scheme + "://" + user + addrs[0] + rest[end:])
	if err != nil || u.Fragment != "" {
		return Address{}, errNoURL
	}
	q := u.Query()
	s := &Sentinels{Addrs: addrs, Primary: q.Get("master"), username: q.Get("sentinel_username"), password: q.Get("sentinel_password")}
	if s.Primary == "" {
		return Address{}, errors.New("has no master=NAME: want the name under which the Sentinels know the primary")
	}
	if s.username != "" && s.password == "" {
		return Address{}, errors.New("has a sentinel_username without a sentinel_password")
	}
	for _, ours := range []string{"master", "sentinel_username", "sentinel_password"} {
		q.Del(ours)
	}
	u.RawQuery = q.Encode()
	if a.Options, err = redis.ParseURL(u.String()); err != nil {
		return Address{}, errNoURL
	}
	bound(a.Options)
	if a.Options.TLSConfig != nil {
		a.Options.TLSConfig.ServerName = "" // each connection's own
	}
	a.Options.Addr = fmt.Sprintf("the primary %q of the Sentinels %s", s.Primary, strings.Join(addrs, ", "))
	s.options, a.Sentinels = a.Options, s
	return a, nil
}

// Client returns a client, which connects when it is used first.
func (a Address) Client() *redis.Client {
	o := *a.Options
	dial := redis.NewDialer(&o)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return notSilent(c, nil), nil
	}
	if a.Sentinels != nil {
		o.Dialer = (&follower{Sentinels: a.Sentinels, dial: dial}).Dial
	}
	return redis.NewClient(&o)
}

// Server returns the options of a client of the one server that takes writes now: they don't follow it to another.
func (a Address) Server(ctx context.Context) (*redis.Options, error) {
	o := *a.Options
	if a.Sentinels == nil {
		return &o, nil
	}
	primary, err := a.Sentinels.FindPrimary(ctx)
	o.Addr = primary
	return &o, err
}

// bound makes each call end in time when Redis hangs rather than refuses: by its
// context's deadline, and by time-outs of its own. And a new connection asks for nothing
// that our users in Redis may not do.
func bound(o *redis.Options) {
	// A script that was sent twice because an answer got lost answers "stale" or
	// "ended" to its own caller, so what is retried is decided by callers.
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.DialTimeout == 0 {
		o.DialTimeout = CallTimeout
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = CallTimeout
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = CallTimeout
	}
	if o.DialerRetries == 0 {
		o.DialerRetries = 1
	}
}
