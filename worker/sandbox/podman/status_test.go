package podman_test

import (
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

func command(argv ...string) func(*sandbox.Program) {
	return func(p *sandbox.Program) { p.Command = argv }
}

func TestStatus(t *testing.T) {
	t.Parallel()
	kb := strings.Repeat("x", 1023) + "\n"
	tests := []struct {
		name     string
		program  sandbox.Program
		status   job.Status
		exitCode int
		signal   string
		stdout   string // exactly, unless "…"
		stderr   string // a part
		within   time.Duration
	}{
		{name: "hello", program: program("print('hello')"), status: job.Succeeded, stdout: "hello\n"},
		{name: "exit code", program: program("import sys; sys.exit(7)"), status: job.Failed, exitCode: 7},
		{name: "uncaught error", program: program("1/0"), status: job.Failed, exitCode: 1, stderr: "ZeroDivisionError"},
		{name: "signal", program: program("import os; os.kill(os.getpid(), 11)"), status: job.Failed, exitCode: 139, signal: "SIGSEGV"},
		{name: "kills all it may", program: bash("echo x; kill -9 -1 2>/dev/null; kill -9 1 2>/dev/null; kill -9 0"), status: job.Failed, exitCode: 137, signal: "SIGKILL", stdout: "x\n"},
		{name: "stdin and args", program: program("import sys; print(sys.argv[1:], sys.stdin.read())", command("python3", "main.py", "a b", ";ls", "$HOME", ""), func(p *sandbox.Program) { p.Stdin = []byte("in\x00\x10\xff") }, func(p *sandbox.Program) { p.Env["PYTHONIOENCODING"] = "utf-8:surrogateescape" }), status: job.Succeeded, stdout: "['a b', ';ls', '$HOME', ''] in\x00\x10\xff\n"},
		{name: "binary output", program: program("import sys; sys.stdout.buffer.write(bytes(range(256)))"), status: job.Succeeded, stdout: allBytes()},
		{name: "no stdin", program: program("import sys; print(repr(sys.stdin.read()))"), status: job.Succeeded, stdout: "''\n"},
		{name: "wall clock", program: bash("echo a; sleep 60", limits(job.Limits{WallMS: 20_000})), status: job.TimedOut, exitCode: 124, stdout: "a\n", stderr: "Execution timed out", within: time.Minute},
		{name: "wall clock, signals ignored", program: bash("trap '' TERM INT HUP XCPU; while :; do sleep 0.1; done", limits(job.Limits{WallMS: 500})), status: job.TimedOut, exitCode: 124, within: gbtest.AtOnce},
		{name: "cpu time of all processes", program: program("import os\nos.fork(); os.fork()\nwhile True: pass", limits(job.Limits{CPUMS: 600, WallMS: 20_000})), status: job.TimedOut, exitCode: 124, stderr: "Execution timed out"},
		{name: "memory", program: program("x = bytearray(1 << 30)", limits(job.Limits{MemoryMB: 128})), status: job.OutOfMemory, exitCode: 137, signal: "SIGKILL"},
		{name: "memory in processes", program: program("import os, time\nfor i in range(4):\n  if os.fork() == 0:\n    x = bytearray(40 << 20); time.sleep(50); os._exit(0)\ntime.sleep(50)", limits(job.Limits{MemoryMB: 128, WallMS: 60_000})), status: job.OutOfMemory, exitCode: 137, signal: "SIGKILL"},
		{name: "memory in files", program: program("open('/tmp/x', 'wb').write(bytes(40 << 20)); open('/dev/shm/x', 'wb').write(bytes(60 << 20)); import time; time.sleep(50)", limits(job.Limits{MemoryMB: 64, WallMS: 60_000})), status: job.OutOfMemory, exitCode: 137, signal: "SIGKILL"},
		{name: "memory in memfd", program: program("import os\nm = os.memfd_create('x')\nwhile True: os.write(m, bytes(1 << 20))", limits(job.Limits{MemoryMB: 64, FileMB: 1024})), status: job.OutOfMemory, exitCode: 137, signal: "SIGKILL"},
		{name: "memory of the kernel", program: program("import os\nn = 0\nwhile True: os.mkdir(f'/tmp/{n}'); n += 1", limits(job.Limits{MemoryMB: 32, WallMS: 300_000})), status: job.OutOfMemory, exitCode: 137, signal: "SIGKILL"},
		{name: "memory that nobody has", program: program("x = bytearray(1 << 60)"), status: job.OutOfMemory, exitCode: 1, stderr: "MemoryError"},
		{name: "memory that numpy can't have", program: program("import numpy\nx = numpy.zeros(10**15)"), status: job.OutOfMemory, exitCode: 1, stderr: "_ArrayMemoryError"},
		{name: "memory that a child can't have", program: bash("python3 -c 'x = [0] * 10**15'"), status: job.OutOfMemory, exitCode: 1, stderr: "MemoryError"},
		{name: "memory that a job forbids itself", program: program("import resource as r\nr.setrlimit(r.RLIMIT_AS, (200 << 20, 200 << 20))\nx = bytearray(300 << 20)"), status: job.OutOfMemory, exitCode: 1, stderr: "MemoryError"},
		{name: "memory that a job does without", program: program("try: x = bytearray(1 << 60)\nexcept MemoryError: print('so be it')"), status: job.Succeeded, stdout: "so be it\n"},
		{name: "memory that a child does without", program: bash("python3 -c 'x = [0] * 10**15' 2>/dev/null || echo so be it"), status: job.Succeeded, stdout: "so be it\n"},
		{name: "another failure after memory", program: program("try: x = bytearray(1 << 60)\nexcept MemoryError: pass\n1/0"), status: job.Failed, exitCode: 1, stderr: "ZeroDivisionError"},
		{name: "memory that fits", program: program("x = bytearray(80 << 20)", limits(job.Limits{MemoryMB: 128})), status: job.Succeeded},
		{name: "stdout at its limit", program: program("import sys; sys.stdout.write("+pyKB+" * 4)", limits(job.Limits{OutputKB: 4})), status: job.Succeeded, stdout: strings.Repeat(kb, 4)},
		{name: "stdout beyond its limit", program: program("import sys; sys.stdout.write("+pyKB+" * 4 + 'y'); sys.stdout.flush(); import time; time.sleep(60)", limits(job.Limits{OutputKB: 4})), status: job.OutputLimitExceeded, exitCode: 137, signal: "SIGKILL", stdout: strings.Repeat(kb, 4), within: gbtest.AtOnce},
		{name: "stdout without end", program: bash("yes", limits(job.Limits{OutputKB: 1})), status: job.OutputLimitExceeded, exitCode: 137, signal: "SIGKILL", stdout: strings.Repeat("y\n", 512)},
		{name: "stderr beyond its limit", program: bash("echo out; yes >&2", limits(job.Limits{OutputKB: 4})), status: job.OutputLimitExceeded, exitCode: 137, signal: "SIGKILL", stdout: "out\n"},
		{name: "command not found", program: program("", command("no-such-command")), status: job.Failed, exitCode: 127, stderr: "no-such-command: command not found"},
		{name: "not executable", program: program("", command("./main.py")), status: job.Failed, exitCode: 126, stderr: "permission denied"},
		{name: "a directory", program: program("", command("/tmp")), status: job.Failed, exitCode: 126, stderr: "/tmp"},
		{name: "PATH of the job", program: bash("printf '#!/bin/sh\necho mine\n' >x; chmod +x x; x", func(p *sandbox.Program) { p.Env["PATH"] = "/work:/usr/bin" }), status: job.Succeeded, stdout: "mine\n"},
		{name: "too many words", program: program("", func(p *sandbox.Program) { p.Command = append(p.Command, strings.Repeat("x", 3<<20)) }), status: job.Failed, exitCode: 126, stderr: "argument list too long"},
		{name: "inputs beyond the disk", program: program("", func(p *sandbox.Program) {
			p.Files = append(p.Files, sandbox.File{Name: "big", Content: make([]byte, 2<<20)})
		}, limits(job.Limits{DiskMB: 1})), status: job.Failed, exitCode: 1, stderr: "limits.disk_mb"},
		{name: "no core, no raising of limits", program: program("import resource as r\nprint(r.getrlimit(r.RLIMIT_CORE), r.getrlimit(r.RLIMIT_NOFILE))\ntry: r.setrlimit(r.RLIMIT_NOFILE, (64, 65))\nexcept Exception as e: print(e)", limits(job.Limits{OpenFiles: 32})), status: job.Succeeded, stdout: "(0, 0) (32, 32)\nnot allowed to raise maximum limit\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, k := run(t, tt.program)
			if o.Status != tt.status || o.ExitCode != tt.exitCode || o.Signal != tt.signal {
				t.Errorf("got %s %d %q, want %s %d %q\nstdout %.200q\nstderr %.500q", o.Status, o.ExitCode, o.Signal,
					tt.status, tt.exitCode, tt.signal, k.stdout.String(), k.stderr.String())
			}
			if got := k.stdout.String(); got != tt.stdout {
				t.Errorf("stdout: got %.200q, want %.200q", got, tt.stdout)
			}
			if !strings.Contains(k.stderr.String(), tt.stderr) {
				t.Errorf("stderr: got %.500q, want a part %q", k.stderr.String(), tt.stderr)
			}
			if wall := time.Duration(o.Usage.WallMS) * time.Millisecond; tt.within > 0 && wall > tt.within {
				t.Errorf("it ran for %v, want at most %v", wall, tt.within)
			}
		})
	}
}

