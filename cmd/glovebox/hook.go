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

func (a *app) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Let others' webhooks start templates",
		Long: `Let others' webhooks start templates: GitHub's, GitLab's, Stripe's, Slack's and more, or
those of a sender of your own. Each request is verified with the hook's secret, starts one
job however often it comes, and is answered once that is accepted durably.`,
		Example: `  glovebox hook create --template report --sender github --from ref=/body/ref
  glovebox hook deliveries default-h-abc…`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.hookCreateCommand(), a.hookSetCommand(), a.hookListCommand(), a.hookShowCommand(), a.hookRemoveCommand(), a.hookRotateCommand(), a.hookDeliveriesCommand())
	return cmd
}

// hookOptions are a hook's settings as flags.
type hookOptions struct {
	template, sender, body, url string
	answer, contentType, topic  string
	answerSeconds               int
	from                        []string
	scheme                      job.HookScheme
	paused, resumed             bool
}

func (o *hookOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.template, "template", "", "the `TEMPLATE` to start: NAME, or NAME@3 for its third revision")
	f.StringArrayVar(&o.from, "from", nil, "where a parameter is in the request: `NAME=/body/ref`; may be repeated")
	f.StringVar(&o.body, "body", "", "give the job the request's body: on `stdin`, or as a file of that name")
	f.StringVar(&o.answer, "answer", "", "what the sender is answered: `accepted`, the default, or result: what the job printed, at its end")
	f.IntVar(&o.answerSeconds, "answer-seconds", 0, "with answer result: how many `SECONDS` the answer is held, up to 60 (default: 25, of slack 2)")
	f.StringVar(&o.contentType, "content-type", "", "with answer result: the `TYPE` of what the job prints, such as application/json (default: text/plain)")
	f.StringVar(&o.topic, "topic-arn", "", "with sender sns: the `ARN` of the topic whose messages start the template")
	f.StringVar(&o.url, "hook-url", "", "with sender twilio: the hook's `URL` as it is configured there")
	f.StringVar(&o.scheme.Signature, "signature-header", "", "with sender hmac: the `HEADER` that has the signature")
	f.StringVar(&o.scheme.Prefix, "signature-prefix", "", "with sender hmac: `TEXT` before the signature, such as sha256=")
	f.StringVar(&o.scheme.Encoding, "encoding", "hex", "with sender hmac: `hex` or base64")
	f.StringVar(&o.scheme.Content, "content", "{body}", "with sender hmac: what is signed, `TEXT` with {body}, and {id} and {timestamp} if these are")
	f.StringVar(&o.scheme.Timestamp, "timestamp-header", "", "with sender hmac: the `HEADER` that has the time, in seconds since 1970")
	f.StringVar(&o.scheme.ID, "id-header", "", "with sender hmac: the `HEADER` that names the delivery")
}

// settings are those of flags that were given, over those before.
func (o *hookOptions) settings(cmd *cobra.Command, s job.HookSettings) (job.HookSettings, error) {
	given := cmd.Flags().Changed
	if given("template") {
		s.Template = o.template
	}
	if given("from") {
		from, err := pairs("--from", o.from)
		if err != nil {
			return s, err
		}
		s.From = from
	}
	if given("body") {
		s.Body = o.body
	}
	if given("answer") {
		if s.Answer = o.answer; s.Answer != job.AnswerResult { // the rest is of that alone
			s.AnswerSeconds, s.ContentType = 0, ""
		}
	}
	if given("answer-seconds") {
		s.AnswerSeconds = o.answerSeconds
	}
	if given("content-type") {
		s.ContentType = o.contentType
	}
	if given("topic-arn") {
		s.TopicARN = o.topic
	}
	if given("hook-url") {
		s.URL = o.url
	}
	scheme := o.scheme // with the defaults of what is not given
	if s.Scheme != nil {
		scheme = *s.Scheme
	}
	for flag, of := range map[string]struct {
		field *string
		value string
	}{
		"signature-header": {&scheme.Signature, o.scheme.Signature},
		"signature-prefix": {&scheme.Prefix, o.scheme.Prefix},
		"encoding":         {&scheme.Encoding, o.scheme.Encoding},
		"content":          {&scheme.Content, o.scheme.Content},
		"timestamp-header": {&scheme.Timestamp, o.scheme.Timestamp},
		"id-header":        {&scheme.ID, o.scheme.ID},
	} {
		if given(flag) {
			*of.field, s.Scheme = of.value, &scheme
		}
	}
	return s, nil
}

