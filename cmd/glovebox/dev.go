package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/dev"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// devSettings are variables of dev's own environment that it hands to the api and the
// worker, over its own choice.
var devSettings = []string{
	"GLOVEBOX_CONCURRENCY", "GLOVEBOX_WARM", "GLOVEBOX_PRELOAD", "GLOVEBOX_SNAPSHOTS", "GLOVEBOX_SESSION_PAUSE_MB", "GLOVEBOX_SESSION_PAUSE_AFTER_SECONDS", "GLOVEBOX_MEMORY_MB", "GLOVEBOX_POLL_MS",
	"GLOVEBOX_WEBHOOK_ALLOW", "GLOVEBOX_WEBHOOK_SCHEDULE", "GLOVEBOX_FAILPOINT", "GLOVEBOX_IMAGES", "GLOVEBOX_LABELS", "GLOVEBOX_LABELS_ONLY",
	"GLOVEBOX_RETENTION_SECONDS", "GLOVEBOX_RESULT_SECONDS", "GLOVEBOX_RECORDS_MB", "GLOVEBOX_PRICES", "GLOVEBOX_POLICY",
	"GLOVEBOX_FACADES", "GLOVEBOX_FACADE_ADDRESSES", "GLOVEBOX_FACADE_TENANT", "GLOVEBOX_FACADE_WAIT_SECONDS",
	"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_TRACES_SAMPLER_ARG",
}

type devOptions struct {
	data, api, podmanUser, isolation string
	runtimes                         []string
}

func (a *app) devCommand() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run all of Glovebox on this machine",
		Long: `Run all of Glovebox on this machine: Redis, an S3 server, the rootless Podman service,
the API with the deliverer of webhooks, and a worker. A program that dies is started
again; when dev itself dies, all of them do.

Everything that lasts lies in one data directory: records, objects, logs, and
credentials that are made once, at random. Started again on it, dev still has every
job and result. DIR/env, which only you can read, tells the other commands where this
Glovebox is.

As root, Podman and the worker run as an ordinary user, who can't read the directory.
--isolation process needs neither Podman nor images, and starts in seconds: programs run
on this machine's own kernel, in namespaces, with the languages that it has. That is for
code that you trust. Without it, everything runs in gVisor; there is no way from one to
the other by itself.

A runtime whose image is not built yet is built when a job first asks for it: the job waits,
and dev prints how it goes. Where none is there, Python's is built first. Sessions want a runtime
that is built: name it in --runtimes.

Webhooks may be on loopback addresses here; other private addresses are refused.

Ctrl-C ends everything in order: jobs that run get three seconds, or what
GLOVEBOX_GRACE_SECONDS says, then they go back to the queue. A second Ctrl-C kills at
once; nothing that was accepted is lost.

Of the variables of the api and the worker, it hands these on:

  ` + strings.Join(devSettings, "\n  "),
		Example: `  glovebox dev
  glovebox dev --data /var/lib/glovebox-dev --api 127.0.0.1:0
  glovebox dev --isolation process
  glovebox dev --runtimes python,node
  GLOVEBOX_CONCURRENCY=4 glovebox dev`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			isolation, err := job.ParseIsolation(o.isolation)
			if err != nil {
				return usagef("--isolation: %v", err)
			}
			env := config.NewReader(a.getenv)
			c := dev.Config{
				Dir: o.data, Addr: o.api, Isolation: isolation, PodmanUser: o.podmanUser, RuntimeDir: a.getenv("XDG_RUNTIME_DIR"),
				Bin: filepath.Dir(self), Command: os.Args[0], Out: a.stdout,
				Grace: env.Count("GLOVEBOX_GRACE_SECONDS", time.Second, 3, 1, 3600),
			}
			if err := env.Err(); err != nil {
				return &failure{code: exitUsage, err: err}
			}
			if abroad := env.AnonymousAbroad(o.api); len(abroad) > 0 {
				return usagef("GLOVEBOX_FACADE_TENANT lets whoever reaches a façade run code, with no token, and other machines may reach %s: want addresses of this machine alone, such as 127.0.0.1:8437", strings.Join(abroad, ", "))
			}
			if isolation.Or() == job.GVisor {
				if err := a.buildsRuntimes(&c, o.runtimes); err != nil {
					return err
				}
			} else if len(o.runtimes) > 0 {
				return usagef("--runtimes builds images, and --isolation %s has none: give one of the two", isolation)
			}
			for _, name := range devSettings {
				if v := a.getenv(name); v != "" {
					c.Extra = append(c.Extra, name+"="+v)
				}
			}
			err = dev.Run(cmd.Context(), c)
			if errors.Is(err, dev.ErrSetup) || errors.Is(err, dev.ErrBareSetup) {
				return &failure{code: exitFailed, err: err}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.data, "data", defaultData, "`DIR` for everything that lasts")
	cmd.Flags().StringVar(&o.api, "api", config.DefaultAPIAddr, "`ADDRESS` of the API; port 0 takes a free one")
	setTwin(cmd, "api", "GLOVEBOX_API_ADDR")
	cmd.Flags().StringVar(&o.isolation, "isolation", "", "gvisor, or process for code that you trust, without Podman")
	cmd.Flags().StringSliceVar(&o.runtimes, "runtimes", nil, "build the runtimes with these `NAMES`, separated by commas, before the start, or all")
	setTwin(cmd, "runtimes", "GLOVEBOX_DEV_RUNTIMES")
	cmd.Flags().StringVar(&o.podmanUser, "podman-user", defaultPodmanUser, "`USER` who runs Podman and the worker, where we are root")
	return cmd
}

// buildsRuntimes has dev build the runtimes that are named, and others when jobs ask for them.
func (a *app) buildsRuntimes(c *dev.Config, names []string) error {
	set, err := runtimes.Embedded()
	if err != nil {
		return err
	}
	if slices.Equal(names, []string{"all"}) {
		names = nil
		for _, r := range set.List() {
			names = append(names, r.Name)
		}
	}
	for _, name := range names {
		if _, ok := set.Lookup(name); !ok {
			return usagef("--runtimes: there is no runtime %q: choose among all, %s", name, strings.Join(set.Names(), ", "))
		}
	}
	as := config.Client{PodmanUser: c.PodmanUser}
	podman, rootImages := asPodmanUser(as, podmanScript), asPodmanUser(as, rootImagesScript)
	c.Runtimes, c.First = set, names
	c.Built = func(ctx context.Context) (map[string]bool, error) { return set.Built(ctx, podman) }
	c.Build = func(ctx context.Context, names []string, out io.Writer) error {
		return set.Build(ctx, runtimes.BuildOptions{Names: names, Podman: podman, RootImages: rootImages, Out: out})
	}
	return nil
}

// defaultPodmanUser is whom infra/setup.sh adds.
const defaultPodmanUser = "glovebox"

// defaultData is where dev keeps everything, and where the other commands look for it.
const defaultData = ".glovebox"
