package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// config is what is read here of a bundle's config.json.
type config struct {
	raw         []byte
	Annotations map[string]string
	Mounts      []mount
	Root        struct{ Readonly bool }
	Process     struct{ Args []string }
	Linux       struct {
		Resources struct {
			Memory struct{ Limit int64 }
			CPU    struct {
				Quota  int64
				Period uint64
			}
			Pids struct{ Limit int64 }
		}
	}
}

// steeringAnnotations are the prefixes of the annotations by which runsc lets itself be steered:
// open a file of the host, drop its own filter, join another sandbox. Podman 4 copies those of an
// image (CVE-2026-94603 is of that kind); the worker refuses such images, and this is
// for the day on which one gets past it.
var steeringAnnotations = []string{"dev.gvisor.", "io.kubernetes.cri.", "io.kubernetes.cri-o.ContainerType", "io.kubernetes.cri-o.SandboxID"}

// readConfig reads and checks the configuration of a sandbox that is to be created.
func readConfig(bundle string) (config, error) {
	b, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		return config{}, fmt.Errorf("read configuration: %w", err)
	}
	c := config{raw: b}
	if err := json.Unmarshal(b, &c); err != nil {
		return config{}, fmt.Errorf("read configuration: %w", err)
	}
	for key := range c.Annotations {
		for _, prefix := range steeringAnnotations {
			if strings.HasPrefix(key, prefix) {
				return config{}, fmt.Errorf("refuse annotation %q: nothing but our own flags steers runsc", key)
			}
		}
	}
	return c, nil
}

// bundleOf is the directory that `create` is told of: its --bundle, or where it stands.
func bundleOf(rest []string) string {
	for i, arg := range rest {
		name, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || name != "bundle" && name != "b":
		case inline:
			return value
		case i+1 < len(rest):
			return rest[i+1]
		}
	}
	return "."
}
