package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/await"
)

// askTimeout bounds what a Sentinel is asked. It is shorter than a dial may take.
const askTimeout = 2 * time.Second

// Sentinels know which server of a group is the primary.
type Sentinels struct {
	// Addrs are all of them, host:port each.
	Addrs []string
	// Primary is the name of the group's primary.
	Primary string

	username, password string
	options            *redis.Options // of Redis itself
}

// Clients returns one for each of Addrs, which the caller closes.
func (s *Sentinels) Clients() []*redis.SentinelClient {
	clients := make([]*redis.SentinelClient, len(s.Addrs))
	for i, addr := range s.Addrs {
		o := &redis.Options{
			Addr: addr, Username: s.username, Password: s.password, TLSConfig: s.options.TLSConfig,
			DialTimeout: askTimeout, ReadTimeout: askTimeout, WriteTimeout: askTimeout,
		}
		bound(o)
		clients[i] = redis.NewSentinelClient(o)
	}
	return clients
}

// FindPrimary returns the address of the server that most Sentinels say is the primary.
func (s *Sentinels) FindPrimary(ctx context.Context) (string, error) {
	clients := s.Clients()
	defer closeAll(clients)
	primary, _, err := s.ask(ctx, clients)
	return primary, err
}

// ask asks all of them at once. One that is cut off, with the old primary perhaps, is outvoted by the
// others, and not waited for once they agree. agreed says that most of all do; else it is the one that most of those
// name that answer, and where these are as many, the first.
func (s *Sentinels) ask(ctx context.Context, clients []*redis.SentinelClient) (primary string, agreed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	type answer struct {
		addr    string
		unknown bool
		err     error
	}
	answers := make(chan answer, len(clients))
	for i, c := range clients {
		go func() {
			named, err := c.GetMasterAddrByName(ctx, s.Primary).Result()
			switch {
			case errors.Is(err, redis.Nil):
				answers <- answer{unknown: true, err: fmt.Errorf("the Sentinel %s knows no primary of that name", s.Addrs[i])}
			case err != nil:
				answers <- answer{err: fmt.Errorf("the Sentinel %s: %w", s.Addrs[i], err)}
			case len(named) != 2:
				answers <- answer{err: fmt.Errorf("the Sentinel %s answered %q", s.Addrs[i], named)}
			default:
				answers <- answer{addr: net.JoinHostPort(named[0], named[1])}
			}
		}()
	}
	votes := map[string]int{}
	var errs []error
	unknown := 0
	for range clients {
		a := <-answers
		if a.err != nil {
			if a.unknown {
				unknown++
			}
			errs = append(errs, a.err)
			continue
		}
		if votes[a.addr]++; votes[a.addr] > votes[primary] {
			primary = a.addr
		}
		if agreed = 2*votes[a.addr] > len(clients); agreed {
			break
		}
	}
	switch {
	case primary == "" && unknown == len(clients):
		return "", false, fmt.Errorf("%w: no Sentinel knows a primary %q: want the name that \"sentinel monitor\" gave it", await.ErrSettings, s.Primary)
	case primary == "":
		return "", false, fmt.Errorf("find the primary %q: %w", s.Primary, errors.Join(errs...))
	}
	return primary, agreed, nil
}

func closeAll(clients []*redis.SentinelClient) {
	for _, c := range clients {
		c.Close()
	}
}

// HavePassword reports whether they are told one.
func (s *Sentinels) HavePassword() bool { return s.password != "" }

// HaveUser reports whether they are told a user: without one that is "default", which may do everything.
func (s *Sentinels) HaveUser() bool { return s.username != "" }

// String is the addresses.
func (s *Sentinels) String() string { return strings.Join(s.Addrs, ", ") }
