package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/toolsdir"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/runtimes"
)

// podmanScript runs Podman as Glovebox's service does; rootImagesScript makes root images.
// Both are infra/'s.
var (
	podmanScript     = filepath.Join(toolsdir.Path(), "podman.sh")
	rootImagesScript = filepath.Join(toolsdir.Path(), "root-images.sh")
)

func (a *app) runtimesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runtimes",
		Short: "List the languages that jobs can use, and build or move their images",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.runtimesListCommand(), a.runtimesBuildCommand(), a.runtimesPruneCommand(), a.runtimesPushCommand(), a.runtimesPullCommand())
	return cmd
}

type runtimesListOptions struct {
	images, json bool
}

func (a *app) runtimesListCommand() *cobra.Command {
	var o runtimesListOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runtimes that workers offer, or the images of this machine",
		Long: `List the runtimes that the workers of the Glovebox you talk to offer: what
"submit --runtime" takes, and below them the images that "submit --image" does. WARM are sandboxes
that are started already. With --images, list what this build of Glovebox can run, and of the images that this machine has the size,
the digest, and whether there is a root image (ADR 18).`,
		Example: `  glovebox runtimes list
  glovebox runtimes list --images`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.images {
				return a.listImages(cmd.Context(), o.json)
			}
			return a.listRuntimes(cmd.Context(), o.json)
		},
	}
	cmd.Flags().BoolVar(&o.images, "images", false, "show the images of this machine, without asking the API")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	setTwin(cmd, "images", "GLOVEBOX_LIST_IMAGES") // GLOVEBOX_IMAGES is the worker's
	return cmd
}

func (a *app) listRuntimes(ctx context.Context, asJSON bool) error {
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	defer jobs.Close()
	list, err := jobs.Runtimes(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(list)
	}
	images, err := jobs.Images(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 && len(images) == 0 {
		fmt.Fprintln(a.stderr, "no worker has published a runtime yet")
		return nil
	}
	w := a.table()
	fmt.Fprintln(w, "RUNTIME\tVERSION\tALIASES\tWALL\tMEMORY\tWARM\tDIGEST\tIMAGE")
	for _, r := range list {
		l := r.Limits.Filled(r.Limits)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d MiB\t%d\t%s\t%s\n", r.Name, r.Version, strings.Join(r.Aliases, ", "),
			milliseconds(l.WallMS), l.MemoryMB, r.Warm, short(r.ImageDigest), where(r))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(images) > 0 {
		fmt.Fprintln(a.stdout, "\nIMAGES")
	}
	for _, i := range images {
		fmt.Fprintln(a.stdout, i.Image)
	}
	return nil
}

// image is a runtime of this build of Glovebox, and whether this machine can run it.
type image struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Aliases []string `json:"aliases"`
	Image   string   `json:"image"`
	Core    bool     `json:"core"`
	Built   bool     `json:"built"`
	Digest  string   `json:"digest,omitempty"`
	Bytes   int64    `json:"bytes,omitempty"`
	// RootImage is whether sandboxes have its file system as one file.
	RootImage bool `json:"root_image"`
}

func (a *app) images(ctx context.Context) ([]image, error) {
	set, err := runtimes.Embedded()
	if err != nil {
		return nil, err
	}
	podman, err := a.podman()
	if err != nil {
		return nil, err
	}
	stored, err := set.InStore(ctx, podman)
	if err != nil {
		return nil, withSetup(err)
	}
	var list []image
	for _, r := range set.List() {
		i, built := stored[r.Image()]
		list = append(list, image{r.Name, r.Version, r.Aliases, r.Image(), r.Core, built, i.Digest, i.Size, i.Root})
	}
	return list, nil
}

