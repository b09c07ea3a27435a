package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/job"
)

// wantedChannel, then a name: workers that offer it listen there, so that whoever
// publishes hears from Redis how many of them live.
const wantedChannel = "gb:wanted:"

// OfferName is what a worker offers that runs a runtime, or an image, in that isolation: the name, and for less than gVisor the isolation
// behind it. So what is not asked for by that name never gets there, and no alias or image ends like it.
func OfferName(name string, i job.Isolation) string {
	if i.Or() == job.GVisor {
		return name
	}
	return name + "@" + string(i)
}

// OffersFor are the names under which a job can be had that wants the offer of that name: its own first, then what isolates more.
func OffersFor(offer string) []string {
	if name, less := strings.CutSuffix(offer, "@"+string(job.Process)); less {
		return []string{offer, name}
	}
	return []string{offer}
}

// OfferIn is the offer of that name by a worker that serves jobs of a placement, "" for any.
func OfferIn(offer, placement string) string {
	if placement == "" {
		return offer
	}
	return offer + " " + placement
}

// Wanted tells the workers that offer a runtime or image of that name that jobs wait for it. It
// reports whether there are any.
func (f *Fleet) Wanted(ctx context.Context, name string) (told bool, err error) {
	listening, err := f.rdb.Publish(ctx, wantedChannel+name, "").Result()
	return listening > 0, err
}

// Offer is what a worker says that it offers, for as long as it lives.
type Offer struct {
	pubsub  *redis.PubSub
	running sync.WaitGroup

	mu     sync.Mutex
	names  []string
	closed bool
}

// Offer listens for jobs that other workers have no runtime or image for, and calls wanted
// with the name of what is wanted; one call at a time. The caller closes the Offer; ctx
// only bounds the first attempt to subscribe.
func (f *Fleet) Offer(ctx context.Context, wanted func(name string)) *Offer {
	o := &Offer{pubsub: f.rdb.Subscribe(ctx)}
	received := o.pubsub.Channel(redis.WithChannelHealthCheckInterval(redisconn.HealthCheck))
	o.running.Go(func() {
		for m := range received {
			wanted(strings.TrimPrefix(m.Channel, wantedChannel))
		}
	})
	return o
}

// Set says which names are offered from now on.
func (o *Offer) Set(ctx context.Context, names []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var add, remove []string
	for _, name := range names {
		if !slices.Contains(o.names, name) {
			add = append(add, wantedChannel+name)
		}
	}
	for _, name := range o.names {
		if !slices.Contains(names, name) {
			remove = append(remove, wantedChannel+name)
		}
	}
	// What it subscribed to, it subscribes to again with each new connection, also where
	// the first call failed: so what is noted is what was asked for.
	o.names = slices.Clone(names)
	if o.closed {
		return nil
	}
	var errs []error
	if len(add) > 0 {
		errs = append(errs, o.pubsub.Subscribe(ctx, add...))
	}
	if len(remove) > 0 {
		errs = append(errs, o.pubsub.Unsubscribe(ctx, remove...))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("listen for jobs that others hand over: %w", err)
	}
	return nil
}

// Names are those that were set last.
func (o *Offer) Names() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.names
}

// Close ends the subscription: nothing is handed to this worker any more. Names stays what
// it is. It may be called again.
func (o *Offer) Close() error {
	o.mu.Lock()
	again := o.closed
	o.closed = true
	o.mu.Unlock()
	if again {
		return nil
	}
	err := o.pubsub.Close()
	o.running.Wait()
	return err
}
