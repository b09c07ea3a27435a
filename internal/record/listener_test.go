package record

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// Subscribed returns once l has subscribed to the channel and everybody who waited was woken by that: whoever waits from then on is woken by
// what is published alone.
func (l *Listener) Subscribed(tb testing.TB, rdb redis.UniversalClient, channel string) {
	tb.Helper()
	woken, stop := l.Wait("any")
	defer stop()
	gbtest.Eventually(tb, "it listens to "+channel, func() bool {
		rdb.Publish(tb.Context(), channel, "any")
		select {
		case <-woken:
			return true
		default:
			return false
		}
	})
}
