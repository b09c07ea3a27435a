package convert

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// says is a checker, and an interactor beside it: it exits with the code that begins the answer's file, or the input's, and says the rest.
const says = `
#include <cstdio>
#include <string>
int main(int, char **argv) {
	std::string name = argv[0];
	bool checks = name.size() > 8 && name.substr(name.size() - 8) == "/checker";
	std::FILE *file = std::fopen(argv[checks ? 3 : 1], "r");
	int code;
	char words[100] = "";
	if (!file || std::fscanf(file, "%d %99[^\n]", &code, words) < 1) return 3;
	std::fprintf(stderr, "%s\n", words);
	return code;
}
`

// TestTestlib: what becomes of exit code and message of programs that are written with testlib.h. Where that has no code for a part of the
// points, it exits with the share of _pc, which is 0 for nothing and 4 or 8 for two per cent and four.
func TestTestlib(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "g++")
	dir := t.TempDir()
	put(t, dir, "testlib.cpp", testlibWrapper)
	put(t, dir, "says.cpp", []byte(says))
	for program, sources := range map[string][]string{"interactor": {"says.cpp", "testlib.cpp"}, "checker": {"says.cpp"}} {
		cmd := exec.CommandContext(t.Context(), "g++", append([]string{"-o", program}, sources...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	const accepted, wrong, failed = 42, 43, 1
	const then = "interactor checker"
	for i, tt := range []struct {
		args           string // mode and how
		input, answer  string // what is to be said by a checker alone, or by an interactor; and by the checker behind that
		code           int
		file, contents string // of the feedback
	}{
		{"whole", "0 ok", "", accepted, "", ""},
		{"whole", "1 wrong answer", "", wrong, "", ""},
		{"whole", "3 FAIL", "", failed, "", ""},
		{"part", "7 points 12.5 of 20", "", accepted, "score.txt", "12.500000000\n"},
		{"some", "7 points 1", "", accepted, "score.txt", ""},
		{"some", "7 points 0", "", wrong, "", ""},
		{"some", "150 partially correct (100) half", "", accepted, "score_multiplier.txt", ""},
		{"some", "1 wrong answer", "", wrong, "", ""},
		{"part", "150 partially correct (100) half", "", accepted, "score_multiplier.txt", "0.500000000\n"},
		{"part", "50 partially correct (0) nothing", "", wrong, "", ""},
		{"part", "0 partially correct (0) nothing", "", failed, "", ""},
		{"whole", "0 partially correct (0) nothing", "", failed, "", ""},
		{"whole", "4 partially correct (4) little", "", failed, "", ""},
		{"whole", "8 partially correct (8) little", "", failed, "", ""},
		{"part", "16 partially correct (16) some", "", failed, "", ""},
		{"whole " + then, "0 ok", "0 ok", accepted, "", ""},
		{"whole " + then, "0 ok", "1 wrong answer", wrong, "", ""},
		{"whole " + then, "0 partially correct (0) nothing", "0 ok", failed, "", ""},
		{"whole " + then, "0 ok", "0 partially correct (0) nothing", failed, "", ""},
	} {
		feedback := filepath.Join(dir, fmt.Sprint(i)) + "/"
		put(t, feedback, "input", []byte(tt.input))
		put(t, feedback, "answer", []byte(tt.answer))
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "interactor"), append([]string{feedback + "input", feedback + "answer", feedback}, strings.Fields(tt.args)...)...)
		said, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		code := cmd.ProcessState.ExitCode()
		if code == failed && strings.Contains(tt.input+tt.answer, "partially") && !strings.Contains(string(said), "define TESTSYS") {
			t.Errorf("%s: %s, %s: it said %s", tt.args, tt.input, tt.answer, said)
		}
		got, _ := os.ReadFile(feedback + tt.file) // none is nothing
		if code != tt.code || string(got) != tt.contents {
			t.Errorf("%s: %s, %s: got exit code %d, %q, want %d, %q", tt.args, tt.input, tt.answer, code, got, tt.code, tt.contents)
		}
	}
}

