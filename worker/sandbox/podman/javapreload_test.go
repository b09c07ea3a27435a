package podman_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
	"github.com/glovebox-run/glovebox/worker/sandbox/podman"
)

// javaRuntime is what jobs in Java are compiled and run with.
func javaRuntime(tb testing.TB) runtimes.Runtime {
	tb.Helper()
	return preloadingRuntime(tb, "java")
}

// preloadedJava keeps two sandboxes of Java's in which a compiler waits.
func preloadedJava(tb testing.TB, worker string) *podman.Sandboxes {
	tb.Helper()
	open(tb)
	r := javaRuntime(tb)
	return keepWarmOf(tb, worker, r.Image(), preloadOf(r))
}

// java is a program in Java, in a file of that name; flags are the compiler's.
func java(tb testing.TB, file, source string, flags ...string) sandbox.Program {
	tb.Helper()
	r := javaRuntime(tb)
	p := program("")
	p.Image, p.Env = r.Image(), maps.Clone(r.Env)
	p.Compile, p.Command = r.Command(file, nil)
	p.Compile = slices.Insert(slices.Clone(p.Compile), len(r.PreloadCommand()), flags...)
	p.Files = []sandbox.File{{Name: file, Content: []byte(source)}}
	p.Limits = job.Limits{MemoryMB: 512, WallMS: 60_000, CPUMS: 60_000, CompileWallMS: 60_000}.Filled(job.Limits{})
	return p
}

const helloJava = `public class Main { public static void main(String[] a) { System.out.println("hello " + a.length); } }`

// TestPreloadedJava: a compiler that waited, and has compiled before, says and makes what one does that was started for the program.
func TestPreloadedJava(t *testing.T) {
	t.Parallel()
	with := func(p sandbox.Program, options ...func(*sandbox.Program)) sandbox.Program {
		for _, o := range options {
			o(&p)
		}
		return p
	}
	programs := map[string]sandbox.Program{
		"hello":        java(t, "Main.java", helloJava),
		"another name": java(t, "Solution.java", `class Helper {} class Other { public static void main(String[] a) { System.out.println("other"); } }`),
		"compact":      java(t, "Main.java", `void main() { IO.println("compact"); }`),
		"a package":    java(t, "Main.java", "package a.b;\npublic class Main { public static void main(String[] a) { System.out.println(new Main()); } public String toString() { return getClass().getName(); } }"),
		"several files": with(java(t, "Main.java", `public class Main { public static void main(String[] a) { System.out.println(new Other().x()); } }`),
			files("Other.java", "class Other { int x() { return lib.More.X; } }", "lib/More.java", "package lib; public class More { public static final int X = 7; }")),
		"an error":          java(t, "Main.java", "public class Main {\n    int f() { return \"é\"; }\n}\n"),
		"errors":            java(t, "Main.java", "public class Main {\n"+strings.Repeat("    int f() { return x; }\n", 150)+"}\n"),
		"syntax":            java(t, "Main.java", "public class Main { void f( { }"),
		"a warning":         java(t, "Main.java", `public class Main { public static void main(String[] a) { Thread.currentThread().stop(); } }`),
		"all warnings":      java(t, "Main.java", `import java.util.*; public class Main { public static void main(String[] a) { List l = new ArrayList(); l.add(1); System.out.println(l); } }`, "-Xlint:all"),
		"a flag of nobody":  java(t, "Main.java", helloJava, "-Xnothing"),
		"parameters' names": java(t, "Main.java", `public class Main { public static void main(String[] told) throws Exception { System.out.println(Main.class.getMethods()[0].getParameters()[0].getName()); } }`, "-parameters"),
		"no main":           java(t, "Main.java", "class A {} class B {}"),
		"a package's class": with(java(t, "Main.java", `public class Main { public static void main(String[] a) { System.out.println("mine " + new L.Main()); } }`),
			files("L/Main.java", `package L; public class Main { public String toString() { return "its"; } }`)),
		"a nested one":   java(t, "Prog.java", `class Helper { static class In { In(String[] a) {} } static void log(String... a) {} public static void main(String[] a) { System.out.println("Helper"); } }`),
		"nothing":        java(t, "Main.java", "// nothing\n"),
		"no file":        with(java(t, "Main.java", ""), func(p *sandbox.Program) { p.Files = nil }),
		"what is there":  java(t, "Main.java", `import java.nio.file.*; public class Main { public static void main(String[] a) throws Exception { for (var d : new String[]{"/tmp", "/work"}) try (var w = Files.walk(Path.of(d))) { w.sorted().forEach(f -> System.out.println(f + " " + Files.isDirectory(f))); } System.out.println(new java.util.TreeMap<>(System.getenv())); System.out.println(Files.readString(Path.of("/proc/self/limits")).lines().filter(l -> !l.contains("cpu")).toList()); } }`),
		"an annotation":  java(t, "Main.java", `@Deprecated public class Main { record P(int x, int y) {} sealed interface S permits A, B {} record A(int v) implements S {} record B(String s) implements S {} static String f(S s) { return switch (s) { case A(var v) when v > 1 -> "big" + v; case A a -> "a"; case B(var x) -> x; }; } public static void main(String[] a) { System.out.println(new P(1, 2) + f(new A(3)) + f(new B("ä"))); } }`),
		"its time":       with(java(t, "Main.java", helloJava), limitsOf(func(l *job.Limits) { l.CompileWallMS = 1 })),
		"standard input": with(java(t, "Main.java", `public class Main { public static void main(String[] a) throws Exception { System.out.println(new String(System.in.readAllBytes()) + String.join(",", a)); } }`), stdin("in"), arguments("x", "--y")),
		"both streams":   with(java(t, "Main.java", `public class Main { public static void main(String[] a) { System.out.println("out"); System.err.println("err"); System.exit(3); } }`), func(p *sandbox.Program) { p.MergeStderr = true }),
		"variables":      with(java(t, "Main.java", `public class Main { public static void main(String[] a) { System.out.println(System.getenv("A") + System.getenv("B")); } }`), env("A", "b\"}\n\\é"), env("B", "{\"LANG\":\"x\"}")),
		"artifacts":      java(t, "Main.java", `import java.nio.file.*; public class Main { public static void main(String[] a) throws Exception { Files.writeString(Path.of("out.txt"), "made"); } }`),
	}
	sameWherePreloaded(t, preloadedJava(t, fromSnapshots+"java"), programs, namesInShort(1, 3, programs))
}

