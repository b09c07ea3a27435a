//go:build ignore

// Command precompile makes a build of runsc load its seccomp filters instead of compiling
// them at every start of a sandbox and of a gofer. gVisor's own releases do the same when
// Bazel builds them; its Go module comes with an empty table, which this fills in the vendor
// directory where it stands.
//
// The programs are gVisor's own, made by its own compiler; which of them is loaded is
// decided by gVisor, by the options at run time, and for others it compiles as before.
package main

import (
	"fmt"
	"go/format"
	"os"
	"strings"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	sentry "gvisor.dev/gvisor/runsc/boot/filter/config"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

func main() {
	err := fill("vendor/gvisor.dev/gvisor/runsc/boot/filter/filter_precompiled.go", sentry.PrecompiledPrograms, ours)
	if err == nil {
		err = fill("vendor/gvisor.dev/gvisor/runsc/fsgofer/filter/filter_precompiled.go", gofer.PrecompiledPrograms, func(string) bool { return true })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "precompile:", err)
		os.Exit(1)
	}
}

// ours reports whether the options that a sentry's filter is for may be our sandboxes'.
func ours(name string) bool {
	for _, option := range []string{`Platform="systrap"`, "HostNetwork=false", "NVProxy=false", "TPUProxy=false", "RDMAProxy=false"} {
		if !strings.Contains(name, option) {
			return false
		}
	}
	return true
}

// fill puts the programs into the table of a package.
func fill(file string, compile func() ([]precompiledseccomp.Program, error), wanted func(name string) bool) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const empty = "programs := make(map[string]precompiledseccomp.Program)\n"
	if strings.Count(string(source), empty) != 1 {
		return fmt.Errorf("%s has no empty table: has gVisor changed?", file)
	}
	programs, err := compile()
	if err != nil {
		return fmt.Errorf("compile filters for %s: %w", file, err)
	}
	var entries strings.Builder
	for _, p := range programs {
		if wanted(p.Name) {
			fmt.Fprintf(&entries, "\tprograms[%q] = %s\n", p.Name, p.Expr("\t", "precompiledseccomp"))
		}
	}
	if entries.Len() == 0 {
		return fmt.Errorf("no filter for %s is ours: has gVisor changed?", file)
	}
	filled, err := format.Source([]byte(strings.Replace(string(source), empty, empty+entries.String(), 1)))
	if err != nil {
		return fmt.Errorf("fill the table of %s: %w", file, err)
	}
	return os.WriteFile(file, filled, 0o644)
}
