package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long:  `Print the version of this program, the commit it was built from, and the Go version.`,
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if asJSON {
				return a.printJSON(b)
			}
			fmt.Fprintf(a.stdout, "glovebox %s\n", b.Version)
			if b.Commit != "" {
				fmt.Fprintf(a.stdout, "commit   %s\n", b.Commit)
			}
			fmt.Fprintf(a.stdout, "go       %s %s\n", b.Go, b.Platform)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// build is what the linker noted.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	b := build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", and changes"
		}
	}
	if b.Commit != "" {
		b.Commit += changed
	}
	return b
}

func version() string { return readBuild().Version }
