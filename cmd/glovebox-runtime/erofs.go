package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A sandbox whose image has a root image gets its root, and its agent, each as one file that
// gVisor reads by itself (EROFS). Then no process serves it directories of the host, nor has it
// a descriptor of one. Without a root image it gets what Podman mounted.

// imageAnnotation names the image of a container that a worker made, by its id.
const imageAnnotation = "run.glovebox.image"

const (
	// agentMount is where the worker mounts the agent, as a file. An image is mounted on
	// a directory: there the agent is agentFile.
	agentMount = "/glovebox-agent"
	agentFile  = "agent"
)

// layout is the version of what a root image has beside its image's files: directories for what is mounted,
// places. infra/root-images.sh makes them. Whoever changes the one has to change the other.
const layout = "1"

var places = []string{"dev", "glovebox-agent", "proc", "sys", "tmp", "work"}

// hasPlace reports whether a root image has a directory for a mount, or what is mounted there has.
func hasPlace(destination string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(destination, "/"), "/")
	return slices.Contains(places, top)
}

// podmans are files that Podman mounts in every container. A root image has its own.
var podmans = []string{"/run/.containerenv", "/etc/hostname"}

// mount is one of a configuration's.
type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

// binds reports whether it is of a file or directory of the host.
func (m mount) binds() bool {
	return m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

// rootsOf is where root images lie: beside Podman's store, whose part a bundle is.
func rootsOf(bundle string) string { return filepath.Join(bundle, "..", "..", "..", "..", "roots") }

// isImageID reports whether an annotation's value is an id, and so no other path's part.
func isImageID(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}

// useImages has a sandbox's configuration name images, where the image of its container has
// a root image and nothing else of the host is to be seen in it.
func useImages(bundle string, c config) error {
	id := c.Annotations[imageAnnotation]
	if !isImageID(id) || !c.Root.Readonly {
		return nil
	}
	root := filepath.Join(rootsOf(bundle), id+"."+layout+".erofs")
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("find root image: %w", err)
	}
	var mounts []mount
	agent := false
	for _, m := range c.Mounts {
		switch {
		case m.binds() && slices.Contains(podmans, m.Destination):
		case !hasPlace(m.Destination):
			return nil
		case !m.binds():
			mounts = append(mounts, m)
		case m.Destination == agentMount && slices.Equal(c.Process.Args, []string{agentMount}):
			image, err := agentImage(rootsOf(bundle), m.Source)
			if err != nil {
				return err
			}
			agent = true
			mounts = append(mounts, mount{Destination: agentMount, Type: "erofs", Source: image, Options: []string{"ro", "nosuid", "nodev"}})
		default:
			return nil
		}
	}
	if !agent {
		return nil
	}
	annotations := map[string]string{"dev.gvisor.spec.rootfs.source": root, "dev.gvisor.spec.rootfs.type": "erofs"}
	return rewrite(filepath.Join(bundle, "config.json"), mounts, annotations)
}

// rewrite replaces the parts of a configuration that useImages decides on.
func rewrite(file string, mounts []mount, annotations map[string]string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	var spec, process map[string]json.RawMessage
	if err := json.Unmarshal(b, &spec); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := json.Unmarshal(spec["process"], &process); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	err = errors.Join(
		put(process, "args", []string{agentMount + "/" + agentFile}), put(spec, "process", process),
		put(spec, "mounts", mounts), put(spec, "annotations", annotations))
	if err != nil {
		return err
	}
	if b, err = json.Marshal(spec); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

func put(object map[string]json.RawMessage, key string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write configuration: %s: %w", key, err)
	}
	object[key] = b
	return nil
}
