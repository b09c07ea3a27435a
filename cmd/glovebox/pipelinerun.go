package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/glovebox-run/glovebox/internal/pipelines"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

type pipelineRunOptions struct {
	templateRunOptions
	template string
	metadata []string
}

func (a *app) pipelineRunCommand() *cobra.Command {
	var o pipelineRunOptions
	cmd := &cobra.Command{
		Use:   "run FILE|-",
		Short: "Run a pipeline",
		Long: `Run a pipeline: the one in a file of YAML or JSON, or with --template one that is stored. It
prints the run's id; with --wait it says how each step ends, and then what the run's outputs
point at. --param NAME=TEXT gives a parameter as text, --param NAME:=JSON as JSON. The exit
code is 0 only for a run that succeeded; Ctrl-C leaves it running.`,
		Example: `  glovebox pipeline run report.yaml --wait
  glovebox pipeline run report.yaml --param 'cities:=["Oslo","Bergen"]' --wait --out charts
  glovebox pipeline run --template report@3 --idempotency-key push-1234`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (o.template != "") {
				return usagef("want a FILE with a pipeline, or --template NAME of one that is stored")
			}
			r := job.PipelineRequest{Template: o.template, IdempotencyKey: o.key}
			var err error
			if len(args) == 1 {
				if r.Pipeline, err = a.readPipeline(args[0]); err != nil {
					return err
				}
			}
			if r.Metadata, err = pairs("--metadata", o.metadata); err != nil {
				return err
			}
			if r.Params, err = a.templateParams(o.templateRunOptions, nil); err != nil {
				return err
			}
			return a.runPipeline(cmd.Context(), o.templateRunOptions, func(runs *producer.Client) (job.Run, error) {
				return runs.StartRun(cmd.Context(), r)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.template, "template", "", "run the stored template `NAME`, or NAME@3, instead of a file")
	f.StringArrayVar(&o.given, "param", nil, "a parameter, `NAME=TEXT` or NAME:=JSON; may be repeated")
	f.StringVar(&o.file, "params", "", "take parameters from `FILE`, a JSON object; - for standard input")
	f.StringArrayVar(&o.metadata, "metadata", nil, "metadata of the run: `KEY=VALUE`; may be repeated")
	addRunFlags(f, &o.templateRunOptions)
	return cmd
}

// addRunFlags adds the flags of what starts a run.
func addRunFlags(f *pflag.FlagSet, o *templateRunOptions) {
	f.StringVar(&o.key, "idempotency-key", "", "`KEY` of the run: the same again, within 24 hours, is the same run")
	f.StringVar(&o.wait, "wait", "", "wait for the end of the run, for at most `DURATION` (--wait=30s) if given")
	f.Lookup("wait").NoOptDefVal = untilEnd
	f.StringVar(&o.out, "out", "", "download the files that the run's outputs point at to `DIR`; waits")
	f.BoolVar(&o.json, "json", false, "print the run as JSON")
}

func (a *app) pipelineRerunCommand() *cobra.Command {
	var o templateRunOptions
	var r job.RerunRequest
	cmd := &cobra.Command{
		Use:   "rerun ID",
		Short: "Run a run again from where it failed",
		Long: `Run a run again that has ended, with the same pipeline and parameters, as a new run: steps that
have succeeded are taken over with what their jobs have left; the others run again, and
so does all that follows. --from STEP runs that step again, too.`,
		Example: `  glovebox pipeline rerun default-r-abc… --wait
  glovebox pipeline rerun default-r-abc… --from chart --wait --out charts`,
		Args: one("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.IdempotencyKey = o.key
			return a.runPipeline(cmd.Context(), o, func(runs *producer.Client) (job.Run, error) {
				return runs.RerunRun(cmd.Context(), args[0], r)
			})
		},
	}
	cmd.Flags().StringVar(&r.From, "from", "", "`STEP` to run again though it has succeeded")
	addRunFlags(cmd.Flags(), &o)
	return cmd
}

// runPipeline starts a run, and waits for it if that is asked for.
func (a *app) runPipeline(ctx context.Context, o templateRunOptions, start func(*producer.Client) (job.Run, error)) error {
	most, err := waitTime(o.wait, o.out != "")
	if err != nil {
		return err
	}
	return a.withJobs(func(runs *producer.Client) error {
		run, err := start(runs)
		if err != nil {
			return err
		}
		if most == 0 {
			if o.json {
				return a.printJSON(run)
			}
			fmt.Fprintln(a.stdout, plain(run.ID))
			return nil
		}
		if !o.json {
			fmt.Fprintf(a.stderr, "run %s\n", plain(run.ID))
		}
		if run, err = a.followRun(ctx, runs, run, most, !o.json); err != nil {
			return err
		}
		if o.json {
			err = a.printJSON(run)
		} else {
			showRun(a.stdout, run)
		}
		if err == nil && o.out != "" {
			err = a.downloadOutputs(ctx, runs, run, o.out)
		}
		if err == nil && run.Status != job.Succeeded {
			return silent(exitFailed)
		}
		return err
	})
}

// lookAtRun is how often a run is looked at whose steps are told of as they end.
const lookAtRun = time.Second

// followRun waits for the end of a run, and tells of each step as it ends.
func (a *app) followRun(ctx context.Context, runs *producer.Client, run job.Run, most time.Duration, tell bool) (job.Run, error) {
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	told := map[string]string{}
	for {
		for _, name := range slices.Sorted(maps.Keys(run.Steps)) {
			line := stepLine(name, run.Steps[name])
			if tell && run.Steps[name].Status != string(pipelines.Waiting) && told[name] != line {
				fmt.Fprintln(a.stderr, line)
				told[name] = line
			}
		}
		if run.Status.Final() {
			return run, nil
		}
		looking, stop := context.WithTimeout(waiting, lookAtRun)
		ended, err := runs.WaitRun(looking, run.ID)
		over := looking.Err() != nil
		stop()
		if err != nil && over && waiting.Err() == nil {
			ended, err = runs.GetRun(waiting, run.ID)
		}
		switch {
		case err != nil && ctx.Err() == nil && waiting.Err() != nil:
			fmt.Fprintf(a.stderr, "the run goes on: it has not ended within %s: glovebox pipeline show %s\n", most, plain(run.ID))
			return run, silent(exitGoesOn)
		case err != nil && ctx.Err() != nil:
			fmt.Fprintf(a.stderr, "the run goes on: glovebox pipeline show %s\n", plain(run.ID))
			return run, silent(exitInterrupted)
		case err != nil:
			return run, err
		}
		run = ended
	}
}

func stepLine(name string, s job.RunStep) string {
	line := "  " + plain(name) + "  " + plain(s.Status)
	if s.Count > 1 {
		line += fmt.Sprintf(" %d/%d", s.Succeeded, s.Count)
	}
	if s.Failed > 0 && s.Count > 1 {
		line += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.KeptFrom != "" {
		line += ", kept"
	}
	if s.Why != "" {
		line += "  (" + plain(s.Why) + ")"
	}
	return line
}

// downloadOutputs writes the artifacts that the outputs of a run point at to dir: each output's to a directory of its
// name, and those of a fan-out to one of their index in there.
func (a *app) downloadOutputs(ctx context.Context, files producer.Files, run job.Run, dir string) error {
	outputs := map[string]any{}
	if len(run.Outputs) > 0 {
		if err := json.Unmarshal(run.Outputs, &outputs); err != nil {
			return fmt.Errorf("read outputs of run %s: %w", plain(run.ID), err)
		}
	}
	jobs := map[string]bool{}
	for _, step := range run.Steps {
		for _, j := range step.Jobs {
			jobs[j.ID] = j.ID != ""
		}
	}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if !job.ValidTemplateName(name) {
			continue // it would be a path
		}
		if err := a.downloadOutput(ctx, files, jobs, outputs[name], filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// downloadOutput writes the artifacts in an output. What a job wrote into its outputs may look like one: the api has given a URL to
// each artifact, and it is of a job of the run.
func (a *app) downloadOutput(ctx context.Context, files producer.Files, jobs map[string]bool, output any, dir string) error {
	switch v := output.(type) {
	case []any:
		for i, one := range v {
			if err := a.downloadOutput(ctx, files, jobs, one, filepath.Join(dir, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case map[string]any:
		ref, isArtifact := v["artifact"].(string)
		id, name, whole := strings.Cut(ref, "/")
		_, linked := v["url"].(string)
		if !isArtifact || !whole || !linked || !jobs[id] {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if err := a.downloadOutput(ctx, files, jobs, v[key], dir); err != nil {
					return err
				}
			}
			return nil
		}
		f := job.Artifact{Name: name}
		f.SHA256, _ = v["sha256"].(string)
		if size, ok := v["size"].(float64); ok {
			f.Size = int64(size)
		}
		if err := a.download(ctx, files, job.Result{ID: id, Artifacts: []job.Artifact{f}}, dir); err != nil {
			return err
		}
		fmt.Fprintf(a.stderr, "saved as %s\n", plain(saved(dir, f)))
	}
	return nil
}
