// Package toolsdir knows where the programs and scripts lie that Glovebox starts and that no
// package of the distribution has: runsc, glovebox-runtime, the scripts that run Podman; and which
// of the distribution's is its Redis.
package toolsdir

import (
	"os"
	"path/filepath"
)

const (
	// Local is where infra/setup.sh installs them.
	Local = "/usr/local/lib/glovebox"
	// Packaged is where Glovebox's Debian packages do: nothing of a package may be in /usr/local.
	Packaged = "/usr/lib/glovebox"
)

// Path returns Packaged to a program of the Debian packages, and Local to any other.
func Path() string {
	self, err := os.Executable()
	if err != nil {
		return Local // no package has such a program
	}
	return of(self)
}

func of(program string) string {
	if filepath.Dir(program) == "/usr/bin" {
		return Packaged
	}
	return Local
}
