package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/runtimes"
)

func (a *app) runtimesPruneCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove images that earlier versions of the runtimes have left",
		Long: `Remove the images of this machine that have the names of runtimes, and that none of this
build's runtimes uses any more: an upgrade, or "runtimes build --force", leaves the ones before it.
Their root images go with them. What a sandbox uses at the moment stays, as does every image of
another name. Run it once the worker of this machine is of this version. Whoever goes back to an
earlier one has to build or pull its images again.`,
		Example: `  glovebox runtimes prune --dry-run
  glovebox runtimes prune`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return withSetup(a.prune(cmd.Context(), dryRun)) },
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be removed, and remove nothing")
	return cmd
}

func (a *app) prune(ctx context.Context, dryRun bool) error {
	set, err := runtimes.Embedded()
	if err != nil {
		return err
	}
	podman, err := a.podman()
	if err != nil {
		return err
	}
	rootImages, err := a.installed(rootImagesScript)
	if err != nil {
		return err
	}
	old, err := set.Old(ctx, podman)
	if err != nil {
		return err
	}
	if dryRun {
		if len(old) == 0 {
			fmt.Fprintln(a.stdout, "no images of earlier versions")
		}
		for _, o := range old {
			fmt.Fprintf(a.stdout, "would remove  %s, %s\n", o.Name, bytesOf(o.Size))
		}
		return nil
	}
	removed, err := set.Prune(ctx, podman, rootImages, old, a.stdout)
	if err == nil {
		fmt.Fprintf(a.stdout, "%d of %d images of earlier versions are removed\n", removed, len(old))
	}
	return err
}
