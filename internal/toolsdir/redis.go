package toolsdir

import (
	"fmt"
	"os/exec"
)

// Redis returns the path of this machine's redis-server or, where there is none, of its valkey-server.
func Redis() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("neither redis-server nor valkey-server is installed: %w", exec.ErrNotFound)
}
