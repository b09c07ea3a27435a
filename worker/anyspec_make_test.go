package worker_test

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/runtimes"
)

// anySpec makes a spec of the number that passes the check.
func anySpec(seed, number uint64, set runtimes.Set) job.Spec {
	m := specMaker{rand.New(rand.NewPCG(seed, number))}
	for {
		spec, file := m.spec(set)
		if spec.Check(set.Names(), nil, job.DefaultMaximums) == nil && spec.CheckSource(file) == nil {
			return spec
		}
	}
}

type specMaker struct{ *rand.Rand }

// programs are what jobs do that leaves something odd behind, or meets a limit. Those that
// may not end have no time for it.
var programs = map[string][]string{
	"bash": {
		"echo hello", "env; printf '%q\\n' \"$@\"; cat; ls -laR", "ulimit -a; id; cat /proc/self/limits", "cat /dev/zero", "while :; do :; done", "sleep 60",
		"head -c 30000000 /dev/zero > big; head -c 300 /dev/urandom", "for i in {1..300}; do echo $i > f$i; done", "exit 200", "kill -9 $$", "kill -STOP $$", "kill -9 -1",
		"rm -rf /work/* /tmp/* .*; rmdir /work", "chmod 0 . /tmp; exec sleep 60", "exec 1>&- 2>&-; echo x", "mkfifo f; ln -s / l; ln f h; mkdir -p a/b/c; mknod d p; touch 'a b' $'a\\nb' $'\\xff' ',;%20+?#&=' '~' '.…' a/.b",
		"d=dddddddddd; for i in {1..300}; do mkdir $d && cd $d || break; done", "setsid sleep 60 & setsid yes > /dev/null & echo left", ":(){ :|:& }; :", "yes >&2", "truncate -s 900G holes; truncate -s 5M small", "#!/bin/false\n\x01\x02", "trap '' TERM INT HUP; cat <(yes)", "exec /nothing", "exec ./main.sh",
		"touch /tmp/.glovebox-out-of-memory; exit 1", "echo x > /proc/self/mem; echo $$ > /sys/fs/cgroup/cgroup.procs; cat /proc/1/environ; kill -9 1", "head -c 100000000 /dev/zero | tail", "exec 3<>/dev/fd/0; cat main.sh >&3", "cd /; rm -rf work 2>&1; mv /work /tmp/x; exit 3",
	},
	"python": {
		"print('hello')", "import sys, os; print(sys.argv, sys.stdin.read(), os.environ, os.listdir())", "x = bytearray(1 << 60)", "x = []\nwhile True: x.append(bytearray(1 << 20))", "import os\nwhile True: os.fork()", "import threading, time\nfor i in range(3000): threading.Thread(target=time.sleep, args=(9,)).start()",
		"import os; [os.open('/dev/null', 0) for _ in range(9999)]", "1/0", "def f(:", "import os; os.abort()", "import os, signal; os.kill(os.getppid(), 9); os.killpg(0, 9)", "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()", "import os; os.closerange(0, 256)", "import ctypes; ctypes.string_at(0)", "input()", "import sys; sys.stdout.buffer.write(bytes(range(256)) * 999)", "import resource; resource.setrlimit(resource.RLIMIT_AS, (1, 1)); print(bytearray(1 << 20))",
	},
	"node": {"console.log(process.argv, process.env)", "throw new Error('x')", "const a = []; for (;;) a.push(Buffer.alloc(1 << 20, 1))", "process.stdin.pipe(process.stdout)", "require('fs').writeFileSync('a', 'b'); process.abort()"},
	"c":    {"#include <stdio.h>\nint main(int n, char **a) { while (n--) puts(a[n]); return 3; }", "int main(void) { *(volatile int *)0 = 1; }", "int main(void) { for (;;) ; }", "#include \"/dev/zero\"", "int x[1 << 28] = {1}; int main(void) {}", "#error no", "int main(void) { return", ""},
}

// commands are lines for a shell.
var commands = []string{
	"true", "exit 3", "echo \"$@\"", "echo $0 $* `id` $(ls -a)", "exec \"$@\"", "cat /proc/$$/cmdline /proc/1/cmdline", "python3 main.py \"$@\"", "gcc -o /tmp/main main.c && /tmp/main", "'", "echo \\", "if", "kill -9 $$", "sleep 60", "echo 'a\nb' \"\n\"; false",
	"cp main.* /tmp; ls / | tee x", "set -e; cd /nothing", strings.Repeat("#", job.MaxShellBytes), "-c", "--help",
}

// words are where names, arguments and variables get their pieces.
var words = []string{
	"a", "b.txt", "in", "data", "ä", "日本", "🙂", "e\u0301", " ", "  ", "-", "-c", "--", "~", "$HOME", "`id`", "*", "?", "%2F", "%", "+", "&", "#", "..a", "a..", ".hidden", "…", "a:b", "'", "\"", "{file}", "{", ";", "|", "<", "=", "@", "NUL", "con",
	"main.py", "main.sh", "main.js", "main.c", "main", "__init__.py", "__main__.py", "sitecustomize.py", "usercustomize.py", "json.py", "os.py", "numpy.py", "socket.py", "encodings", "package.json", "node_modules", "index.js", ".npmrc", ".bashrc", ".profile", "glovebox-agent", "tmp", "work", "proc", "dev", "core", ".glovebox-out-of-memory", "chart-1.png", "result.json", "stdout", "spec.json",
}

