package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-run/glovebox/internal/fleet"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/redisacl"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

const (
	// offerPatience is how long the worker may take to see an image that was built: it looks once a minute, and when it is told.
	offerPatience = 3 * time.Minute
	// republishEvery is well below the week after which what was published is forgotten.
	republishEvery = 24 * time.Hour
)

// builder builds runtimes when jobs ask for them. For a job whose runtime it lacks, the worker looks
// for somebody who offers it (ADR 21): the builder does, for all that can be built.
type builder struct {
	*stack

	records *record.Store
	offer   *fleet.Offer
	running sync.WaitGroup
	wake    chan struct{} // something has been asked for

	mu      sync.Mutex
	unbuilt []runtimes.Runtime
	asked   []string // each once, however many jobs ask
}

// firstRuntimes are built before anything is started: those that were asked for, and one where there is none,
// without which no worker starts.
func (s *stack) firstRuntimes(ctx context.Context) error {
	if s.Build == nil {
		return nil
	}
	built, err := s.Built(ctx)
	if err != nil {
		return err
	}
	names := s.First
	if len(names) == 0 && !slices.ContainsFunc(s.Runtimes.List(), func(r runtimes.Runtime) bool { return built[r.Image()] }) {
		names = []string{"python"}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		r, ok := s.Runtimes.Lookup(name)
		return ok && built[r.Image()]
	})
	if len(names) == 0 {
		return nil
	}
	s.say("Building %s first, which takes minutes:\n", strings.Join(names, ", "))
	if err := s.Build(ctx, names, said{s}); err != nil {
		return cmp.Or(ctx.Err(), err) // Ctrl-C while it built
	}
	return nil
}

// said prints what building says, a line at a time.
type said struct{ s *stack }

func (w said) Write(p []byte) (int, error) {
	w.s.say("%s", p)
	return len(p), nil
}

// buildWhenAsked publishes the runtimes that can be built, so that their jobs are accepted, and builds each for its first job. What it
// returns ends that.
func (s *stack) buildWhenAsked(ctx context.Context) (stop func() error, err error) {
	if s.Build == nil {
		return func() error { return nil }, nil
	}
	records, err := record.Open(ctx, record.Config{URL: s.redisURL(redisacl.Admin)})
	if err != nil {
		return nil, err
	}
	return s.buildFor(ctx, records)
}

// buildFor is buildWhenAsked for the jobs of these records, which it closes.
func (s *stack) buildFor(ctx context.Context, records *record.Store) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &builder{stack: s, records: records, wake: make(chan struct{}, 1)}
	b.offer = records.Fleet.Offer(ctx, b.ask)
	stop = func() error {
		cancel()
		err := b.offer.Close()
		b.running.Wait()
		bounded, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer done()
		err = errors.Join(err, records.Fleet.WithdrawRuntimes(bounded, b.names()))
		return errors.Join(err, records.Close())
	}
	if err := b.refresh(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	// Jobs that waited when dev ended last: for what has been built since, the worker is to take them.
	for _, r := range s.Runtimes.List() {
		waits, err := records.Queue.HasHandedOver(ctx, r.Name)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		if waits {
			b.ask(r.Name)
		}
	}
	b.running.Go(func() { b.run(ctx) })
	return stop, nil
}

// ask notes that jobs want a runtime.
func (b *builder) ask(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.asked, name) {
		b.asked = append(b.asked, name)
	}
	select {
	case b.wake <- struct{}{}:
	default: // it is awake already
	}
}

// next takes the runtime that was asked for first; "" is none.
func (b *builder) next() (name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) > 0 {
		name, b.asked = b.asked[0], b.asked[1:]
	}
	return name
}

func (b *builder) run(ctx context.Context) {
	again := time.NewTicker(republishEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
			if err := b.refresh(ctx); err != nil && ctx.Err() == nil {
				b.say("  runtimes that can be built could not be published: %v\n", err)
			}
		case <-b.wake:
			for name := b.next(); name != "" && ctx.Err() == nil; name = b.next() {
				b.serve(ctx, name)
			}
		}
	}
}

// serve provides a runtime, or ends the jobs that wait for it: nobody else will take them. The next job tries again.
func (b *builder) serve(ctx context.Context, name string) {
	err := b.provide(ctx, name)
	if err == nil || ctx.Err() != nil {
		return
	}
	b.say("  %-8s could not be had: %v\n", name, err)
	ended, err := b.records.EndHandedOver(ctx, name, &job.Error{
		Code: job.CodeUnavailable, Message: fmt.Sprintf("the runtime %s could not be built; glovebox dev printed why", name),
	})
	if err != nil && ctx.Err() == nil {
		b.say("  %-8s jobs that wait for it could not be ended: %v\n", name, err)
	} else if ended > 0 {
		b.say("  %-8s jobs that waited for it have failed: %d\n", name, ended)
	}
}

// provide builds a runtime, and has the worker take the jobs that wait for it.
func (b *builder) provide(ctx context.Context, name string) error {
	if slices.Contains(b.names(), name) {
		b.say("A job asks for %s, which is not built yet:\n", name)
		if err := b.Build(ctx, []string{name}, said{b.stack}); err != nil {
			return err
		}
		if err := b.refresh(ctx); err != nil {
			return err
		}
		b.say("  %-8s is built; the worker is about to take its jobs\n", name)
	}
	for deadline := time.Now().Add(offerPatience); time.Now().Before(deadline); {
		// Redis may be away for a moment, and a worker just not listen.
		told, err := b.records.Fleet.Wanted(ctx, name) // nobody else listens than a worker that has it
		if told && err == nil {
			return nil
		}
		_, _ = b.records.Fleet.Wanted(ctx, fleet.ImagesOffer)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("the worker does not offer it after %s", offerPatience)
}

// refresh looks which are built, and says that the others can be had. What has just been built is the worker's to publish.
func (b *builder) refresh(ctx context.Context) error {
	built, err := b.Built(ctx)
	if err != nil {
		return err
	}
	unbuilt := slices.DeleteFunc(b.Runtimes.List(), func(r runtimes.Runtime) bool { return built[r.Image()] })
	b.mu.Lock()
	b.unbuilt = unbuilt
	b.mu.Unlock()
	var list []fleet.Runtime
	for _, r := range unbuilt {
		list = append(list, fleet.Runtime{
			Name: r.Name, Version: r.Version, Aliases: r.Aliases, File: r.File, Image: r.Image(), Limits: r.Limits, Compiles: len(r.Compile) > 0,
		})
	}
	return errors.Join(b.offer.Set(ctx, b.names()), b.records.Fleet.PublishRuntimes(ctx, list))
}

func (b *builder) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for _, r := range b.unbuilt {
		names = append(names, r.Name)
	}
	return names
}

// BuildFunc builds the images of runtimes, and says so.
type BuildFunc func(ctx context.Context, names []string, out io.Writer) error
