package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// config has the fields of a bundle's config.json that are read here.
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

// steeringAnnotations are the prefixes of the annotations that steer runsc: it can be made to open
// a file of the host, to drop its own filter, to join another sandbox. Podman 4 copies the
// annotations of an image (CVE-2026-94603 is of that kind). The worker refuses such images; this
// is a second line, should one get past it.
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

// bundleOf returns the directory that `create` is told: its --bundle, or the working directory.
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
