package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) endpointCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "endpoint",
		Short: "Manage the endpoints that your webhooks go to, and look into them",
		Long: `Manage the endpoints that your webhooks go to, and look into them. An endpoint is a URL
that is told of all your jobs and batches, or of those that its filter matches, besides
the callback that a job may name. Each has a secret of its own.

Endpoints don't wait for each other. One that fails is tried ever more seldom, and one to
which nothing could be delivered for five days is disabled, and tried once a day.`,
		Example: `  glovebox endpoint create https://hooks.example.com/glovebox --status failed --status timed_out
  glovebox endpoint list
  glovebox endpoint recover default-e-cltgoj5ht3pt52fyruvlgdcnle --since 2h`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.endpointCreateCommand(), a.endpointListCommand(), a.endpointShowCommand(), a.endpointChangeCommand(), a.endpointRemoveCommand(),
		a.endpointSecretCommand(), a.endpointRotateCommand(), a.endpointTestCommand(), a.endpointAttemptsCommand(), a.endpointRecoverCommand(), a.endpointRedeliverCommand())
	return cmd
}

// endpointFlags are the settings of an endpoint as flags.
type endpointFlags struct {
	url, description string
	headers          string
	events, statuses []string
	metadata         []string
}

func (f *endpointFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.description, "description", "", "`TEXT` of your own")
	cmd.Flags().StringArrayVar(&f.events, "event", nil, "post this `EVENT`, such as job.completed; again for more (default all)")
	cmd.Flags().StringVar(&f.headers, "headers-file", "", "headers of your own that each message has, from `FILE` of lines NAME: VALUE; - for standard input, an empty one for none")
	cmd.Flags().StringArrayVar(&f.statuses, "status", nil, "post only what ended in this `STATUS`, such as failed; again for more")
	cmd.Flags().StringArrayVar(&f.metadata, "metadata", nil, "post only what has this `KEY=VALUE` in its metadata; again for more, which all have to be there")
}

// filter is nil where no flag asks for one.
func (f *endpointFlags) filter() (*job.EndpointFilter, error) {
	if len(f.statuses) == 0 && len(f.metadata) == 0 {
		return nil, nil //nolint:nilnil // no filter is none
	}
	filter := &job.EndpointFilter{Statuses: f.statuses, Metadata: map[string]string{}}
	for _, pair := range f.metadata {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, usagef("--metadata %s: want KEY=VALUE", pair)
		}
		filter.Metadata[key] = value
	}
	return filter, nil
}

