package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/dev"
	"github.com/glovebox-run/glovebox/cmd/glovebox/internal/doctor"
	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/runtimes"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	var isolation string
	var facade doctor.Facade
	cmd := &cobra.Command{
		Use:   "doctor [--facade NAME URL]",
		Short: "Look for what keeps Glovebox from working, or from working safely",
		Long: `Look at this machine for what keeps Glovebox from working, or from working safely, and
say what to do about it, and what programs are isolated by. Each line is "ok", "warning" or "problem"; exit code 1 says
that there is a problem. It changes nothing, and starts and removes one sandbox.

Redis and S3 are looked at where GLOVEBOX_REDIS_URL and the GLOVEBOX_S3_… variables are
set, as for the api and the worker; the API where the other commands would find it; the
snapshots of this machine's worker at GLOVEBOX_METRICS_ADDR, by default dev's.

With --facade it looks at nothing but the server at URL, a façade of Glovebox's or the
original: whether it lists languages, and what it makes of a hello, a compile error and
an endless loop; with e2b, which is for façades only, whether a sandbox keeps its state,
too. URL is what the server's clients are told. Nothing of it is Glovebox's
own, so GLOVEBOX_TOKEN is not sent.`,
		Example: `  glovebox doctor
  glovebox doctor --facade jobe https://glovebox.example.com/jobe
  GLOVEBOX_FACADE_TOKEN=… glovebox doctor --facade judge0 http://localhost:2358
  glovebox doctor --json | jq '.[] | select(.level != "ok")'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case facade.Name == "" && len(args) > 0:
				return usagef("%s is for --facade", args[0])
			case facade.Name == "":
				return a.examine(cmd.Context(), isolation, asJSON)
			case len(args) == 0:
				return usagef("--facade %s: the server's URL is missing", facade.Name)
			}
			facade.URL = args[0]
			return a.examineFacade(cmd.Context(), facade, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&isolation, "isolation", "", "what programs are to be isolated by here: gvisor, or process; by default what the dev here isolates by")
	cmd.Flags().StringVar(&facade.Name, "facade", "", "look at a server that speaks another's contract: `jobe`, judge0, piston or e2b")
	cmd.Flags().StringVar(&facade.Token, "token", "", "`token` for that server; other users of this machine see what is given here")
	setTwin(cmd, "token", "GLOVEBOX_FACADE_TOKEN")
	return cmd
}

func (a *app) examine(ctx context.Context, isolation string, asJSON bool) error {
	c, err := a.doctorConfig()
	if err != nil {
		return err
	}
	if c.Isolation, err = a.isolation(isolation); err != nil {
		return err
	}
	return a.tell(doctor.Run(ctx, c), asJSON)
}

func (a *app) examineFacade(ctx context.Context, f doctor.Facade, asJSON bool) error {
	if u, err := url.Parse(f.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usagef("%.100q is not the URL of a server: want http or https", f.URL)
	}
	findings, err := doctor.RunFacade(ctx, f)
	if err != nil {
		return usagef("--facade: %v", err)
	}
	return a.tell(findings, asJSON)
}

// tell prints findings. It fails if there is a problem among them.
func (a *app) tell(findings []doctor.Finding, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(findings); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			fmt.Fprintf(a.stdout, "%-8s %-16s %s\n", f.Level, f.Name, plain(f.Text))
			if f.Fix != "" {
				fmt.Fprintf(a.stdout, "%-8s %-16s → %s\n", "", "", f.Fix)
			}
		}
	}
	if !doctor.Healthy(findings) {
		return silent(exitFailed)
	}
	return nil
}

func (a *app) doctorConfig() (doctor.Config, error) {
	settings, err := a.settings()
	if err != nil {
		return doctor.Config{}, err
	}
	self, err := user.Current()
	if err != nil {
		return doctor.Config{}, fmt.Errorf("find out who we are: %w", err)
	}
	c := doctor.Config{
		ToolsDir: dev.ToolsDir, Podman: podmanCommand(settings), PodmanUser: self.Username, Images: map[string]string{},
		URL: settings.URL, Token: settings.Token,
	}
	for _, dir := range []string{"/etc/systemd/system", "/usr/lib/systemd/system"} { // worker-host.sh's, the package's
		if _, err := os.Stat(filepath.Join(dir, "glovebox-podman.service")); err == nil {
			c.WorkerHost = true
		}
	}
	if self.Uid == "0" {
		if c.PodmanUser = settings.PodmanUser; c.PodmanUser == "" {
			c.PodmanUser = defaultPodmanUser
		}
	}
	set, err := runtimes.Embedded()
	if err != nil {
		return c, err
	}
	for _, r := range set.List() {
		c.Images[r.Name] = r.Image()
	}
	for _, r := range set.Core() {
		c.Core = append(c.Core, r.Name)
	}
	c.OldImages = func(ctx context.Context) (names []string, err error) {
		old, err := set.Old(ctx, c.Podman)
		for _, o := range old {
			names = append(names, o.Name)
		}
		return names, err
	}
	env := config.NewReader(a.getenv)
	if a.getenv("GLOVEBOX_REDIS_URL")+a.getenv("GLOVEBOX_REDIS_URL_FILE") != "" {
		c.Redis = env.Redis()
	}
	if a.getenv("GLOVEBOX_S3_BUCKET") != "" {
		c.S3 = env.S3()
	}
	c.PauseMB, _ = env.Pause()
	c.WorkerMetrics = env.String("GLOVEBOX_METRICS_ADDR", dev.WorkerMetricsAddr)
	if err := env.Err(); err != nil {
		return c, &failure{code: exitUsage, err: err}
	}
	found := config.NewReader(a.getenv)
	c.Warnings = found.Insecure(c.Redis.URL, c.S3)
	c.Warnings = append(c.Warnings, found.AnonymousFacades()...)
	if err := found.Err(); err != nil { // what the api and workers refuse
		c.Warnings = append(c.Warnings, strings.Split(err.Error(), "\n")...)
	}
	c.Faults = a.workerFaults()
	return c, nil
}

// workerFaults are what a worker would refuse of the settings, if they are a worker's: only its file has these two. What its unit sets
// is left out of that file.
func (a *app) workerFaults() []string {
	if a.getenv("GLOVEBOX_SIGNING_KEY")+a.getenv("GLOVEBOX_REQUIRE_CGROUPS") == "" {
		return nil
	}
	unit := map[string]string{
		"GLOVEBOX_PODMAN_SOCKET": "/run/glovebox-podman.sock", "GLOVEBOX_AGENT": "/usr/local/lib/glovebox/glovebox-agent", "GLOVEBOX_INSTANCE": "prod",
	}
	_, err := config.ReadWorker(func(name string) string { return cmp.Or(a.getenv(name), unit[name]) })
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}
