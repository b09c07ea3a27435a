package podman_test

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

//go:embed testdata/bashcells.txt
var bashCells string

// TestBashCells: scripts come to the same cell by cell in a session as at once in a job.
func TestBashCells(t *testing.T) {
	t.Parallel()
	_, cells, _ := strings.Cut(bashCells, "\n== ")
	for _, one := range inShort(0, 2, strings.Split(cells, "\n== ")) {
		name, source, _ := strings.Cut(one, "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			todo, whole, begins := readBashCells(source)
			o, k := run(t, bashJob(t, whole))
			alone := written{k.stdout.String(), asBashCells(k.stderr.String(), begins), o.ExitCode, strings.Fields(k.names())}
			session := inTurns(t, turns(t, sessionOf(t, "bash"), todo...))
			session.Stderr = strings.ReplaceAll(session.Stderr, inEval, "")
			if diff := cmp.Diff(alone, session); diff != "" {
				t.Errorf("a job (-) and a session (+) differ:\n%s", diff)
			}
		})
	}
}

// readBashCells returns a script as turns of a session, as the source of a job, and the lines that its cells begin after there.
func readBashCells(source string) (todo []step, whole string, begins []int) {
	var all strings.Builder
	for cell := range strings.SplitSeq(source, "\n%%") {
		cell = strings.TrimSuffix(strings.TrimPrefix(cell, "\n"), "\n")
		begins = append(begins, strings.Count(all.String(), "\n"))
		todo = append(todo, step{code: cell})
		all.WriteString(cell + "\n")
	}
	return todo, all.String(), begins
}

// bashJob is a script as the worker makes it of a job.
func bashJob(tb testing.TB, source string) sandbox.Program {
	tb.Helper()
	set, err := runtimes.Embedded()
	if err != nil {
		tb.Fatal(err)
	}
	r, _ := set.Lookup("bash")
	_, command := r.Command(r.File, nil)
	return sandbox.Program{
		JobID: "test", Epoch: 1, Image: r.Image(), Command: command, Env: r.Env, Limits: ample.Filled(r.Limits),
		Files: []sandbox.File{{Name: r.File, Content: []byte(source)}},
	}
}

var inScript = regexp.MustCompile(`(?:/work/)?main\.sh: line (\d+)`)

// inEval is what a session says besides of a syntax error.
const inEval = "eval: "

// asBashCells names the places of errors as a session does.
func asBashCells(text string, begins []int) string {
	return inScript.ReplaceAllStringFunc(text, func(place string) string {
		line, _ := strconv.Atoi(inScript.FindStringSubmatch(place)[1])
		cell := len(begins) - 1
		for begins[cell] >= line {
			cell--
		}
		return fmt.Sprintf("/dev/stdin: line %d", line-begins[cell])
	})
}

// scene is a step and what it comes to.
type scene struct {
	step
	want
}

// play has the scenes played in one session of the runtime.
func play(t *testing.T, runtime string, scenes ...scene) []turned {
	t.Helper()
	var todo []step
	var wanted []want
	for _, s := range scenes {
		todo, wanted = append(todo, s.step), append(wanted, s.want)
	}
	got := turns(t, sessionOf(t, runtime), todo...)
	check(t, got, wanted...)
	return got
}