// TestDMOJCheckers: what an output is by each checker that is a program here, as DMOJ's own of that name has it.
func TestDMOJCheckers(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "python3")
	dir := t.TempDir()
	put(t, dir, "validate.py", dmojProgram)
	args := []string{"-c", callEach, filepath.Join(dir, "validate.py"), dir}
	var wants []string
	for _, c := range []struct {
		checker        string
		answer, output string
		right          bool
	}{
		{"standard", "1 2\n3\n", "1  2 \n\n\t3", true},
		{"standard", "1 2\n3\n", "1 2\r3", true},
		{"standard", "1 2\n3\n", "1\n2 3\n", false},
		{"standard", "1 2\n3\n", "1 2\n3\n4", false},
		{"standard", "1 2\n3\n", "1 2\n", false},
		{"standard", "a\n", "A\n", false},
		{"standard", "\n", " \v\f\n", true},
		{"standard", "\n", "x", false},
		{"identical", "1\n", "1\n", true},
		{"identical", "1\n", "1", false},
		{"floats", "1.5 x\n", "1.5000001 x", true},
		{"floats", "1.5 x\n", "1.51 x", false},
		{"floats", "1.5 x\n", "1.5 y", false},
		{"floats", "2000000000\n", "2000000001", true},
		{"floats", "0\n", "1e-7", true},
		{"floats", "1 2\n", "1\n2\n", false},
		{"floats", "1\n", "\n1\n\n", true},
		{"floats", "1\n", " \n1\n", false}, // a line of blanks counts
		{"floats", "nan\n", "nan", false},
		{"floats", "1\n", "one", false},
		{"floats", "1\n", "1 1", false},
		{"floats precision=1", "1\n", "1.09", true},
		{"floats error_mode=absolute", "2000000000\n", "2000000001", false},
		{"floats error_mode=relative", "0\n", "1e-7", false},
		{"floats error_mode=relative", "-4\n", "-4.000001", true},
		{"floatsabs precision=2", "3\n", "3.009", true},
		{"floatsrel precision=2", "1000\n", "1009", true},
		{"sorted", "a b\nc\n", "c\n\na  b", true},
		{"sorted", "a b\nc\n", "c\nb a", false},
		{"sorted", "a\na\nb\n", "a\nb\nb\n", false},
		{"sorted split_on=whitespace", "a b\nc\n", "c b a", true},
		{"unordered", "1 2 2\n", "2\n1\n2", true},
		{"unordered", "1 2 2\n", "2 1 1", false},
		{"unordered", "1 2\n", "1 2 3", false},
		{"easy", "Ab c\n", "c B\nA", true},
		{"easy", "Ab c\n", "cBA!", false},
		{"rstripped", "a \nb\n", "a\nb \t\n", true},
		{"rstripped", "a\n", "a", false},
		{"rstripped", "a\n", "a\n ", true},
		{"rstripped", "a\n", "a\nb", false},
		{"rstripped", "a\nb\n", "a\n\nb\n", false},
		{"rstripped filter_new_line=true", "a\nb\n", "a\n\nb", true},
	} {
		want := "43"
		if c.right {
			want = "42"
		}
		put(t, dir, fmt.Sprint(len(wants), ".answer"), []byte(c.answer))
		put(t, dir, fmt.Sprint(len(wants), ".output"), []byte(c.output))
		args = append(args, c.checker)
		wants = append(wants, fmt.Sprintf("%s %s, %q for %q", want, c.checker, c.output, c.answer))
	}
	out, err := exec.CommandContext(t.Context(), "python3", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	codes := strings.Fields(string(out))
	if len(codes) != len(wants) {
		t.Fatalf("got %s", out)
	}
	for i, want := range wants {
		if !strings.HasPrefix(want, codes[i]) {
			t.Errorf("got %s, want %s", codes[i], want)
		}
	}
}

// callEach runs a validator on each test of a folder in one process, and prints what it exits with. Its arguments are
// the validator, the folder, and what each test is checked with.
const callEach = `
import io, os, sys
validator, folder, tests = sys.argv[1], sys.argv[2], sys.argv[3:]
with open(validator) as f:
    code = compile(f.read(), validator, "exec")
for i, checker in enumerate(tests):
    sys.argv = [validator, os.devnull, f"{folder}/{i}.answer", folder + "/", *checker.split()]
    with open(f"{folder}/{i}.output", "rb") as f:
        sys.stdin = io.TextIOWrapper(io.BytesIO(f.read()))
    try:
        exec(code, {"__name__": "__main__"})
        print("none")
    except SystemExit as e:
        print(e.code)
`