func (a *app) hookCreateCommand() *cobra.Command {
	var o hookOptions
	var secretFile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a hook, and print its URL and secret",
		Long: `Make a hook, and print its URL, and its secret if that was made here: it is not shown
again. Senders that make the secret themselves (stripe, slack, shopify, twilio, and discord,
whose public key it is) want it in --secret-file.

Senders are ` + strings.Join(job.Senders()[:7], ", ") + `,
` + strings.Join(job.Senders()[7:], ", ") + `. GitLab from 19.0 on, with a signing token, is
standard-webhooks.`,
		Example: `  glovebox hook create --template report --sender github --from ref=/body/ref
  glovebox hook create --template greet --sender sns --topic-arn arn:aws:sns:eu-central-1:123456789012:uploads --from name=/body/Message
  glovebox hook create --template pay --sender stripe --body event.json --secret-file key.txt
  glovebox hook create --template own --sender hmac --signature-header X-Signature \
    --content '{timestamp}.{body}' --timestamp-header X-Timestamp --body stdin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := o.settings(cmd, job.HookSettings{Sender: o.sender})
			if err != nil {
				return err
			}
			secret, err := a.hookSecret(secretFile)
			if err != nil {
				return err
			}
			return a.withJobs(func(hooks *producer.Client) error {
				made, err := hooks.CreateHook(cmd.Context(), producer.HookRequest{HookSettings: settings, Secret: secret})
				if err != nil {
					return err
				}
				return a.showNewHook(made, asJSON)
			})
		},
	}
	o.add(cmd)
	cmd.Flags().StringVar(&o.sender, "sender", "", "who posts: `SENDER` such as github")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "take the secret from `FILE`; - for standard input")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// hookSecret reads a secret, without one line's end behind it; "" for none.
func (a *app) hookSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := a.read(file)
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), err
}

func (a *app) showNewHook(made producer.NewHook, asJSON bool) error {
	if asJSON {
		return a.printJSON(made)
	}
	c, err := a.settings()
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout, strings.TrimRight(c.URL, "/")+plain(made.Path))
	if made.Secret != "" {
		fmt.Fprintln(a.stdout, plain(made.Secret))
	}
	return nil
}

func (a *app) hookSetCommand() *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Change, pause or resume a hook",
		Long: `Change a hook: what flags give, the rest stays, and so do its URL, sender and secrets. A hook
that is paused answers 404, as if it were not there.`,
		Example: `  glovebox hook set default-h-abc… --template report@3
  glovebox hook set default-h-abc… --pause`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.paused && o.resumed {
				return usagef("--pause and --resume: one of the two")
			}
			return a.withJobs(func(hooks *producer.Client) error {
				now, err := hooks.Hook(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				settings, err := o.settings(cmd, now.HookSettings)
				if err != nil {
					return err
				}
				settings.Paused = (settings.Paused || o.paused) && !o.resumed
				_, err = hooks.ChangeHook(cmd.Context(), args[0], settings)
				return err
			})
		},
	}
	o.add(cmd)
	cmd.Flags().BoolVar(&o.paused, "pause", false, "answer as if it were not there")
	cmd.Flags().BoolVar(&o.resumed, "resume", false, "start jobs again")
	return cmd
}

func (a *app) hookListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the hooks",
		Long:    `List the hooks, the oldest first.`,
		Example: `  glovebox hook list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(hooks *producer.Client) error {
				list, err := hooks.ListHooks(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.HookList{Hooks: list})
				}
				w := a.table()
				fmt.Fprintln(w, "ID\tSENDER\tTEMPLATE\tSTATE")
				for _, h := range list {
					state := "active"
					if h.Paused {
						state = "paused"
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain(h.ID), plain(h.Sender), plain(h.Template), state)
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) hookShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Print a hook as JSON",
		Long:    `Print a hook as JSON, without its secrets.`,
		Example: `  glovebox hook show default-h-abc…`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(hooks *producer.Client) error {
				h, err := hooks.Hook(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printJSON(h)
			})
		},
	}
}

func (a *app) hookRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID…",
		Short:   "Delete hooks",
		Long:    `Delete hooks. Their URLs answer 404 from then on; jobs that they started go on.`,
		Example: `  glovebox hook rm default-h-abc…`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(hooks *producer.Client) error {
				var errs []error
				for _, id := range args {
					if err := hooks.DeleteHook(cmd.Context(), id); err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(id), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}

func (a *app) hookRotateCommand() *cobra.Command {
	var expire time.Duration
	var secretFile string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rotate ID",
		Short: "Give a hook a new secret",
		Long: `Give a hook a new secret, and print it if it was made here. The one before is good beside it
until it expires: give the new one to the sender by then. While two are good this is refused,
unless --expire is 0.`,
		Example: `  glovebox hook rotate default-h-abc…
  glovebox hook rotate default-h-abc… --secret-file key.txt --expire 0`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if expire < 0 || expire > producer.MaxWebhookKeep || expire%time.Second != 0 {
				return usagef("--expire %s: want whole seconds from 0 to %.0fh", expire, producer.MaxWebhookKeep.Hours())
			}
			secret, err := a.hookSecret(secretFile)
			if err != nil {
				return err
			}
			seconds := int64(expire / time.Second)
			return a.withJobs(func(hooks *producer.Client) error {
				made, err := hooks.RotateHook(cmd.Context(), args[0], producer.HookRotateRequest{Secret: secret, ExpireSeconds: &seconds})
				if err != nil {
					return err
				}
				return a.showNewHook(made, asJSON)
			})
		},
	}
	cmd.Flags().DurationVar(&expire, "expire", producer.DefaultWebhookKeep, "how long the one before is good, too: `TIME` such as 48h; 0 for no longer")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "take the secret from `FILE`; - for standard input")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) hookDeliveriesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "deliveries ID",
		Short: "List what came to a hook",
		Long: `List the last 100 requests to a hook that were verified, the newest first: which job each
started, which one before did for a duplicate, or why it was refused.`,
		Example: `  glovebox hook deliveries default-h-abc…`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(hooks *producer.Client) error {
				list, err := hooks.HookDeliveries(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.HookDeliveryList{Deliveries: list})
				}
				w := a.table()
				fmt.Fprintln(w, "AT\tOUTCOME\tDELIVERY\tJOB, RUN OR REASON")
				for _, d := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.At.Local().Format(time.DateTime), plain(d.Outcome), plain(d.Delivery), plain(d.Job+d.Run+d.Reason))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
