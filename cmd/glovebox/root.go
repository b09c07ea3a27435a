package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/version"
)

// app is what every command is given.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         config.Getenv
	url            string // --url
	entered        bool   // the command line was understood
	token          string // the variable that the token was looked for in
}

// run is the program. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, getenv: os.Getenv}
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.rootCommand() //nolint:contextcheck // cobra hands it to the command that runs
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return a.report(ctx, root.ExecuteContext(ctx))
}

func (a *app) rootCommand() *cobra.Command {
	build := version.Read()
	root := &cobra.Command{
		Use:   "glovebox",
		Short: "Run untrusted code in gVisor sandboxes, from a queue",
		Long: `Glovebox runs untrusted code from a queue in gVisor sandboxes, stores the files and
charts it makes in S3, and posts a signed result to your webhook.

On one machine, "glovebox dev" runs all of it; "glovebox submit" in another terminal
runs a job.

Settings are looked for in this order: a flag, the environment variable that the
flag's help names, ./.glovebox/env (which dev writes; GLOVEBOX_DATA names another
directory), ~/.config/glovebox/env. Secrets are never flags.

Exit codes:
  0    success; with "submit --wait": the job succeeded
  1    with "submit --wait": the job failed; else: it could not be done
  2    wrong usage, or a job that is not valid
  3    Glovebox is away, refused the token, or failed at the job itself
  4    the job goes on: the time of --wait was up
  130  stopped with Ctrl-C
"glovebox run" has the program's own, or 125.`,
		Example: `  glovebox dev
  glovebox run hello.py
  glovebox submit --wait --out charts chart.py
  glovebox batch submit jobs.jsonl`,
		Version:       build.Version,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.entered = true
			return a.fromEnvironment(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate(build.Text("glovebox"))
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&a.url, "url", "", "`URL` of the API")
	root.AddGroup(
		&cobra.Group{ID: jobGroup, Title: "Jobs:"},
		&cobra.Group{ID: serverGroup, Title: "Servers:"},
		&cobra.Group{ID: machineGroup, Title: "This machine:"},
	)
	for _, c := range []struct {
		group   string
		command *cobra.Command
	}{
		{jobGroup, a.runCommand()},
		{jobGroup, a.submitCommand()},
		{jobGroup, a.getCommand()},
		{jobGroup, a.listCommand()},
		{jobGroup, a.batchCommand()},
		{jobGroup, a.gradeCommand()},
		{jobGroup, a.problemCommand()},
		{jobGroup, a.logsCommand()},
		{jobGroup, a.cancelCommand()},
		{jobGroup, a.inputCommand()},
		{jobGroup, a.removeCommand()},
		{jobGroup, a.templateCommand()},
		{jobGroup, a.pipelineCommand()},
		{jobGroup, a.hookCommand()},
		{jobGroup, a.scheduleCommand()},
		{jobGroup, a.approvalsCommand()},
		{jobGroup, a.secretCommand()},
		{jobGroup, a.sessionCommand()},
		{jobGroup, a.replCommand()},
		{jobGroup, a.receiveCommand()},
		{jobGroup, a.usageCommand()},
		{jobGroup, a.webhookCommand()},
		{jobGroup, a.endpointCommand()},
		{jobGroup, a.verifyCommand()},
		{jobGroup, a.toolsCommand()},
		{jobGroup, a.mcpCommand()},
		{serverGroup, a.devCommand()},
		{serverGroup, a.apiCommand()},
		{serverGroup, a.autoscaleCommand()},
		{serverGroup, a.tenantCommand()},
		{serverGroup, a.policyCommand()},
		{serverGroup, a.redisACLCommand()},
		{serverGroup, a.fleetCommand()},
		{serverGroup, a.warmCommand()},
		{serverGroup, a.auditCommand()},
		{serverGroup, a.backupCommand()},
		{serverGroup, a.restoreCommand()},
		{machineGroup, a.runtimesCommand()},
		{machineGroup, a.doctorCommand()},
		{machineGroup, a.versionCommand()},
	} {
		c.command.GroupID = c.group
		root.AddCommand(c.command)
	}
	nameTwins(root)
	return root
}

// The groups that help lists commands in.
const (
	jobGroup     = "jobs"
	serverGroup  = "servers"
	machineGroup = "machine"
)
