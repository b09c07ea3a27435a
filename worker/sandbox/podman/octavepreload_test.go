package podman_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// octaveState is most of what a program can ask about itself and its process, except for what runtimes/README.md lists.
const octaveState = `
1;
function asked = each_of ()
  asked = {
    "who"
    "whos"
    "argv ()"
    "program_invocation_name ()"
    "program_name ()"
    "pwd ()"
    "ls ('-a')"
    "ls ('-a', '/tmp')"
    "mfilename ('fullpath')"
    "dbstack ()"
    "lasterr ()"
    "lasterror ()"
    "lasterror ().stack"
    "[m, id] = lastwarn ()"
    "warning ()"
    "get (0, 'children')"
    "get (0, 'currentfigure')"
    "get (0, 'default')"
    "numel (findall (0, 'type', 'figure'))"
    "graphics_toolkit ()"
    "available_graphics_toolkits ()"
    "path ()"
    "exec_path ()"
    "EDITOR ()"
    "PAGER ()"
    "PS1 ()"
    "getenv ('HOME')"
    "getenv ('MINE')"
    "getenv ('EMPTY')"
    "getenv ('GLOVEBOX_PRELOAD')"
    "getenv ('PATH')"
    "system ('env | sort')"
    "system ('echo $PPID | wc -l')"
    "isguirunning ()"
    "isdeployed ()"
    "computer ()"
    "nproc () > 0"
    "format"
    "output_precision ()"
    "page_screen_output ()"
    "page_output_immediately ()"
    "history_save ()"
    "crash_dumps_octave_core ()"
    "debug_on_error ()"
    "struct_levels_to_print ()"
    "print_empty_dimensions ()"
    "split_long_rows ()"
    "beep_on_error ()"
    "echo"
    "more"
    "tempdir ()"
    "P_tmpdir ()"
    "fopen ('all')"
    "freport ()"
    "umask (0)"
    "getuid ()"
    "getgid ()"
    "geteuid ()"
    "pkg ('list')"
    "mislocked ('print')"
    "optimize_diagonal_matrix ()"
    "ver ('octave').Version"
    "version ()"
    "OCTAVE_HOME ()"
    "have_window_system ()"
    "profile ('status')"
    "atexit ('nothing', false)"
    "nargin ('size.m')"
    "suppress_verbose_help_message ()"
    "sighup_dumps_octave_core ()"
    "max_recursion_depth ()"
    "max_stack_depth ()"
    "isstudent ()"
    "ignore_function_time_stamp ()"
    "completion_append_char ()"
    "string_fill_char ()"
    "sparse_auto_mutate ()"
    "confirm_recursive_rmdir ()"
    "built_in_docstrings_file ()"
    "doc_cache_file ()"
    "info_file ()"
    "missing_function_hook ()"
    "missing_component_hook ()"
    "localfunctions ()"
    "inputname (1)"
    "disp (strjoin (regexp (fileread ('/proc/self/status'), '(Name|Cap\\w+|Seccomp|NoNewPrivs|Sig\\w+|Uid|Gid|PPid|Threads):[^\\n]*', 'match'), ' '))"
    "disp (regexprep (fileread ('/proc/self/limits'), 'Max cpu time[^\\n]*', ''))"
    "ls ('/proc/self/fd')"
    "size (argv ())"
    "exist ('ans')"
    "exist ('x')"
    "isvarname ('a')"
    "is_function_handle (@sin)"
    "numel (dbstatus ())"
    "getpid () == getpid ()"
    "rand () < 1"
    "evalin ('base', 'exist (\"each\")')"
    "get (0, 'screensize')"
    "get (0, 'units')"
    "set (0)"
    "get (0, 'showhiddenhandles')"
    "get (0, 'defaultfigurevisible')"
    "groot ()"
  };
end
for each = each_of ()'
  try
    eval (each{1});
  catch e
    printf ("%s: %s\n", each{1}, e.message);
  end
end
`

