package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) templateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Store jobs with parameters, and run them by name",
		Long: `Store jobs with parameters, and run them by name. A template is a job, as JSON, in which
arguments, variables, standard input, contents of files and metadata may point at a
parameter: {"from": "/params/NAME"}. A JSON Schema says what the parameters may be. What a
parameter is never becomes a part of the program.

Each change is a new revision; the newest 50 are kept. NAME is the newest, NAME@3 the third.`,
		Example: `  glovebox template set report report.json
  glovebox template run report --param ref=main --wait`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.templateSetCommand(), a.templateListCommand(), a.templateShowCommand(), a.templateRemoveCommand(), a.templateRunCommand())
	return cmd
}

func (a *app) templateSetCommand() *cobra.Command {
	var program string
	cmd := &cobra.Command{
		Use:   "set NAME FILE|-",
		Short: "Store a template, from a file of JSON",
		Long: `Store a template, from a file of JSON or standard input (-), as the next revision under
that name, and print its name and revision. The file has "spec", the job as POST /v1/jobs
takes it, and "params", the JSON Schema of its parameters, an object's. With --source the
program comes from a file of its own.`,
		Example: `  glovebox template set report report.json
  glovebox template set report report.json --source report.py
  echo '{"spec": {"runtime": "python", "source": "print(1)"}}' | glovebox template set one -`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.read(args[1])
			if err != nil {
				return err
			}
			r, err := strictjson.Decode[producer.TemplateRequest](text, "the template")
			if err != nil {
				return usagef("%s: %s", args[1], err)
			}
			if program != "" {
				source, err := a.read(program)
				if err != nil {
					return err
				}
				if !utf8.Valid(source) {
					return usagef("--source %s is not UTF-8, as a template's source has to be", program)
				}
				r.Spec.Source = string(source)
			}
			return a.withJobs(func(templates *producer.Client) error {
				t, err := templates.SetTemplate(cmd.Context(), args[0], r)
				if err == nil {
					fmt.Fprintln(a.stdout, plain(t.Ref()))
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&program, "source", "", "take the program, spec.source, from `FILE`")
	return cmd
}

func (a *app) templateListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the templates",
		Long:    `List the templates by name, with their newest revisions.`,
		Example: `  glovebox template list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(templates *producer.Client) error {
				list, err := templates.ListTemplates(cmd.Context())
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(producer.TemplateList{Templates: list})
				}
				w := a.table()
				fmt.Fprintln(w, "NAME\tREVISION\tSTORED")
				for _, t := range list {
					fmt.Fprintf(w, "%s\t%d\t%s\n", plain(t.Name), t.Revision, t.CreatedAt.Local().Format(time.DateTime))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) templateShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Print a template as JSON",
		Long:  `Print a template as JSON: its newest revision, or with NAME@3 the third.`,
		Example: `  glovebox template show report
  glovebox template show report@3`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(templates *producer.Client) error {
				t, err := templates.Template(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printJSON(t)
			})
		},
	}
}

func (a *app) templateRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME…",
		Short:   "Delete templates with all their revisions",
		Long:    `Delete templates with all their revisions. Jobs that they started go on.`,
		Example: `  glovebox template rm report`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(templates *producer.Client) error {
				var errs []error
				for _, name := range args {
					if err := templates.DeleteTemplate(cmd.Context(), name); err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(name), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}

type templateRunOptions struct {
	file, wait, out, key string
	given                []string
	json                 bool
}

func (a *app) templateRunCommand() *cobra.Command {
	var o templateRunOptions
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Run a template",
		Long: `Run a template: its newest revision, or with NAME@3 the third. --param NAME=TEXT gives a
parameter as text, --param NAME:=JSON as JSON. --wait, --out and the exit codes are those of
"glovebox submit".`,
		Example: `  glovebox template run report --param ref=main --wait
  glovebox template run report@3 --param count:=3 --idempotency-key order-1234
  glovebox template run report --params params.json --wait --out charts`,
		Args: one("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runTemplate(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringArrayVar(&o.given, "param", nil, "a parameter, `NAME=TEXT` or NAME:=JSON; may be repeated")
	cmd.Flags().StringVar(&o.file, "params", "", "take parameters from `FILE`, a JSON object; - for standard input")
	cmd.Flags().StringVar(&o.key, "idempotency-key", "", "`KEY` of the run: the same again, within 24 hours, is the same job")
	cmd.Flags().StringVar(&o.wait, "wait", "", "wait for the end of the job, for at most `DURATION` (--wait=30s) if given")
	cmd.Flags().Lookup("wait").NoOptDefVal = untilEnd
	cmd.Flags().StringVar(&o.out, "out", "", "download what the job made to `DIR`; waits")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the job, or with --wait its result, as JSON")
	return cmd
}

func (a *app) runTemplate(ctx context.Context, ref string, o templateRunOptions) error {
	waitFor, err := waitTime(o.wait, o.out != "")
	if err != nil {
		return err
	}
	params, err := a.templateParams(o, nil)
	if err != nil {
		return err
	}
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	j, err := jobs.RunTemplate(ctx, ref, producer.RunRequest{Params: params, IdempotencyKey: o.key})
	if err != nil {
		return err
	}
	if waitFor == 0 {
		if o.json {
			return a.printJSON(j)
		}
		fmt.Fprintln(a.stdout, j.ID)
		return nil
	}
	if !o.json {
		fmt.Fprintf(a.stderr, "job %s\n", j.ID)
	}
	if j, err = a.await(ctx, jobs, j.ID, waitFor); err != nil {
		return err
	}
	return a.finish(ctx, jobs, *j.Result, finishing{out: o.out, json: o.json})
}

// templateParams are those of the file, or else those before, and over them those of flags.
func (a *app) templateParams(o templateRunOptions, before json.RawMessage) (json.RawMessage, error) {
	params := map[string]json.RawMessage{}
	if o.file == "" && len(before) > 0 {
		if err := json.Unmarshal(before, &params); err != nil {
			return nil, fmt.Errorf("the parameters before are no JSON object: %.100s", before)
		}
		if params == nil { // null is none
			params = map[string]json.RawMessage{}
		}
	}
	if o.file != "" {
		text, err := a.read(o.file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &params); err != nil || params == nil {
			return nil, usagef("--params %s: want a JSON object", o.file)
		}
	}
	for _, p := range o.given {
		name, text, ok := strings.Cut(p, "=")
		raw := strings.HasSuffix(name, ":")
		if name = strings.TrimSuffix(name, ":"); !ok || name == "" {
			return nil, usagef("--param %s: want NAME=TEXT, or NAME:=JSON", p)
		}
		value := json.RawMessage(text)
		if !raw {
			value, _ = json.Marshal(text) // a string always has an encoding
		} else if !json.Valid(value) {
			return nil, usagef("--param %s: %s is not JSON", p, text)
		}
		params[name] = value
	}
	return json.Marshal(params)
}