// TestBashState: exit, set -e and an interrupt end a piece and not the shell's state, from whatever depth.
func TestBashState(t *testing.T) {
	t.Parallel()
	failed := func(code int, stdout, stderr string) want {
		return want{status: job.Failed, code: code, stdout: stdout, stderr: stderr}
	}
	interrupted := want{stdout: "begun\n", status: job.Canceled, code: 130}
	scenes := []scene{
		{step{code: "x=1; a=(1 'b c'); f() { echo \"f $x\"; }; export E=e; set -- p q; readonly r=1; shopt -s extglob; umask 027; cd /tmp"}, want{}},
		{step{code: "echo one; exit 3; echo not"}, failed(3, "one\n", "")},
		{step{code: "f; echo \"${a[1]} $* $r $(sh -c 'echo $E') $(umask) $PWD $SHLVL\"; shopt -q extglob"}, want{stdout: "f 1\nb c p q 1 e 0027 /tmp 1\n"}},
		{step{code: "set -e; x=2; false; echo not"}, failed(1, "", "")},
		{step{code: "echo $x; false; echo not"}, failed(1, "2\n", "")},
		{step{code: "set +e; false; echo on"}, want{stdout: "on\n"}},
		{step{code: "set -u; x=3; echo $nosuch; echo not"}, failed(1, "", "line 1: nosuch: unbound variable")},
		{step{code: "set +u; echo \"$x [$nosuch]\""}, want{stdout: "3 []\n"}},
		{step{code: "h() { local x=local a=local; local -i n=1; i; }; i() { local x=inner; exit 5; }; n=outer; h"}, failed(5, "", "")},
		{step{code: "echo \"$x ${a[1]} $n\""}, want{stdout: "3 b c outer\n"}},
		{step{code: "while read -r l; do echo \"$l\"; exit 6; done < /etc/hostname > out.txt 2>&1"}, failed(6, "", "")},
		{step{code: "cat; echo shown; echo told >&2"}, want{stdout: "shown\n", stderr: "told"}},
		{step{code: "echo begun; while :; do :; done; echo not", interruptAt: "begun"}, interrupted},
		{step{code: "echo begun; sleep 1000; echo not", interruptAt: "begun"}, interrupted},
		{step{code: "k() { local x=k; echo begun; sleep 1000 | cat; }; k; echo not", interruptAt: "begun"}, interrupted},
		{step{code: "echo begun; y=$(sleep 1000); echo not", interruptAt: "begun"}, interrupted},
		{step{code: "sh -c 'kill -INT $$; echo blocked'"}, failed(130, "", "")},
		{step{code: "echo begun; sleep 1000 & wait; echo not", interruptAt: "begun"}, interrupted},
		{step{code: "trap 'echo cleaned' EXIT; echo begun; sleep 1000", interruptAt: "begun"}, want{stdout: "begun\ncleaned\n", status: job.Canceled, code: 130}},
		{step{code: "f; echo $x"}, want{stdout: "f 3\n3\n"}},
		{step{code: "break; echo $x"}, want{}},
		{step{code: "return 3; echo on"}, want{stdout: "on\n", stderr: "can only `return' from a function or sourced script"}},
		{step{code: "printf '%s\\n' 'exit 8' > s.sh; source ./s.sh; echo not"}, failed(8, "", "")},
		{step{code: "exec {log}>log.txt; echo one >&$log; exit"}, want{}},
		{step{code: "echo two >&$log; exec {log}>&-; cat log.txt"}, want{stdout: "one\ntwo\n"}},
		{step{code: "sleep 1000 & echo begun"}, want{stdout: "begun\n"}},
		{step{code: "kill $!; wait $!; echo $?"}, want{stdout: "143\n"}},
		{step{code: "set -x; echo traced"}, want{stdout: "traced\n", stderr: "++ echo traced\n"}},
		{step{code: "echo traced; set +x"}, want{stdout: "traced\n", stderr: "++ echo traced\n++ set +x\n"}},
	}
	for range 6 { // in some of them bash is interrupted as it reads the pipe
		scenes = append(scenes, scene{step{code: "echo begun; y=$(sleep 1000)", interruptAt: "begun"}, interrupted},
			scene{step{code: "sh -c 'kill -INT $$; echo blocked'"}, failed(130, "", "")})
	}
	got := play(t, "bash", append(scenes,
		scene{step{code: "sh -c 'i=3; while [ $i -lt 64 ]; do readlink /proc/$$/fd/$i; i=$((i + 1)); done'; env | grep glovebox"}, failed(1, "", "")},
	)...)
	for i, g := range got {
		if g.StateLost {
			t.Errorf("turn %d lost the state", i+1)
		}
		if text := g.stderr.String(); strings.Contains(text, "__glovebox") {
			t.Errorf("turn %d shows the interpreter: %s", i+1, text)
		}
	}
}