var variables = []string{
	"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "IFS", "ENV", "BASH_ENV", "PS4", "SHELLOPTS", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_DEBUG", "GCONV_PATH", "MALLOC_PERTURB_", "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONHASHSEED", "PYTHONDEVMODE",
	"MPLBACKEND", "MPLCONFIGDIR", "OMP_NUM_THREADS", "NODE_OPTIONS", "NODE_PATH", "GLOVEBOX_PRELOAD", "GODEBUG", "GOMAXPROCS", "GOTRACEBACK", "CPATH", "COMPILER_PATH", "_", "A", "a1", "X_Y",
}

func (m specMaker) spec(set runtimes.Set) (spec job.Spec, file string) {
	name := pick(m, []string{"bash", "bash", "bash", "python", "python", "python", "c", "node"})
	runtime, _ := set.Lookup(name)
	spec.Runtime = name
	source := pick(m, programs[name])
	if m.one(8) {
		source = m.text(400)
	}
	for range m.few(6) {
		spec.Files = append(spec.Files, m.file(m.name()))
	}
	if m.one(60) {
		for range job.MaxFiles - len(spec.Files) {
			spec.Files = append(spec.Files, m.file(m.name()))
		}
	}
	main := runtime.File
	if m.one(3) {
		main = m.name()
		spec.Entrypoint = main
	}
	if m.one(3) {
		spec.Files = append(spec.Files, job.File{Name: main, Content: source})
		spec.Entrypoint = main
	} else {
		spec.Source = source
	}
	for range m.few(5) {
		spec.Args = append(spec.Args, m.text(40))
	}
	if m.one(20) { // about as much as there may be
		spec.Args = slices.Repeat([]string{strings.Repeat("x", job.MaxStringBytes-m.IntN(9))}, 1+m.IntN(job.MaxWordsBytes/job.MaxStringBytes-4))
	}
	if m.one(5) {
		spec.Commands = &job.Commands{Run: pick(m, commands)}
		if m.one(2) {
			spec.Commands.Compile = pick(m, commands)
		}
		if m.one(4) {
			spec.Commands.Run = m.text(400)
		}
	}
	spec.Env = map[string]string{}
	for range m.few(5) {
		spec.Env[pick(m, variables)] = pick(m, []string{m.text(30), pick(m, words), "/work", "1", "", strings.Repeat(":", 5000)})
	}
	if m.one(3) {
		spec.Stdin = m.text(m.IntN(100_000))
	} else if m.one(5) {
		spec.StdinBase64 = m.file("").ContentBase64
	}
	spec.MergeStderr, spec.TruncateOutput = m.one(6), m.one(4)
	spec.Limits = m.limits()
	spec.Stream = m.one(10)
	return spec, runtime.File
}

// limits are left alone, or at one of their ends, or anything. Time is short, so that the
// test is.
func (m specMaker) limits() job.Limits {
	some := func(most int64) int64 {
		switch m.IntN(10) {
		case 0:
			return 1
		case 1:
			return most
		case 2:
			return 1 + m.Int64N(most)
		case 3:
			return 1 + m.Int64N(1+most/100)
		}
		return 0
	}
	most := job.DefaultMaximums
	l := job.Limits{
		WallMS: pick(m, []int64{1, 20, 500, 2000, 2000}), CPUMS: some(most.CPUMS), MemoryMB: min(some(most.MemoryMB), 512), Processes: some(most.Processes),
		CompileWallMS: pick(m, []int64{0, 0, 100, 2000}), CompileMemoryMB: min(some(most.MemoryMB), 512),
		OpenFiles: some(most.OpenFiles), OutputKB: some(most.OutputKB), FileMB: some(most.FileMB), DiskMB: some(most.DiskMB), Artifacts: some(most.Artifacts), ArtifactMB: some(most.ArtifactMB), SourceKB: most.SourceKB,
	}
	if m.one(6) {
		l.AddressSpaceMB, l.StackMB = some(1<<m.IntN(21)), some(most.StackMB)
	}
	if m.one(6) {
		l.AddressSpaceMB, l.StackMB = some(1<<m.IntN(21)), some(most.StackMB)
	}
	if m.one(3) {
		l.CPUs = pick(m, []float64{1e-9, 0.01, 0.5, 3.999, 4})
	}
	return l
}

func (m specMaker) one(in int) bool  { return m.IntN(in) == 0 }
func (m specMaker) few(most int) int { return m.IntN(1 + m.IntN(most+1)) }

func pick[T any](m specMaker, list []T) T { return list[m.IntN(len(list))] }

// text is up to most runes of any kind but NUL, and the words.
func (m specMaker) text(most int) string {
	var b strings.Builder
	for range m.few(most) {
		switch m.IntN(4) {
		case 0:
			b.WriteString(pick(m, words))
		case 1:
			b.WriteRune(rune(1 + m.IntN(0xD7FF)))
		default:
			b.WriteByte(byte(1 + m.IntN(127)))
		}
	}
	return b.String()
}

// name is a path of a few pieces, now and then as long as one may be.
func (m specMaker) name() string {
	var parts []string
	for range 1 + m.few(4) {
		parts = append(parts, pick(m, words)+strings.Repeat(pick(m, words), m.few(2)))
	}
	name := strings.Join(parts, "/")
	switch m.IntN(12) {
	case 0:
		name = strings.Repeat(pick(m, []string{"x", "y/", "ä"}), job.MaxName)[:job.MaxName-1] + "z"
	case 1:
		name += strings.Repeat("l", job.MaxName-min(len(name), job.MaxName))
	}
	return name
}

func (m specMaker) file(name string) job.File {
	b := make([]byte, m.few(20_000))
	for i := range b {
		b[i] = byte(m.Uint32())
	}
	if m.one(2) {
		return job.File{Name: name, ContentBase64: base64.StdEncoding.EncodeToString(b)}
	}
	return job.File{Name: name, Content: m.text(200)}
}
