package process_test

import (
	"os/exec"
	"testing"

	"github.com/glovebox-run/glovebox/runtimes"
)

// TestRuntimes: those are there whose hello runs here, with the host's version, without what only an image has.
func TestRuntimes(t *testing.T) {
	t.Parallel()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	here := open(t).Runtimes(t.Context(), set)
	t.Logf("%v", here.Names())
	for name, command := range map[string]string{"bash": "/usr/bin/bash", "python": "/usr/bin/python3", "c": "/usr/bin/gcc", "node": "/usr/bin/node"} {
		_, err := exec.LookPath(command)
		r, there := here.Lookup(name)
		if there != (err == nil) {
			t.Errorf("%s: it is offered: %v; the host has it: %v", name, there, err == nil)
		}
		if there && (r.Image() != "" || r.Version == "" || r.Preload != nil || r.Session != nil) {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	if _, ok := here.Lookup("py"); !ok {
		t.Error("an alias is lost")
	}
	if got, ok := here.Lookup("java"); ok { // its compile step is a script of the image
		t.Errorf("java is offered: %+v", got)
	}
}
