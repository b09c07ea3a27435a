package worker_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/metrics"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker"
)

// slowly is a compile step that is worth keeping, and names what it made by chance.
const slowly = "sleep 0.3; echo $RANDOM$RANDOM >id; "

// compiledBy is a job whose checker accepts, and says all that its compile step left, and in which order that was made.
func compiledBy(compile string) job.Spec {
	spec := judgedBy("bash", "a file", job.Test{Name: "1"}, job.Test{Name: "2"})
	spec.Checker.Program.Limits.DiskMB, spec.Checker.Program.Limits.CompileWallMS = 32, 60_000
	spec.Checker.Program.Commands = &job.Commands{Compile: compile, Run: `f=$3
{ cat id 2>/dev/null || echo none; find /work /tmp -mindepth 1 '(' -path /tmp/.glovebox -o -path '/work/many/*' ')' -prune -o -printf '%p %y %m %s %l\n' | sort
echo by age:; find /work /tmp -path /tmp/.glovebox -prune -o -type f ! -path '/work/many/*' -printf '%T@ %p\n' | sort -n | cut -d ' ' -f 2; } >"$f/judgemessage.txt"; [ "$4" != fail ] && exit 42`}
	return spec
}

// TestCompiledCheckers: what a checker's compile step made once is what later submissions are judged by, to the last file and mode.
func TestCompiledCheckers(t *testing.T) {
	t.Parallel()
	r := metrics.NewRegistry("v1")
	g := start(t, func(c *worker.Config) { c.Metrics = metrics.NewWorker(r, []string{"bash"}) })
	for _, c := range []struct {
		name, compile string
		kept          bool
	}{
		{"kept", slowly + `mkdir -p -- d/e .hidden -x && echo y >d/e/f && chmod 711 d/e/f && chmod 500 d/e && ln -s d/e/f link && ln -s /nowhere away &&
			ln id twice && touch -- '-x/--checkpoint=1' $'a\nb' && rm main.sh && touch unreadable && chmod 0 unreadable &&
			echo x >/tmp/program && chmod 700 /tmp/program && mkdir /tmp/.d && for i in c a b; do sleep 0.01; echo >made-$i; done &&
			touch -d 2001-01-01 old && touch -d 1900-01-01 older && touch -d 9999-12-31 young && touch -d @99999999999999 younger && echo its own >.glovebox-compiled.tar`, true},
		{"too much", slowly + "head -c 9000000 /dev/urandom >large", false},
		{"fits only once", slowly + "head -c $((4 * 1024 * 1024 - 150000)) /dev/zero >half; mkdir many; for i in {1..900}; do >many/$i; done", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := compiledBy(c.compile)
			if c.name == "fits only once" {
				spec.Checker.Program.Limits.DiskMB = 8
			}
			ids, lists := make([]string, 4), make([]string, 4)
			for i := range ids {
				res := g.result(g.submit(spec))
				if cameTo(res) != "AC 2: AC AC" || res.Tests[0].JudgeMessage != res.Tests[1].JudgeMessage {
					t.Fatalf("%d: got %s; %+v, %+v", i, cameTo(res), res.Error, res.Tests)
				}
				ids[i], lists[i], _ = strings.Cut(res.Tests[0].JudgeMessage, "\n")
			}
			sizes := regexp.MustCompile(`(/work/(id|twice) f [0-7]+) \d+`) // chance has more digits or fewer
			for i, list := range lists {
				if a, b := sizes.ReplaceAllString(list, "$1"), sizes.ReplaceAllString(lists[0], "$1"); a != b {
					t.Errorf("the first submission's checker had\n%sand %d's\n%s", b, i, a)
				}
			}
			if ids[0] == ids[1] || (ids[1] == ids[2]) != c.kept || (ids[2] == ids[3]) != c.kept || slices.Contains(ids, "none") {
				t.Errorf("made were %q", ids)
			}
		})
	}
	anew, kept := checkerSandboxes(t, scrape(t, r))
	if anew != 2+2*4 || kept != 2 {
		t.Errorf("compiled anew were %d, kept %d", anew, kept)
	}

	t.Run("does not compile", func(t *testing.T) {
		for range 3 {
			if res := g.result(g.submit(compiledBy("sleep 0.5; echo no such thing; exit 3"))); cameTo(res) != "JE: JE JE" || !strings.Contains(res.Error.Message, "could not be compiled: no such thing") {
				t.Errorf("got %s; %+v", cameTo(res), res.Error)
			}
		}
	})
	known := compiledBy(slowly)
	madeBy := func(spec job.Spec, tenant string) string {
		id := job.NewID(tenant)
		if err := g.records.Create(t.Context(), id, ample(spec), ""); err != nil {
			t.Fatal(err)
		}
		res := g.result(id)
		if cameTo(res) != "AC 2: AC AC" {
			t.Fatalf("got %s; %+v", cameTo(res), res.Error)
		}
		made, _, _ := strings.Cut(res.Tests[0].JudgeMessage, "\n")
		return made
	}
	madeBy(known, "default")
	made := madeBy(known, "default")
	ofCheck, ofCompile := compiledBy(slowly), compiledBy(slowly)
	ofCheck.Checker.Program.Limits.WallMS++
	ofCompile.Checker.Program.Limits.CompileMemoryMB = 200
	for _, c := range []struct {
		name, tenant string
		spec         job.Spec
		kept         bool
	}{
		{"the same", "default", known, true},
		{"another limit of a check", "default", ofCheck, true},
		{"another limit of the compile step", "default", ofCompile, false},
		{"another tenant", "other", known, false},
	} {
		if got := madeBy(c.spec, c.tenant); (got == made) != c.kept {
			t.Errorf("%s: judged by %s, where %s is kept", c.name, got, made)
		}
	}
	fails := compiledBy(slowly)
	fails.Tests[0].CheckerArgs = []string{"fail"}
	if res := g.result(g.submit(fails)); cameTo(res) != "JE: JE AC" {
		t.Errorf("got %s; %+v", cameTo(res), res.Error)
	}
	if got := madeBy(known, "default"); got == made {
		t.Error("a checker that failed is kept: its compile step may have failed without a word")
	}
}