// TestPreloadedOctave: a program does in an Octave that waited what it does in one that was started for it.
func TestPreloadedOctave(t *testing.T) {
	t.Parallel()
	of := onDemandRuntime(t, "octave")
	with := func(source string, options ...func(*sandbox.Program)) sandbox.Program {
		return programIn(of, source, options...)
	}
	programs := map[string]sandbox.Program{
		"state":            with(octaveState),
		"state, told more": with(octaveState, stdin("in"), env("MINE", "ä=\"<\n"), env("EMPTY", "")),
		"values":           with("x = 1 + 1\ny = [1 2; 3 4]\nz = {1, 'a'}\ns.a = 1; s\n1:3;\nans\nf = @(x) x + 1\ntrue\n'ä'\n"),
		"stdin":            with("while (ischar (l = fgetl (stdin))) disp (l); end", stdin("a\nb\n\nc")),
		"stdin by input":   with("x = input (''); y = input ('', 's'); disp (x + 1); disp (y)", stdin("41\nab\n")),
		"no stdin":         with("disp (fgetl (stdin)); x = input ('? ')"),
		"exit code":        with("disp ('x'); exit (7)"),
		"at the end":       with("atexit ('bye'); function bye (), disp ('bye'); end; disp ('x');"),
		"error":            with("function f (x)\n  error ('so be ä');\nend\nfunction g ()\n  f (1);\nend\ng ();\n"),
		"error handled":    with("try, error ('my:id', 'm %d', 3); catch e, disp (e.message); disp (e.identifier); disp (e.stack(1).name); end; unwind_protect, x = nothing + 1; unwind_protect_cleanup, disp ('cleanup'); end"),
		"warnings":         with("warning ('w'); warning ('my:id', 'x'); [m, id] = lastwarn (), 1 / 0, inv ([1 2; 2 4])"),
		"syntax":           with("disp ('before');\nx = (1 +\n  ];\n"),
		"unfinished":       with("function f ()\n  1;\n"),
		"own functions":    with("disp (helper (2)); x = other.value", files("helper.m", "function y = helper (x)\n  y = x * 21;\nend\n", "+other/value.m", "function v = value ()\n  v = 3;\nend\n")),
		"an own method":    with("disp (int8 (1) + int8 (2)); s = private_one ()", files("@int8/plus.m", "function y = plus (a, b)\n  y = 'own';\nend\n", "private/private_one.m", "function y = private_one ()\n  y = 5;\nend\n")),
		"a profile":        with("disp (1)", files(".octaverc", "disp ('profile')")),
		"algebra":          with("A = magic (4); rank (A), eig ([2 0; 0 3]), A \\ [1; 2; 3; 4]; [q, r] = qr ([1 2; 3 4]); norm (q * r - [1 2; 3 4]) < 1e-12, fzero (@cos, [1 2]), quad (@sin, 0, pi), polyfit (1:3, [1 4 9], 2), ode = ode45 (@(t, y) -y, [0 1], 1).x(end)"),
		"seeds":            with("rand ('seed', 1); a = rand (), rand ('twister', 5); rand (), randn ('state', 3); randn (), randperm (5)(1) > 0"),
		"text":             with("sprintf ('%5.2f|%s', pi, 'ä'), regexprep ('a1', '\\d', 'x'), strsplit ('a,b', ','), num2str (1e6), upper ('abc'), datestr (0), containers.Map ({'a'}, {1}).keys (), jsonencode (struct ('a', 1)), int32 (7) / 2, bitand (6, 3)"),
		"time":             with("t = time (); pause (0.3); disp (time () - t > 0.29); tic; pause (0.1); disp (toc < 5); try, x = toc (uint64 (1)) > 0, end"),
		"children":         with("[s, o] = system ('echo $0; cat; exit 4'), p = popen ('echo hi', 'r'); disp (fgetl (p)); pclose (p); [i, o, pid] = popen2 ('cat'); fputs (i, \"x\\n\"); fclose (i); disp (pid > 0); waitpid (pid);"),
		"charts":           with("plot (1:3); title ('Größe'); figure; bar ([1 2 3]); figure (5); surf (peaks (10)); disp (gcf ())"),
		"a chart of its own": with(
			"f = figure ('visible', 'off'); plot (1:10, (1:10) .^ 2, '-o'); legend ('y'); print ('mine.png', '-dpng', '-S300,200'); close (f); pie ([1 2]); print ('-dsvg', 'x.svg'); hist ([1 2 2]); disp (numel (get (0, 'children')))"),
		"files":            with("x = 1; save ('-text', 'x.txt', 'x'); fid = fopen ('o.txt', 'w'); fprintf (fid, 'ä\\n'); fclose (fid); csvwrite ('c.csv', [1 2; 3 4]); disp (csvread ('c.csv')); f = tempname (); disp (strncmp (f, '/tmp/oct-', 9)); delete ('x.txt')"),
		"signal":           with("disp ('x'); fflush (stdout); kill (getpid (), 15); pause (10)"),
		"abort":            with("kill (getpid (), 9); pause (10)"),
		"too long":         with("disp ('x'); while (true) end", limits(job.Limits{WallMS: 20_000})),
		"memory":           with("x = {}; for i = 1:1000, x{i} = ones (1, 2e6); end", limits(job.Limits{MemoryMB: 128, WallMS: 60_000})),
		"memory that fits": with("x = ones (1, 15e6); disp (sum (x))"),
		"recursion":        with("1;\nfunction f (n)\n  f (n + 1);\nend\ntry, f (1), catch e, disp (e.message); end"),
		"much output":      with("for i = 1:3000, printf ('line %d\\n', i); end"),
		"nothing":          with(""),
		"no file":          with("", func(p *sandbox.Program) { p.Files = nil }),
		"carriage returns": with("x = 1;\r\ndisp (x);\r\nif (x)\r\n  disp ('y');\r\nend\r\n"),
		"bytes":            with("x = double ('ä\xff')\n% \xe4\ndisp (2)\n"),
		"classes":          with("o = containers.Map (); o('k') = 2; disp (o.Count); try, inputname (1), catch e, disp (e.message); end; x = onCleanup (@() disp ('cleaned')); clear x; clear all; who; exist ('glovebox_wait'), disp (1)"),
		"evaluated":        with("eval ('y = 3'); evalc ('z = 4'); z, evalin ('base', 'y'), inputParser (); assert (true); isargout (1); validatestring ('r', {'red'})"),
	}
	sameWherePreloaded(t, waitingFor(t, of, "octave"), programs, slices.Sorted(maps.Keys(programs)))
}

