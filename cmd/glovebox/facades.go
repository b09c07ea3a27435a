package main

import (
	"context"
	"log/slog"
	"net"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/api"
	"github.com/glovebox-run/glovebox/producer/direct"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/e2b"
	"github.com/glovebox-run/glovebox/producer/facade/jobe"
	"github.com/glovebox-run/glovebox/producer/facade/judge0"
	"github.com/glovebox-run/glovebox/producer/facade/piston"
)

// facadesNamed returns the façades of these names.
func facadesNamed(names []string) []facade.Facade {
	all := map[string]func() facade.Facade{"judge0": judge0.New, "piston": piston.New, "jobe": jobe.New, "e2b": e2b.New}
	var on []facade.Facade
	for _, name := range names {
		on = append(on, all[name]())
	}
	return on
}

// translator writes messages of jobs as the façade says that a client submitted them to; nil where none does.
func translator(names []string) func(context.Context, *direct.Client, job.Result) ([]byte, error) {
	if !slices.Contains(names, "judge0") {
		return nil
	}
	return judge0.Message
}

// facadeListeners are those of façades that have an address of their own, by name.
type facadeListeners map[string]net.Listener

// listenForFacades opens them. The caller closes them.
func listenForFacades(ctx context.Context, c config.API) (facadeListeners, error) {
	listeners := facadeListeners{}
	for name, addr := range c.FacadeAddresses {
		l, err := config.Listen(ctx, addr)
		if err != nil {
			listeners.close()
			return nil, usagef("GLOVEBOX_FACADE_ADDRESSES: %s: %v", name, err)
		}
		listeners[name] = l
	}
	return listeners, nil
}

func (l facadeListeners) close() {
	for _, one := range l {
		_ = one.Close() // it was only listened on
	}
}

// serve answers on all of them, each as long as ctx lasts.
func (l facadeListeners) serve(ctx context.Context, group *errgroup.Group, handler *api.API, log *slog.Logger) {
	for name, listener := range l {
		log.Info("façade serves", "facade", name, "addr", listener.Addr().String())
		group.Go(func() error { return handler.ServeFacade(ctx, listener, name) })
	}
}