// TestCompiledCheckerWithoutGVisor: a process has its directories in mounts of its own.
func TestCompiledCheckerWithoutGVisor(t *testing.T) {
	t.Parallel()
	r, in := metrics.NewRegistry("v1"), byProcess(t)
	g := start(t, func(c *worker.Config) { in(c); c.Metrics = metrics.NewWorker(r, []string{"bash"}) })
	spec := compiledBy(slowly + "echo x >/tmp/program; touch -d 1900-01-01 /tmp/older; touch -d 9999-12-31 younger")
	spec.Isolation = job.Process
	var made []string
	for range 3 {
		res := g.result(g.submit(spec))
		if cameTo(res) != "AC 2: AC AC" || !strings.Contains(res.Tests[0].JudgeMessage, "/tmp/program f") {
			t.Fatalf("got %s; %+v, %+v", cameTo(res), res.Error, res.Tests)
		}
		made = append(made, res.Tests[0].JudgeMessage)
	}
	if _, kept := checkerSandboxes(t, scrape(t, r)); kept != 1 || made[1] != made[2] || made[0] == made[1] {
		t.Errorf("kept %d, made were %q", kept, made)
	}
}

// checkerSandboxes reads how many sandboxes of checkers had to compile, and how many had not.
func checkerSandboxes(t *testing.T, text string) (anew, kept int) {
	t.Helper()
	for name, n := range map[string]*int{"anew": &anew, "kept": &kept} {
		m := regexp.MustCompile(`(?m)^glovebox_checker_sandboxes_total{compiled="` + name + `"} (\d+)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatal("no metric")
		}
		if _, err := fmt.Sscan(m[1], n); err != nil {
			t.Fatal(err)
		}
	}
	return anew, kept
}

// BenchmarkCompiledCheckers grades a submission by a checker in C++, which is another each time, or the same.
func BenchmarkCompiledCheckers(b *testing.B) {
	g := start(b, nil)
	const checker = "#include <fstream>\n#include <iostream>\n#include <map>\n#include <regex>\n#include <string>\nint main(int, char **a) { std::ifstream f(a[2]); std::string want, got; " +
		"std::map<std::string, int> seen; while (f >> want) seen[want]++; while (std::cin >> got) if (!std::regex_match(got, std::regex(\"[a-z]+\")) || !seen[got]--) return 43; return 42; }\n"
	for name, source := range map[string]func() string{
		"compiled anew": func() string { return checker + "// " + job.NewID("x") },
		"kept":          func() string { return checker },
	} {
		b.Run(name, func(b *testing.B) {
			grade := func() {
				if r := g.result(g.submit(judgedBy("cpp", source(), job.Test{Name: "1", Stdin: "a b", Answer: "b a"}))); cameTo(r) != "AC 1: AC" {
					b.Fatalf("got %s; %+v", cameTo(r), r.Error)
				}
			}
			grade() // the second makes what is kept
			grade()
			for b.Loop() {
				grade()
			}
		})
	}
}