// limitsOf changes a program's limits.
func limitsOf(change func(*job.Limits)) func(*sandbox.Program) {
	return func(p *sandbox.Program) { change(&p.Limits) }
}

// TestPreloadedJavaRefuses: a program that the compiler that waits can't be for gets one of its own.
func TestPreloadedJavaRefuses(t *testing.T) {
	t.Parallel()
	p := preloadedJava(t, fromSnapshots+"java-refuses")
	for name, change := range map[string]func(*sandbox.Program){
		"a variable that Java reads": env("JDK_JAVAC_OPTIONS", "-Xlint:all"),
		"another home":               env("HOME", "/work"),
		"a long variable":            env("A", strings.Repeat(`\`, 20_000)),
		"a file of arguments": func(p *sandbox.Program) {
			p.Compile = append(javaRuntime(t).PreloadCommand(), "@empty", "Main.java")
			p.Files = append(p.Files, sandbox.File{Name: "empty"})
		},
		"what may name a plugin": files("META-INF/any", ""),
		"a processor": func(p *sandbox.Program) {
			p.Compile = append(javaRuntime(t).PreloadCommand(), "-proc:none", "Main.java")
		},
		"an argument to be escaped": func(p *sandbox.Program) {
			p.Compile = append(javaRuntime(t).PreloadCommand(), `-Akey="x"`, "Main.java")
		},
		"another command": func(p *sandbox.Program) { p.Compile = []string{"sh", "-c", strings.Join(p.Compile, " ")} },
		"no compile step": func(p *sandbox.Program) { p.Compile, p.Command = nil, []string{"java", "Main.java"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gbtest.WhenIdle(t)
			awaitPreloadedOf(t, p, javaRuntime(t).Image())
			program := java(t, "Main.java", helloJava)
			change(&program)
			sink := &kept{}
			o, err := p.Run(t.Context(), program, sink)
			if err != nil || o.Preloaded || o.Status != job.Succeeded || sink.stdout.String() != "hello 0\n" {
				t.Errorf("%v, preloaded %v, %s %q %q", err, o.Preloaded, o.Status, sink.stdout.String(), sink.stderr.String())
			}
		})
	}
}

// TestPreloadedJavaTests: a submission with tests is compiled by the compiler that waited; what that left is no test's, and nothing of
// it is counted as left by one.
func TestPreloadedJavaTests(t *testing.T) {
	t.Parallel()
	p := preloadedJava(t, fromSnapshots+"java-tests")
	program := java(t, "Double.java", `import java.nio.file.*; import java.util.*; public class Double { public static void main(String[] a) throws Exception {
		System.out.println(2 * new Scanner(System.in).nextInt());
		try (var w = Files.walk(Path.of("/tmp"))) { System.err.println(w.sorted().toList()); }
	} }`)
	for range 100 {
		awaitPreloadedOf(t, p, program.Image)
		o, got := gradeIn(t, p, false, program, nil, "1\n", "2\n", "3\n")
		if !o.Preloaded { // another took it
			continue
		}
		for i, run := range got {
			if run.stdout != []string{"2\n", "4\n", "6\n"}[i] || run.stderr != got[0].stderr || !strings.Contains(run.stderr, "/tmp/java.args") || strings.Contains(run.stderr, "training") {
				t.Errorf("test %d: %+v", i, run)
			}
		}
		if len(got) != 3 || o.Lost {
			t.Errorf("%d tests, %+v", len(got), o)
		}
		return
	}
	t.Error("it was never preloaded, in a hundred tries")
}
