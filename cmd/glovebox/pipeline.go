package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/internal/strictjson"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func (a *app) pipelineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Run jobs that follow from each other",
		Long: `Run jobs that follow from each other: a pipeline is steps that need each other, each a job or
one for each item of a list, which read the files and values that the steps before have
left. docs/pipelines.md shows one.`,
		Example: `  glovebox pipeline graph report.yaml
  glovebox pipeline run report.yaml --param ref=main --wait
  glovebox pipeline show default-r-abc…`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.pipelineRunCommand(), a.pipelineRerunCommand(), a.pipelineListCommand(), a.pipelineShowCommand(), a.pipelineGraphCommand(), a.pipelineCancelCommand(), a.pipelineSetCommand())
	return cmd
}

// readPipeline reads a file in YAML, of which JSON is a part.
func (a *app) readPipeline(path string) (job.Pipeline, error) {
	var p job.Pipeline
	text, err := a.read(path)
	if err != nil {
		return p, err
	}
	if len(text) > 2*job.MaxPipelineBytes {
		return p, usagef("%s has %d bytes: a pipeline has up to %d, as JSON", path, len(text), job.MaxPipelineBytes)
	}
	asJSON, err := strictjson.FromYAML(text, 2*job.MaxPipelineBytes)
	if err != nil {
		return p, usagef("%s: %v", path, err)
	}
	if p, err = strictjson.Decode[job.Pipeline](asJSON, "the pipeline"); err != nil {
		return p, usagef("%s: %v", path, err)
	}
	return p, nil
}

// showRun says how a run stands, its steps, and what its outputs point at.
func showRun(w io.Writer, run job.Run) {
	head := plain(run.ID) + "  " + plain(string(run.Status))
	if run.RerunOf != "" {
		head += "  again after " + plain(run.RerunOf)
	}
	if run.Reason != "" {
		head += " (" + plain(run.Reason) + ")"
	}
	if run.Note != "" {
		head += ": " + plain(run.Note)
	}
	if run.FinishedAt != nil {
		head += fmt.Sprintf("  %.1f s", run.FinishedAt.Sub(run.CreatedAt).Seconds())
	}
	fmt.Fprintln(w, "  "+head)
	for _, name := range slices.Sorted(maps.Keys(run.Steps)) {
		fmt.Fprintln(w, "  "+stepLine(name, run.Steps[name]))
		for _, j := range run.Steps[name].Jobs {
			if j.Status != string(job.Succeeded) {
				fmt.Fprintf(w, "      %s %s %s\n", plain(j.ID), plain(j.Status), plain(j.Why))
			}
		}
	}
	if len(run.Outputs) > 2 {
		fmt.Fprintf(w, "  outputs: %s\n", plain(string(run.Outputs)))
	}
}

func (a *app) pipelineListCommand() *cobra.Command {
	var asJSON bool
	var cursor string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the runs",
		Long:    `List runs of pipelines, the newest first, as long as they are kept. Where there are more than a hundred, the last line says how to go on.`,
		Example: `  glovebox pipeline list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(runs *producer.Client) error {
				page, err := runs.ListRuns(cmd.Context(), cursor)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(page)
				}
				w := a.table()
				fmt.Fprintln(w, "RUN\tSTATUS\tPIPELINE\tCREATED")
				for _, r := range page.Runs {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", plain(r.ID), plain(string(r.Status)), plain(r.Pipeline), r.CreatedAt.Local().Format(time.DateTime))
				}
				return errors.Join(w.Flush(), a.sayMore(page.Next))
			})
		},
	}
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on where another list ended, at its `CURSOR`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) pipelineShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Print a run",
		Long:    `Print a run: where each step stands and why, the jobs that did not succeed, and its outputs.`,
		Example: `  glovebox pipeline show default-r-abc…`,
		Args:    one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(runs *producer.Client) error {
				run, err := runs.GetRun(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(run)
				}
				showRun(a.stdout, run)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) pipelineGraphCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "graph FILE|ID",
		Short: "Draw a pipeline or a run",
		Long: `Draw a pipeline in a file, after checking it, or a run and where its steps stand: as text, as
a flowchart of Mermaid, or as a digraph of Graphviz.`,
		Example: `  glovebox pipeline graph report.yaml
  glovebox pipeline graph --format mermaid default-r-abc…`,
		Args: one("FILE|ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(pipelines.Formats(), pipelines.Format(format)) {
				return usagef("--format %s: want text, mermaid or dot", format)
			}
			if _, isRun := job.TenantOfRun(args[0]); isRun {
				return a.withJobs(func(runs *producer.Client) error {
					graph, err := runs.GraphRun(cmd.Context(), args[0], format)
					if err == nil {
						_, err = io.WriteString(untrusted(a.stdout), graph)
					}
					return err
				})
			}
			p, err := a.readPipeline(args[0])
			if err != nil {
				return err
			}
			if _, err := pipelines.Parse(p); err != nil {
				return err
			}
			_, err = io.WriteString(a.stdout, pipelines.Graph(p, pipelines.State{}, pipelines.Format(format)))
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "`FORMAT` of the graph: text, mermaid or dot")
	return cmd
}

func (a *app) pipelineCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "cancel ID…",
		Short:   "Cancel runs",
		Long:    `Cancel runs: no job of them is made any more, and those that have not ended are canceled.`,
		Example: `  glovebox pipeline cancel default-r-abc…`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJobs(func(runs *producer.Client) error {
				var errs []error
				for _, id := range args {
					if _, err := runs.CancelRun(cmd.Context(), id); err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", plain(id), err))
					}
				}
				return errors.Join(errs...)
			})
		},
	}
}

func (a *app) pipelineSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME FILE|-",
		Short: "Store a pipeline",
		Long: `Store a pipeline as the template NAME, as its next revision, so that a hook, a schedule or
"run --template" starts it. "glovebox template" lists, shows and deletes it.`,
		Example: `  glovebox pipeline set report report.yaml
  glovebox hook create --sender github --template report --from ref=/body/ref`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.readPipeline(args[1])
			if err != nil {
				return err
			}
			r := producer.TemplateRequest{Params: p.Params}
			p.Params = nil
			r.Pipeline = &p
			return a.withJobs(func(templates *producer.Client) error {
				t, err := templates.SetTemplate(cmd.Context(), args[0], r)
				if err == nil {
					fmt.Fprintln(a.stdout, plain(t.Ref()))
				}
				return err
			})
		},
	}
}
