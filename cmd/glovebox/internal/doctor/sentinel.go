package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/redisconn"
)

// mostDownAfter is how long Sentinels may take at most to find a primary down without a word of ours.
const mostDownAfter = 10 * time.Second

// sentinels says whether the Sentinels can make another server the primary.
func (r *report) sentinels(ctx context.Context, s *redisconn.Sentinels) {
	var primaries, silent, noQuorum []string
	var failed error
	group := map[string]string{} // as the last one said that answered
	for i, c := range s.Clients() {
		addr := s.Addrs[i]
		said, err := c.Master(ctx, s.Primary).Result()
		if err != nil {
			silent, failed = append(silent, addr), errors.Join(failed, fmt.Errorf("%s: %w", addr, err))
			c.Close()
			continue
		}
		group = said
		if primary := net.JoinHostPort(said["ip"], said["port"]); !slices.Contains(primaries, primary) {
			primaries = append(primaries, primary)
		}
		if _, err := c.CkQuorum(ctx, s.Primary).Result(); err != nil {
			noQuorum = append(noQuorum, fmt.Sprintf("%s: %v", addr, err))
		}
		c.Close()
	}
	answered, n := len(s.Addrs)-len(silent), len(s.Addrs)
	others, _ := strconv.Atoi(group["num-other-sentinels"])
	state := fmt.Sprintf("%d of %d answer, quorum %s, primary %s", answered, n, group["quorum"], strings.Join(primaries, " or "))
	switch {
	case answered == 0:
		r.problem("redis sentinel", fmt.Sprintf("none answers about %q: %v", s.Primary, failed), "start them, or correct GLOVEBOX_REDIS_URL")
		return
	case len(noQuorum) > 0:
		r.problem("redis sentinel", state+"; no failover is possible: "+strings.Join(noQuorum, "; "), "start the other Sentinels: most of them, and as many as the quorum, have to reach each other")
	case len(primaries) > 1:
		r.problem("redis sentinel", state+": they don't agree", "wait if a failover is under way; else look at their logs")
	case len(silent) > 0:
		r.warning("redis sentinel", fmt.Sprintf("%s: %v", state, failed), "start it, or correct GLOVEBOX_REDIS_URL")
	case others+1 > n:
		r.warning("redis sentinel", fmt.Sprintf("%s; they know of %d Sentinels", state, others+1), "name all of them in GLOVEBOX_REDIS_URL")
	case n < 3:
		r.warning("redis sentinel", state+": the loss of one leaves no majority", "three Sentinels, on machines of their own")
	default:
		r.ok("redis sentinel", state)
	}
	if ms, _ := strconv.ParseInt(group["down-after-milliseconds"], 10, 64); time.Duration(ms)*time.Millisecond > mostDownAfter {
		r.warning("redis sentinel", fmt.Sprintf("a primary that is lost is missed after %d ms, and nothing is accepted until then", ms),
			fmt.Sprintf("redis-cli -p 26379 SENTINEL SET %s down-after-milliseconds 5000, at each of them", s.Primary))
	}
}

// replicas says what a failover would lose, and what the loss of a replica stops.
func (r *report) replicas(said info) {
	n, _ := strconv.Atoi(said.field("connected_slaves"))
	wanted := r.Redis.Replicas
	if n < wanted {
		r.problem("redis replicas", fmt.Sprintf("%d are connected, and GLOVEBOX_REDIS_WAIT_REPLICAS wants %d: no job is accepted", n, wanted), "start the replicas, or lower it for every api and worker")
		return
	}
	if n == 0 {
		return // one server: the AOF is what it has
	}
	var worst int
	for i := range n {
		for field := range strings.SplitSeq(said.field(fmt.Sprintf("slave%d", i)), ",") {
			if lag, ok := strings.CutPrefix(field, "lag="); ok {
				seconds, _ := strconv.Atoi(lag)
				worst = max(worst, seconds)
			}
		}
	}
	state := fmt.Sprintf("%d, heard of %d s ago at most", n, worst)
	good := said.field("min_slaves_good_slaves") // only where min-replicas-to-write is set
	switch {
	case wanted == 0:
		r.warning("redis replicas", state+": a failover loses jobs that were accepted just before", "GLOVEBOX_REDIS_WAIT_REPLICAS=1 for every api and worker")
	case good == "":
		r.warning("redis replicas", state+"; without min-replicas-to-write a primary that is cut off takes writes which are lost later",
			"redis-cli CONFIG SET min-replicas-to-write 1, CONFIG SET min-replicas-max-lag 4, and in redis.conf of all servers")
	case wanted == n:
		r.warning("redis replicas", fmt.Sprintf("%s; GLOVEBOX_REDIS_WAIT_REPLICAS wants all %d: without one of them no job is accepted", state, n), "a replica more")
	default:
		r.ok("redis replicas", fmt.Sprintf("%s; %s of them count for min-replicas-to-write, %d confirm what is accepted", state, good, wanted))
	}
}
