package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/tools"
)

func (a *app) toolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List and call the tools for models",
		Long: `List and call the tools that a model can be given: run_code, which runs a program, be
it in a session, get_job, which asks for one that lasts, read_file, write_file,
list_sessions and end_session.
docs/agents.md has the rest.`,
		Example: `  glovebox tools list --format anthropic
  glovebox tools call run_code '{"language": "python", "code": "print(6 * 7)"}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.toolsListCommand(), a.toolsCallCommand())
	return cmd
}

func (a *app) toolsListCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the tools as a model's API takes them",
		Long:  `Print the tools as JSON: what a request to a model's API has as its tools.`,
		Example: `  glovebox tools list
  glovebox tools list --format anthropic`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withJobs(func(api *producer.Client) error {
				languages, err := tools.Languages(cmd.Context(), api)
				if err != nil {
					return err
				}
				list, err := tools.Describe(tools.Tools(languages), tools.Format(format))
				if err != nil {
					return usagef("--format %s is not known; allowed: openai, anthropic, mcp", format)
				}
				return a.printJSON(list)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", string(tools.OpenAI), "`WHOSE` form: openai, anthropic or mcp")
	return cmd
}

func (a *app) toolsCallCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "call NAME [ARGUMENTS|-]",
		Short: "Call a tool",
		Long: `Call a tool with a JSON object of arguments, or with one from standard input (-), and
print what the model would read. The exit code is 1 if that is an error.`,
		Example: `  glovebox tools call run_code '{"language": "python", "code": "print(6 * 7)"}'
  glovebox tools call get_job '{"job_id": "default-abc…"}' --json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			tool, err := tools.Find(args[0])
			if err != nil {
				return usagef("%s: %v", args[0], err)
			}
			var arguments []byte
			switch {
			case len(args) == 2 && args[1] == "-":
				if arguments, err = a.read("-"); err != nil {
					return err
				}
			case len(args) == 2:
				arguments = []byte(args[1])
			}
			return a.withJobs(func(api *producer.Client) error {
				answer, err := tool.Call(cmd.Context(), tools.Caller{Glovebox: api, MaxWait: tools.MaxWait, Remote: true}, arguments)
				if err != nil {
					return err
				}
				return a.printAnswer(answer, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with images in base64")
	return cmd
}

// printAnswer prints what a model would read.
func (a *app) printAnswer(answer tools.Answer, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(answer); err != nil {
			return err
		}
	} else {
		out := untrusted(a.stdout)
		for _, c := range answer.Content {
			switch c.Type {
			case "image":
				fmt.Fprintf(out, "[image %s, %s, %d bytes]\n", c.Name, c.MediaType, len(c.Data))
			case "link":
				fmt.Fprintf(out, "[%s: %s]\n", c.Name, c.URL)
			default:
				fmt.Fprint(out, c.Text)
			}
		}
	}
	if answer.IsError {
		return silent(exitFailed)
	}
	return nil
}
