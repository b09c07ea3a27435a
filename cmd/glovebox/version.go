package main

import (
	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/version"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `Print the version of this program, the commit that it was built from and the commit's
date, the Go version, and the system that it is for.`,
		Example: `  glovebox version
  glovebox version --json | jq -r .commit`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return version.Read().Write(a.stdout, "glovebox", asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