func (a *app) listImages(ctx context.Context, asJSON bool) error {
	list, err := a.images(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(list)
	}
	w := a.table()
	// infra/worker-host.sh reads the first column and the last two.
	fmt.Fprintln(w, "RUNTIME\tVERSION\tCORE\tSIZE\tDIGEST\tROOT\tBUILT\tIMAGE")
	for _, i := range list {
		size, root := "", ""
		if i.Built {
			size, root = bytesOf(i.Bytes), yesNo(i.RootImage)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", i.Name, i.Version, yesNo(i.Core), size, short(i.Digest), root, yesNo(i.Built), i.Image)
	}
	return w.Flush()
}

// short is as much of a digest as tells two apart.
func short(digest string) string {
	hex := strings.TrimPrefix(digest, "sha256:")
	return hex[:min(12, len(hex))]
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func (a *app) runtimesBuildCommand() *cobra.Command {
	var o runtimes.BuildOptions
	cmd := &cobra.Command{
		Use:   "build [NAME…]",
		Short: "Build the images of runtimes, the core unless others are named",
		Long: `Build the images that are missing, from Debian's signed archive: first a base, then
one for each runtime, then of each a root image, the one file that a sandbox has as its
root. Several are built at once (--jobs). No registry is involved. What is there and up to
date is left alone, so a second run takes a second.

Without a name these are the runtimes of the core; "glovebox runtimes list --images" shows
which they are, and the others. A worker offers whatever is built on its machine.

Images belong to the user who runs Podman: as root that is GLOVEBOX_PODMAN_USER, or
"glovebox", which infra/setup.sh and the package glovebox-worker make.`,
		Example: `  glovebox runtimes build
  glovebox runtimes build rust ruby
  glovebox runtimes build --all
  glovebox runtimes build python --force`,
		RunE: func(cmd *cobra.Command, names []string) error {
			set, err := runtimes.Embedded()
			if err != nil {
				return err
			}
			if o.Podman, err = a.podman(); err != nil {
				return err
			}
			if o.RootImages, err = a.installed(rootImagesScript); err != nil {
				return err
			}
			if o.Jobs < 0 {
				return usagef("--jobs %d: want at least 1", o.Jobs)
			}
			if o.All && len(names) > 0 {
				return usagef("--all builds every runtime: name none, or leave it out")
			}
			o.Names, o.Out = names, a.stdout
			for _, name := range names {
				if _, ok := set.Lookup(name); !ok {
					return usagef("there is no runtime %q: choose among %s", name, strings.Join(set.Names(), ", "))
				}
			}
			return withSetup(set.Build(cmd.Context(), o))
		},
	}
	cmd.Flags().BoolVar(&o.All, "all", false, "build every runtime, not only the core")
	cmd.Flags().IntVar(&o.Jobs, "jobs", 0, "build `N` images at once (default: one for each processor, 4 at most)")
	cmd.Flags().BoolVar(&o.Force, "force", false, "build again what is there, to bring in newer packages")
	cmd.Flags().StringVar(&o.Mirror, "mirror", "", "`URL` of the Debian mirror to use; the machine's own by default")
	return cmd
}

// podman is the command that runs Podman as Glovebox's service does.
func (a *app) podman() ([]string, error) { return a.installed(podmanScript) }

// installed is the command of a script of infra/'s.
func (a *app) installed(script string) ([]string, error) {
	c, err := a.settings()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(script); err != nil {
		return nil, &failure{exitFailed, fmt.Errorf("look for what runs Podman: %w", err), setupHint}
	}
	return asPodmanUser(c, script), nil
}

func podmanCommand(c config.Client) []string { return asPodmanUser(c, podmanScript) }

// asPodmanUser is the command of a script that finds out by itself who runs Podman.
func asPodmanUser(c config.Client, script string) []string {
	if c.PodmanUser != "" {
		return []string{"env", "GLOVEBOX_PODMAN_USER=" + c.PodmanUser, script}
	}
	return []string{script}
}

// setupHint is for whatever infra/setup.sh, or the package glovebox-worker, installs.
const setupHint = `run infra/setup.sh (make setup), or apt-get install glovebox-worker; "glovebox doctor" says what is missing`

// withSetup adds what to do when Podman, or what goes with it, isn't installed.
func withSetup(err error) error {
	var missing *exec.Error
	if errors.As(err, &missing) {
		return &failure{exitFailed, err, setupHint}
	}
	return err
}

func (a *app) table() *tabwriter.Writer { return tabwriter.NewWriter(a.stdout, 0, 0, 3, ' ', 0) }

func (a *app) printJSON(v any) error {
	return writeJSON(untrusted(a.stdout), v) // JSON escapes no C1 control characters
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// where is the image that a runtime's jobs run in, or what they are isolated by where there is none.
func where(r producer.Runtime) string {
	if r.Isolation.Or() != job.GVisor {
		return "(none: isolation " + string(r.Isolation) + ")"
	}
	if r.ImageDigest == "" {
		return "(built when a job asks for it)"
	}
	return strings.TrimPrefix(r.Image, "localhost/glovebox/")
}