// pyKB is a line of 1 KiB, in Python.
const pyKB = "('x' * 1023 + '\\n')"

func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// TestMaximums: a job may ask for as much as an operator allows by default.
func TestMaximums(t *testing.T) {
	t.Parallel()
	o, k := run(t, program("import resource as r\nprint(r.getrlimit(r.RLIMIT_NOFILE)[0], r.getrlimit(r.RLIMIT_FSIZE)[0] >> 20)\nfiles = [open('/dev/null') for i in range(4000)]", limits(job.DefaultMaximums)))
	if o.Status != job.Succeeded || k.stdout.String() != "4096 1024\n" {
		t.Errorf("got %+v %q %q", o, k.stdout.String(), k.stderr.String())
	}
}

// TestUsageOfThreads: stacks that nothing touches are no memory.
func TestUsageOfThreads(t *testing.T) {
	t.Parallel()
	o, k := run(t, program("import threading, time\nfor i in range(150): threading.Thread(target=time.sleep, args=(1,)).start()", limits(job.Limits{Processes: 200, MemoryMB: 96})))
	if o.Status != job.Succeeded || o.Usage.MemoryPeakBytes > 96<<20 {
		t.Errorf("got %+v, want at most 96 MiB\n%s", o, k.stderr.String())
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	compile := func(script string, options ...func(*sandbox.Program)) sandbox.Program {
		return bash("cat made; echo made by the program >left", append(options, func(p *sandbox.Program) { p.Compile = []string{"bash", "-c", script} })...)
	}
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		o, k := run(t, compile("echo warning >&2; echo it works >made"))
		if o.Status != job.Succeeded || k.stdout.String() != "it works\n" || o.Compile == nil || o.Compile.Output != "warning\n" || o.Compile.ExitCode != 0 {
			t.Errorf("got %+v %+v %q", o, o.Compile, k.stdout.String())
		}
		if k.names() != "left" {
			t.Errorf("artifacts: got %q, want only what the program left", k.names())
		}
	})
	t.Run("bad", func(t *testing.T) {
		t.Parallel()
		o, k := run(t, compile("echo main.c:1: error; exit 3"))
		if o.Status != job.CompileFailed || o.ExitCode != 3 || o.Compile.Output != "main.c:1: error\n" || k.stdout.Len() != 0 || len(k.artifacts) != 0 {
			t.Errorf("got %+v %+v", o, o.Compile)
		}
	})
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		o, _ := run(t, compile("sleep 60", limits(job.Limits{CompileWallMS: 400})))
		if o.Status != job.CompileFailed || o.ExitCode != 124 || !strings.Contains(o.Compile.Output, "timed out") {
			t.Errorf("got %+v %+v", o, o.Compile)
		}
	})
	t.Run("busy for too long", func(t *testing.T) {
		t.Parallel()
		o, _ := run(t, compile("while :; do :; done", limits(job.Limits{CompileWallMS: 1000, CPUs: 0.2})))
		if o.Status != job.CompileFailed || o.ExitCode != 124 || !strings.Contains(o.Compile.Output, "timed out") {
			t.Errorf("got %+v %+v", o, o.Compile)
		}
	})
	t.Run("too much memory", func(t *testing.T) {
		t.Parallel()
		o, _ := run(t, compile("cat /dev/zero > /dev/shm/x; sleep 60", limits(job.Limits{CompileMemoryMB: 40})))
		if o.Status != job.CompileFailed || !strings.Contains(o.Compile.Output, "out of memory") {
			t.Errorf("got %+v %+v", o, o.Compile)
		}
	})
	t.Run("longer and larger than its program may be", func(t *testing.T) {
		t.Parallel()
		o, _ := run(t, compile("head -c 60M /dev/zero | tail -c 60M | wc -c; sleep 21", limits(job.Limits{WallMS: 20_000, CompileWallMS: 60_000, MemoryMB: 40, CompileMemoryMB: 128})))
		if o.Status != job.Succeeded || o.Compile == nil || o.Compile.WallMS < 21_000 || o.Compile.Output != "62914560\n" {
			t.Errorf("got %+v %+v", o, o.Compile)
		}
	})
	t.Run("memory that it frees is not the program's", func(t *testing.T) {
		t.Parallel()
		o, _ := run(t, compile("head -c 50M /dev/zero >/dev/shm/x; head -c 50M /dev/zero >/dev/shm/y; touch made; rm /dev/shm/?", limits(job.Limits{MemoryMB: 128})))
		if o.Status != job.Succeeded || o.Usage.MemoryPeakBytes > 50<<20 || o.Compile.Output != "" {
			t.Errorf("got %+v %+v", o, o.Compile)
		}
	})
	t.Run("too much output", func(t *testing.T) {
		t.Parallel()
		o, _ := run(t, compile("head -c 1000000 /dev/zero | tr '\\0' x; exit 1"))
		if o.Status != job.CompileFailed || len(o.Compile.Output) != 64<<10-256 { // there is room for why it ended
			t.Errorf("got %s, %d bytes", o.Status, len(o.Compile.Output))
		}
	})
	t.Run("not there", func(t *testing.T) {
		t.Parallel()
		p := compile("")
		p.Compile = []string{"no-such-compiler"}
		o, _ := run(t, p)
		if o.Status != job.CompileFailed || o.ExitCode != 127 || !strings.Contains(o.Compile.Output, "command not found") {
			t.Errorf("got %+v %+v", o, o.Compile)
		}
	})
}
