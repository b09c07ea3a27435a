package kattis

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/runtimes"
)

// TestCompilers: several sources are compiled and run with the flags that their runtime has for one, except for those that only make a compiler faster.
func TestCompilers(t *testing.T) {
	t.Parallel()
	set, err := runtimes.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	faster := []string{"-fuse-ld=gold", "-fno-canonical-system-headers"}
	for code, c := range compilers {
		r, ok := set.Lookup(RuntimesFor(code)[0])
		if !ok {
			t.Fatalf("%s: no runtime %s", code, RuntimesFor(code)[0])
		}
		of := func(command []string) string {
			command = slices.DeleteFunc(slices.Clone(command), func(arg string) bool { return slices.Contains(faster, arg) })
			return strings.ReplaceAll(strings.Join(command, " "), "{file}", "%s")
		}
		if want := of(r.Compile); c.Compile != want {
			t.Errorf("%s: compiles with\n%s, want as its runtime\n%s", code, c.Compile, want)
		}
		if want := of(r.Run) + ` "$@"`; c.Run != want {
			t.Errorf("%s: runs with\n%s, want as its runtime\n%s", code, c.Run, want)
		}
	}
}
