package runtimes

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestListBesideBuild: Podman lists no images while it comes to one whose manifest a build has not written yet. It is asked again.
func TestListBesideBuild(t *testing.T) {
	gbtest.Require(t, "podman")
	t.Parallel()
	dir := t.TempDir() // Podman's user, who this is, owns all of a store that has no layers
	store := []string{defaultPodman[0], "--root", dir + "/root", "--runroot", dir + "/run", "--storage-driver", "vfs"}
	cmd := exec.CommandContext(t.Context(), store[0], append(store[1:], "import", "--quiet", "-", "localhost/glovebox/listed:1")...)
	cmd.Stdin = strings.NewReader(strings.Repeat("\x00", 1024)) // an archive of nothing, tar(5)
	id, err := run(cmd)
	if err != nil {
		t.Fatal(err)
	}
	id = strings.TrimPrefix(strings.TrimSpace(id), "sha256:")
	manifest := dir + "/root/vfs-images/" + id + "/manifest"
	const podman = `"$@" && exit; status=$?; mv "$MANIFEST.late" "$MANIFEST"; exit $status` // the build goes on once a list has failed
	late := append([]string{"env", "MANIFEST=" + manifest, "sh", "-c", podman, "sh"}, store...)
	for name, list := range map[string]func() (string, error){
		"images": func() (string, error) {
			images, err := listImages(t.Context(), late)
			if err != nil || len(images) != 1 {
				return "", err
			}
			return images[0].ID, nil
		},
		"built": func() (string, error) {
			built, err := Set{}.Built(t.Context(), late)
			if err != nil || !built["localhost/glovebox/listed:1"] {
				return "", err
			}
			return id, nil
		},
	} {
		if err := os.Rename(manifest, manifest+".late"); err != nil {
			t.Fatal(err)
		}
		if got, err := list(); err != nil || got != id {
			t.Errorf("%s: got %q, %v, want the image %s", name, got, err, id)
		}
		if _, err := os.Stat(manifest); err != nil {
			t.Fatalf("%s: no list failed: the test shows nothing", name)
		}
	}
}