// endpointHeaders reads lines NAME: VALUE.
func (a *app) endpointHeaders(file string) (map[string]string, error) {
	b, err := a.read(file)
	if err != nil {
		return nil, err
	}
	headers := map[string]string{}
	for n, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, twice := headers[name]; !ok || name == "" || twice {
			return nil, usagef("--headers-file %s: line %d: want NAME: VALUE, each name once", plain(file), n+1) // the line may be a secret
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

func (a *app) endpointCreateCommand() *cobra.Command {
	var f endpointFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create URL",
		Short: "Create an endpoint",
		Long: `Create an endpoint, and print its id and then its secret, which the receiver verifies
messages with: GLOVEBOX_WEBHOOK_SECRET for "glovebox receive", or the secret of any
library for Standard Webhooks.`,
		Example: `  glovebox endpoint create https://hooks.example.com/glovebox
  glovebox endpoint create https://hooks.example.com/failures --status failed --metadata project=atlas`,
		Args: one("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.filter()
			if err != nil {
				return err
			}
			var headers map[string]string
			if f.headers != "" {
				if headers, err = a.endpointHeaders(f.headers); err != nil {
					return err
				}
			}
			return a.withJobs(func(api *producer.Client) error {
				e, err := api.CreateEndpoint(cmd.Context(), job.EndpointSettings{URL: args[0], Description: f.description, Events: f.events, Headers: headers, Filter: filter})
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(e)
				}
				fmt.Fprintf(a.stdout, "%s\n%s\n", e.ID, e.Secret)
				return nil
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) endpointListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the endpoints and how they do",
		Long:    `List the endpoints: how deliveries to each go, how many messages wait for it, and where it leads.`,
		Example: `  glovebox endpoint list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(api *producer.Client) error {
				list, err := api.ListEndpoints(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.EndpointList{Endpoints: list})
				}
				w := a.table()
				fmt.Fprintln(w, "ID\tSTATE\tWAITING\tEVENTS\tURL")
				for _, e := range list {
					fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", plain(e.ID), plain(string(e.Health.State)), e.Health.Waiting, plain(strings.Join(e.Events, ",")), plain(e.URL))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) endpointShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Print an endpoint as JSON",
		Long:    `Print an endpoint as JSON: its settings, and how deliveries to it go.`,
		Example: `  glovebox endpoint show default-e-cltgoj5ht3pt52fyruvlgdcnle`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(api *producer.Client) error {
				e, err := api.GetEndpoint(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printJSON(e)
			})
		},
	}
}

func (a *app) endpointChangeCommand() *cobra.Command {
	var f endpointFlags
	var all, disable, enable bool
	cmd := &cobra.Command{
		Use:   "change ID",
		Short: "Change an endpoint",
		Long: `Change an endpoint. What no flag names stays as it is. --status and --metadata take the
place of the whole filter; --all removes it. --headers-file takes the place of all headers of
your own, and has to come with a --target on another host if there are any. What happens while
an endpoint is disabled can be delivered later, with "glovebox endpoint recover".`,
		Example: `  glovebox endpoint change default-e-cltgoj5ht3pt52fyruvlgdcnle --target https://hooks.example.com/new
  glovebox endpoint change default-e-cltgoj5ht3pt52fyruvlgdcnle --enable`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.filter()
			switch {
			case err != nil:
				return err
			case all && filter != nil:
				return usagef("--all removes the filter: want it without --status and --metadata")
			case disable && enable:
				return usagef("want --enable or --disable, not both")
			}
			change := producer.EndpointChange{Filter: filter}
			if all {
				change.Filter = &job.EndpointFilter{}
			}
			if cmd.Flags().Changed("target") {
				change.URL = &f.url
			}
			if cmd.Flags().Changed("description") {
				change.Description = &f.description
			}
			if len(f.events) > 0 {
				change.Events = &f.events
			}
			if f.headers != "" {
				headers, err := a.endpointHeaders(f.headers)
				if err != nil {
					return err
				}
				change.Headers = &headers
			}
			if disable || enable {
				change.Disabled = &disable
			}
			return a.withJobs(func(api *producer.Client) error {
				_, err := api.ChangeEndpoint(cmd.Context(), args[0], change)
				return err
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.url, "target", "", "`URL` that it leads to from now on")
	cmd.Flags().BoolVar(&all, "all", false, "post everything: remove the filter")
	cmd.Flags().BoolVar(&disable, "disable", false, "post nothing")
	cmd.Flags().BoolVar(&enable, "enable", false, "post again, also to an endpoint that was disabled for its failures")
	return cmd
}

func (a *app) endpointRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID…",
		Short:   "Delete endpoints",
		Long:    `Delete endpoints, with their secrets and what is known of their attempts. Deliveries that are pending fail.`,
		Example: `  glovebox endpoint rm default-e-cltgoj5ht3pt52fyruvlgdcnle`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(api *producer.Client) error {
				var errs []error
				for _, id := range args {
					if err := api.DeleteEndpoint(cmd.Context(), id); err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(id), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}

func (a *app) endpointSecretCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "secret ID",
		Short: "Print an endpoint's secret",
		Long: `Print the secret that verifies messages to an endpoint, and while it is rotated the one
before on a second line.`,
		Example: `  GLOVEBOX_WEBHOOK_SECRET=$(glovebox endpoint secret default-e-cltgoj5ht3pt52fyruvlgdcnle) glovebox receive`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(api *producer.Client) error {
				list, err := api.EndpointSecrets(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.showSecrets(list, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with public keys")
	return cmd
}

func (a *app) endpointRotateCommand() *cobra.Command {
	var asJSON bool
	var expire time.Duration
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Make a new secret for an endpoint, and print it",
		Long: `Make a new secret for an endpoint, and print it, then the one before. That one signs each
message, too, until it expires. While two are valid this is refused, unless --expire is 0:
then nothing but the new one signs from now on.`,
		Example: `  glovebox endpoint rotate default-e-cltgoj5ht3pt52fyruvlgdcnle --expire 48h`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if expire < 0 || expire > producer.MaxWebhookKeep || expire%time.Second != 0 {
				return usagef("--expire %s: want whole seconds from 0 to %.0fh", expire, producer.MaxWebhookKeep.Hours())
			}
			return a.withJobs(func(api *producer.Client) error {
				list, err := api.RotateEndpointSecret(cmd.Context(), args[0], expire)
				if err != nil {
					return err
				}
				return a.showSecrets(list, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with public keys")
	cmd.Flags().DurationVar(&expire, "expire", producer.DefaultWebhookKeep, "how long the one before signs, too: `TIME` such as 48h; 0 for no longer")
	return cmd
}