// TestBashHostile: what a script does to its session costs the state at worst, and that is told.
func TestBashHostile(t *testing.T) {
	t.Parallel()
	lost := func(code int, stdout string) want {
		w := want{status: job.Failed, code: code, stdout: stdout, lost: true}
		if code == 0 {
			w.status = job.Succeeded
		}
		return w
	}
	for name, c := range map[string]struct {
		code string
		want
	}{
		"killed":                        {"echo one; kill -9 $$", lost(137, "one\n")},
		"replaced":                      {"exec echo two", lost(0, "two\n")},
		"descriptors closed":            {"for i in {3..255}; do eval \"exec $i>&-\"; done 2>/dev/null; echo closed", lost(137, "closed\n")},
		"control socket read":           {"cat <&11 & kill $!; echo on", want{stdout: "on\n"}},
		"children killed as they begin": {"{ for i in {1..200}; do cat & kill $!; done; wait; } 2>/dev/null; echo on", want{stdout: "on\n"}},
		"forged words":                  {"for i in {10..20}; do printf '\\0x 0\\0%s 7\\0' \"$__glovebox_token\" >&$i; done 2>/dev/null; echo on; exit 4", want{stdout: "", status: job.Failed, code: 7}},
		"no execution":                  {"echo one; set -n; echo two", want{stdout: "one\n", status: job.TimedOut, code: 124, lost: true}},
		"builtins replaced":             {"builtin() { :; }; echo replaced", want{stdout: "replaced\n", status: job.TimedOut, code: 124, lost: true}},
		"restricted":                    {"set -r; echo restricted", lost(137, "restricted\n")},
		"its own names":                 {"unset ${!__glovebox*}; echo unset", want{stdout: "unset\n", status: job.TimedOut, code: 124, lost: true}},
		"no trap INT":                   {"trap '' INT; echo kept; while :; do :; done", want{stdout: "kept\n", status: job.TimedOut, code: 124}},
		"deaf":                          {"trap '' INT RTMAX; echo deaf; while :; do :; done", want{stdout: "deaf\n", status: job.TimedOut, code: 124, lost: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wall := time.Minute
			if c.status == job.TimedOut {
				wall = 2 * time.Second
			}
			got := turns(t, sessionOf(t, "bash"), step{code: "x=1"}, step{code: c.code, wall: wall}, step{code: "echo \"[$x]\""})
			next := want{stdout: "[1]\n"}
			if c.lost {
				next.stdout = "[]\n"
			}
			if name == "forged words" { // until it is stopped it goes on, with words to where its output goes, and then from there
				if stdout := got[1].stdout.String(); regexp.MustCompile(`^(\x00x 0\x00\w+ 7\x00)*(on\n)?$`).MatchString(stdout) {
					c.want.stdout = stdout
				}
				next.stdout = got[2].stdout.String()
			}
			check(t, got, want{}, c.want, next)
		})
	}
}

// TestBashLong: a piece that is long is executed as a whole, and at once.
func TestBashLong(t *testing.T) {
	t.Parallel()
	var scenes []scene
	for _, n := range []int{200, 225, 228, 229, 230, 300, 64 << 10, 900_000} { // a token has 26 characters, and 256 are read one by one
		scenes = append(scenes, scene{step{code: "#" + strings.Repeat("ä", n/2) + strings.Repeat("x", n%2) + "\nprintf '%s\\n' 'a  b'\n\n", wall: time.Minute}, want{stdout: "a  b\n"}})
	}
	play(t, "bash", append(scenes, scene{step{code: "#" + strings.Repeat("x", 1000) + "\nexit 3"}, want{status: job.Failed, code: 3}}, scene{step{code: "echo on"}, want{stdout: "on\n"}})...)
}