// TestPreloadedOctaveRefuses: a program that the Octave that waits can't be gets one of its own.
func TestPreloadedOctaveRefuses(t *testing.T) {
	t.Parallel()
	of := onDemandRuntime(t, "octave")
	refusesPrograms(t, waitingFor(t, of, "octave-refuses"), of, "printf ('%s|', getenv ('HOME'), argv (){:})", map[string]refused{
		"arguments":        {arguments("a"), "/tmp|a|"},
		"another home":     {env("HOME", "/work"), "/work|"},
		"a path":           {env("OCTAVE_PATH", "/work"), "/tmp|"},
		"another language": {env("LANG", "C"), "/tmp|"},
		"settings":         {files(".oct-config", "encoding=utf-8\n"), "/tmp|"},
		"threads":          {env("OMP_NUM_THREADS", "3"), "/tmp|"},
		"an own print":     {files("print.m", "function print (x)\nend\n"), "/tmp|"},
		"an own sum":       {files("sum.m", "function sum (x)\nend\n"), "/tmp|"},
	})
}

// TestPreloadedOctaveIsFresh: what is drawn at random differs between two that go on from one snapshot.
func TestPreloadedOctaveIsFresh(t *testing.T) {
	t.Parallel()
	of := onDemandRuntime(t, "octave")
	drawsAnew(t, waitingFor(t, of, "octave-fresh"), of, `
x = struct ('rand', rand (), 'next', rand (), 'randn', randn (), 'rande', rande (), 'randg', randg (5), 'randp', randp (1e9), 'randi', randi (1e9), 'randperm', randperm (1e4)(1:5), 'single', rand ('single'));
for name = fieldnames (x)', x.(name{1}) = mat2str (x.(name{1}), 17); end
rand ('seed'); x.old = mat2str (rand (), 17); x.tempname = tempname ();
disp (jsonencode (x));
`)
}
