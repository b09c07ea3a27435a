package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
)

// objects lists the keys in the bucket, unfinished uploads included.
func (g *glovebox) objects() []string {
	g.tb.Helper()
	var keys []string
	root := filepath.Join(g.s3.Dir, bucket)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it is being swept
		}
		if err != nil {
			return err
		}
		key, err := filepath.Rel(root, path)
		// An unfinished upload is a directory, be there parts in it or not.
		upload := d.IsDir() && strings.HasPrefix(key, ".sgwtmp/multipart/") && strings.Count(key, "/") == 3
		if (!d.IsDir() || upload) && !artifacts.IsCanary(key) { // EnsureBucket's own
			keys = append(keys, key)
		}
		return err
	})
	if err != nil {
		g.tb.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// containers lists what this installation has in Podman, except for warm sandboxes and the
// containers that wait for another, as long as there are no more of them than may be.
func (g *glovebox) containers() []string {
	g.tb.Helper()
	var names, warm, spare []string
	for _, c := range g.ours() {
		switch {
		case c.Labels["run.glovebox.job"] != "warm":
			names = append(names, c.Names...)
		case c.ended():
			spare = append(spare, c.Names...)
		default:
			warm = append(warm, c.Names...)
		}
	}
	if len(warm) > g.mostWarm {
		names = append(names, warm...)
	}
	if len(spare) > 2*g.mostWarm {
		names = append(names, spare...)
	}
	return names
}

// alive lists those that have a sandbox.
func (g *glovebox) alive() []container {
	return slices.DeleteFunc(g.ours(), container.ended)
}

// ours lists all that this installation has in Podman.
func (g *glovebox) ours() []container {
	return g.inPodman("&filters=" + escape(fmt.Sprintf(`{"label":["run.glovebox.instance=%s"]}`, g.instance)))
}

type container struct {
	ID     string `json:"Id"`
	Names  []string
	Image  string // its name
	State  string
	Labels map[string]string
}

// ended reports whether its sandbox has: Podman calls it stopped until it has cleaned up.
func (c container) ended() bool { return c.State == "stopped" || c.State == "exited" }

// inPodman lists the containers of the Podman user, those of other tests too.
func (g *glovebox) inPodman(query string) []container {
	g.tb.Helper()
	client := &http.Client{Transport: unixTransport(g.podman.Socket)}
	defer client.CloseIdleConnections()
	var list []container
	gbtest.Eventually(g.tb, "podman lists its containers", func() bool { // one that goes meanwhile fails the whole list of older versions (its issue 23492)
		req, err := http.NewRequestWithContext(g.tb.Context(), http.MethodGet, "http://podman/v4.0.0/libpod/containers/json?all=true"+query, http.NoBody)
		if err != nil {
			g.tb.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			g.tb.Fatal(err)
		}
		defer res.Body.Close()
		list = nil
		return res.StatusCode == http.StatusOK && json.NewDecoder(res.Body).Decode(&list) == nil
	})
	return list
}

// nothingLeft waits until Podman has no container of ours and S3 nothing but the
// winner's objects of these jobs.
func (g *glovebox) nothingLeft(results ...job.Result) {
	g.tb.Helper()
	want := map[string]bool{}
	for _, r := range results {
		for _, a := range r.Artifacts {
			want[a.Name] = true
		}
	}
	var problem string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		problem = ""
		if c := g.containers(); len(c) > 0 {
			problem = fmt.Sprintf("containers are left: %v", c)
			continue
		}
		epochs := map[string]bool{}
		for _, key := range g.objects() {
			parts := strings.Split(key, "/") // tenants/default/jobs/<id>/<epoch>/…
			if len(parts) < 6 || parts[0] != "tenants" {
				problem += fmt.Sprintf("an object that no record points to: %s\n", key)
				continue
			}
			epochs[parts[3]+"/"+parts[4]] = true
			if name := parts[len(parts)-1]; name != "result.json" && parts[5] != "artifacts" {
				problem += fmt.Sprintf("an object that no record points to: %s\n", key)
			}
		}
		if len(epochs) != len(results) {
			problem += fmt.Sprintf("objects of epochs %v for %d results\n", epochs, len(results))
		}
		if problem == "" {
			return
		}
	}
	g.tb.Error(problem)
}
