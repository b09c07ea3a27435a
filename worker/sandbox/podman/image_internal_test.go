package podman

import (
	"runtime"
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/inspect"
)

// TestRefusal knows what an image may say of itself, each word that Podman, gVisor,
// crun, Kubernetes' runtimes or hooks read among them.
func TestRefusal(t *testing.T) {
	t.Parallel()
	const pinned = "localhost/a@sha256:00"
	good := func() *types.ImageInspectReport {
		return &types.ImageInspectReport{ImageData: &inspect.ImageData{
			Os: "linux", Architecture: runtime.GOARCH, RepoDigests: []string{"localhost/b@sha256:00", pinned},
			Annotations: map[string]string{
				"org.opencontainers.image.base.name": "x", "org.opencontainers.image.created": "x", "com.docker.official-images.bashbrew.arch": "amd64",
			},
			Labels: map[string]string{"io.buildah.version": "1", "org.opencontainers.image.source": "x", "maintainer": "x", "io.k8s.description": "x"},
		}}
	}
	for _, name := range []string{pinned, "localhost/a:1", "a"} {
		if problem := refusal(name, good()); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
	}
	refused := func(what, name string, change func(*inspect.ImageData)) {
		t.Helper()
		r := good()
		change(r.ImageData)
		if problem := refusal(name, r); !strings.Contains(problem, what) {
			t.Errorf("%s: got %q", what, problem)
		}
	}
	for _, key := range []string{
		"io.podman.annotations.cid-file", "io.podman.annotations.checkpoint.runtime.name", "dev.gvisor.tar.rootfs.upper", "dev.gvisor.spec.rootfs.source",
		"dev.gvisor.flag.network", "dev.gvisor.internal.nvproxy", "io.kubernetes.cri.container-type", "io.kubernetes.cri-o.TTY", "run.oci.keep_original_groups",
		"org.systemd.property.DeviceAllow", "io.container.manager", "io.katacontainers.config.hypervisor.path", "org.opencontainers.imagex", "x", "",
	} {
		refused(key, "a", func(d *inspect.ImageData) { d.Annotations[key] = "x" })
	}
	for _, key := range []string{"io.containers.capabilities", "io.containers.seccomp.profile", "io.containers.autoupdate", "io.podman.x", "PODMAN_SYSTEMD_UNIT", "run.glovebox.worker"} {
		refused(key, "a", func(d *inspect.ImageData) { d.Labels[key] = "x" })
	}
	refused("wasi/wasm", "a", func(d *inspect.ImageData) { d.Os, d.Architecture = "wasi", "wasm" })
	refused("linux/other", "a", func(d *inspect.ImageData) { d.Architecture = "other" })
	refused("another", pinned, func(d *inspect.ImageData) { d.RepoDigests = d.RepoDigests[:1] })
	refused("another", pinned, func(d *inspect.ImageData) { d.RepoDigests = nil })
}
