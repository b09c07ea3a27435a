package podman_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestCases: every runtime of the core has the version that it claims, and does what its
// testdata says. GLOVEBOX_TEST_RUNTIMES names those to test instead; "all" is all.
func TestCases(t *testing.T) {
	t.Parallel()
	open(t)
	for _, r := range testedRuntimes(t) {
		t.Run(r.Name+"/version", func(t *testing.T) {
			t.Parallel()
			if printed := printVersion(t, r); r.FindVersion(printed) == "" {
				t.Errorf("%v printed %q, want version %s in it", r.VersionCommand, printed, r.Version)
			}
		})
		for _, c := range casesOf(t, r) {
			if testing.Short() && isCommon(r.Name, c.Name) {
				continue
			}
			t.Run(r.Name+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				o, sink := run(t, caseProgram(r, c))
				asWanted(t, c, o, sink)
				if failed := o.Status == job.CompileFailed; failed != (c.Name == "compile-error") || failed && o.Compile.Output == "" {
					t.Errorf("got %+v, want a compiler that says why in the case compile-error only", o)
				}
			})
		}
	}
}

// isCommon reports whether a case asks of a language what its case hello and the cases of other languages show.
func isCommon(runtime, name string) bool {
	return slices.Contains([]string{"c", "cpp", "go", "java", "pascal", "typescript", "php", "multi"}, runtime) && slices.Contains([]string{"unicode", "error", "files"}, name)
}

func testedRuntimes(tb testing.TB) []runtimes.Runtime {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	names := strings.Fields(os.Getenv("GLOVEBOX_TEST_RUNTIMES"))
	switch {
	case len(names) == 0:
		multi, _ := set.Lookup("multi") // which make setup-tests builds
		return append(set.Core(), multi)
	case slices.Equal(names, []string{"all"}):
		return set.List()
	}
	var tested []runtimes.Runtime
	for _, name := range names {
		r, ok := set.Lookup(name)
		if !ok {
			tb.Fatalf("GLOVEBOX_TEST_RUNTIMES: there is no runtime %q", name)
		}
		tested = append(tested, r)
	}
	return tested
}

// printVersion returns what the runtime's version command prints, on both streams.
func printVersion(tb testing.TB, r runtimes.Runtime) string {
	tb.Helper()
	p := program("", limits(job.Limits{WallMS: 60_000, CPUMS: 60_000}.Filled(r.Limits)))
	p.Image, p.Env, p.Command, p.Files = r.Image(), r.Env, r.VersionCommand, nil
	o, k := run(tb, p)
	if o.Status != job.Succeeded {
		tb.Errorf("%v: got %+v", r.VersionCommand, o)
	}
	return k.stdout.String() + k.stderr.String()
}

func casesOf(tb testing.TB, r runtimes.Runtime) []runtimes.Case {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	cases, err := set.Cases(r.Name)
	if err != nil {
		tb.Fatal(err)
	}
	return cases
}

// caseProgram is a case as a worker would run it, with time enough beside all other tests.
func caseProgram(r runtimes.Runtime, c runtimes.Case) sandbox.Program {
	patient := job.Limits{WallMS: 60_000, CPUMS: 60_000}.Filled(r.Limits)
	p := program("", stdin(c.Spec.Stdin), limits(c.Spec.Limits.Filled(patient)))
	p.Image, p.Env = r.Image(), r.Env
	p.Compile, p.Command = r.Command(r.File, c.Spec.Args)
	p.Files = []sandbox.File{{Name: r.File, Content: []byte(c.Spec.Source)}}
	for _, f := range c.Spec.Files {
		p.Files = append(p.Files, sandbox.File{Name: f.Name, Content: []byte(f.Content)})
	}
	return p
}

func asWanted(tb testing.TB, c runtimes.Case, o sandbox.Outcome, k *kept) {
	tb.Helper()
	if o.Status != c.Want.Status || o.ExitCode != c.Want.ExitCode || k.stdout.String() != c.Want.Stdout {
		tb.Errorf("%s: got %+v, stdout %q, want %+v", c.Name, o, k.stdout.String(), c.Want)
	}
	if said := k.stderr.String(); !strings.Contains(said, c.Want.StderrContains) || c.Want.StderrContains == "" && said != "" {
		tb.Errorf("%s: stderr is %q, want %q in it", c.Name, said, c.Want.StderrContains)
	}
	if want := strings.Join(c.Want.Artifacts, " "); k.names() != want {
		tb.Errorf("%s: artifacts are %q, want %q", c.Name, k.names(), want)
	}
}
