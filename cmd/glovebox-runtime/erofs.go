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
// gVisor reads by itself (EROFS). Then no process serves it directories of the host, and it has
// no descriptor of one. Without a root image it gets what Podman mounted.

// imageAnnotation has the id of the image of a container that a worker made.
const imageAnnotation = "run.glovebox.image"

// rootSource is the annotation by which runsc is told the root image.
const rootSource = "dev.gvisor.spec.rootfs.source"

const (
	// agentMount is where the worker mounts the agent, as a file. An image is mounted on
	// a directory: there the agent is agentFile.
	agentMount = "/glovebox-agent"
	agentFile  = "agent"
)

// layout is the version of what a root image has beside its image's files: directories to mount
// on, mountPoints. infra/root-images.sh makes them: a change here needs a change there.
const layout = "1"

var mountPoints = []string{"dev", "glovebox-agent", "proc", "sys", "tmp", "work"}

// hasMountPoint reports whether a root image has a directory to mount on, or has a mount that
// contains it.
func hasMountPoint(destination string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(destination, "/"), "/")
	return slices.Contains(mountPoints, top)
}

// podmanFiles are files that Podman mounts in every container. A root image has its own.
var podmanFiles = []string{"/run/.containerenv", "/etc/hostname"}

// mount is a mount of a configuration.
type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

// isBind reports whether a file or directory of the host is mounted.
func (m mount) isBind() bool {
	return m.Type == "bind" || slices.Contains(m.Options, "bind") || slices.Contains(m.Options, "rbind")
}

// rootImageDir returns the directory of root images: beside Podman's store, which a bundle is in.
func rootImageDir(bundle string) string {
	return filepath.Join(bundle, "..", "..", "..", "..", "roots")
}

// isImageID reports whether an annotation's value is an id, and so can be a part of a path.
func isImageID(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}

// useImages makes a sandbox's configuration mount images, if its container's image has a root
// image and nothing else of the host is mounted.
func useImages(bundle string, c config) error {
	id := c.Annotations[imageAnnotation]
	if !isImageID(id) || !c.Root.Readonly {
		return nil
	}
	root := filepath.Join(rootImageDir(bundle), id+"."+layout+".erofs")
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("find root image: %w", err)
	}
	var mounts []mount
	agent := false
	for _, m := range c.Mounts {
		switch {
		case m.isBind() && slices.Contains(podmanFiles, m.Destination):
		case !hasMountPoint(m.Destination):
			return nil
		case !m.isBind():
			mounts = append(mounts, m)
		case m.Destination == agentMount && slices.Equal(c.Process.Args, []string{agentMount}):
			image, err := agentImage(rootImageDir(bundle), m.Source)
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
	annotations := map[string]string{rootSource: root, "dev.gvisor.spec.rootfs.type": "erofs"}
	if path, ok := c.Annotations[pipesAnnotation]; ok { // only with a root image is a worker asked how to start (askHow)
		annotations[pipesAnnotation] = path
	}
	return rewrite(filepath.Join(bundle, "config.json"), c.raw, map[string]any{
		"mounts":      mounts,
		"annotations": annotations,
	})
}

// rewrite replaces fields of a configuration, and the path of the agent by that in its image.
func rewrite(file string, spec []byte, fields map[string]any) error {
	var given struct{ Process json.RawMessage }
	err := json.Unmarshal(spec, &given)
	if err == nil {
		fields["process"], err = withFields(given.Process, map[string]any{"args": []string{agentMount + "/" + agentFile}})
	}
	if err == nil {
		spec, err = withFields(spec, fields)
	}
	if err == nil {
		err = os.WriteFile(file, spec, 0o600)
	}
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", file, err)
	}
	return nil
}

// withFields returns a JSON object with these fields replaced, and all others as they were.
func withFields(object json.RawMessage, fields map[string]any) (json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	for key, value := range fields {
		b, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		all[key] = b
	}
	return json.Marshal(all)
}
