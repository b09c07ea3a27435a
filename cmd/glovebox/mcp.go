package main

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/version"
	"github.com/glovebox-run/glovebox/producer/tools"
)

func (a *app) mcpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "Give a model tools, by the Model Context Protocol",
		Long: `Speak the Model Context Protocol on standard input and output, for programs that start
such a server: a model there gets the tools run_code, get_job, read_file, write_file, list_sessions and
end_session. It ends
with its standard input. Programs that can reach the API itself give its URL with /mcp
behind it, and a token, instead.`,
		Example: `  claude mcp add glovebox -- glovebox mcp
  npx @modelcontextprotocol/inspector --cli glovebox mcp --method tools/list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serveMCP(cmd.Context()) },
	}
}

// serveMCP answers until standard input ends. Nothing but messages goes to standard output.
func (a *app) serveMCP(ctx context.Context) error {
	api, err := a.jobs()
	if err != nil {
		return err
	}
	defer api.Close()
	languages, err := tools.Languages(ctx, api)
	if err != nil {
		return err
	}
	server := tools.Server(tools.ServerConfig{
		Caller: tools.Caller{Glovebox: api, MaxWait: tools.MaxWait, Remote: true}, Languages: languages, Version: version.Read().Version, Until: ctx,
	})
	err = server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(a.stdin), Writer: keepOpen{a.stdout}})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// keepOpen is a writer that others write to, too.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
