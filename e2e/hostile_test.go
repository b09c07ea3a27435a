package e2e

import (
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// hostile is what people who mean harm submit, and how it may end.
type hostile struct {
	name  string
	spec  job.Spec
	might []job.Status
}

var hostiles = []hostile{
	{"fork bomb", job.Spec{Runtime: "bash", Source: ":(){ :|:& };:", Limits: job.Limits{WallMS: 2000}}, []job.Status{job.Succeeded, job.Failed, job.TimedOut}},
	{"forks without end", python("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", job.Limits{WallMS: 2000}), []job.Status{job.TimedOut, job.OutOfMemory}}, // 64 Pythons at once may have written to more than they may hold
	{"threads without end", python("import threading, time\nwhile True:\n  try: threading.Thread(target=time.sleep, args=(99,)).start()\n  except RuntimeError: time.sleep(0.1)", job.Limits{WallMS: 2000}), []job.Status{job.TimedOut}},
	{"memory of one process", python("x = b'x' * (1 << 30)", job.Limits{MemoryMB: 64}), []job.Status{job.OutOfMemory}},
	{"memory of many processes", python("import os, time\nfor i in range(8):\n  if os.fork() == 0: x = b'x' * (20 << 20); time.sleep(60); os._exit(0)\ntime.sleep(60)", job.Limits{MemoryMB: 64}), []job.Status{job.OutOfMemory}},
	{"memory in /dev/shm", bash("head -c 1G /dev/zero >/dev/shm/x; sleep 60", job.Limits{MemoryMB: 64, FileMB: 1024}), []job.Status{job.OutOfMemory}},
	{"memory in a memfd", python("import os\nm = os.memfd_create('x')\nwhile True: os.write(m, bytes(1 << 20))", job.Limits{MemoryMB: 64, FileMB: 1024}), []job.Status{job.OutOfMemory}},
	{"a full disk", bash("head -c 1G /dev/zero >x; head -c 1G /dev/zero >y", job.Limits{DiskMB: 8}), []job.Status{job.Failed}},
	{"files without end", python("n = 0\nwhile True: open(str(n), 'w').close(); n += 1", job.Limits{WallMS: 3000}), []job.Status{job.TimedOut, job.OutOfMemory, job.Failed}},
	{"a flood on both streams", bash("yes & yes >&2", job.Limits{OutputKB: 256}), []job.Status{job.OutputLimitExceeded}},
	{"daemons", bash("for i in 1 2 3 4 5; do setsid bash -c 'trap \"\" TERM HUP; while :; do sleep 1; done' >/dev/null 2>&1 & done; sleep 0.2", job.Limits{}), []job.Status{job.Succeeded}},
	{"daemons that hold the streams", bash("setsid sleep 1000 & setsid sleep 1000 &", job.Limits{WallMS: 3000}), []job.Status{job.Succeeded, job.TimedOut}},
	{"a farm of links", python("import os\nfor i in range(1500):\n  os.symlink('/proc/1/root' if i % 2 else '../../etc', f's{i}'); os.mkfifo(f'f{i}')\nopen('x', 'w').write('x'); [os.link('x', f'h{i}') for i in range(200)]", job.Limits{}), []job.Status{job.Succeeded}},
	{"closed descriptors", python("import os, time\nos.closerange(0, 1024); time.sleep(0.2); os._exit(0)", job.Limits{}), []job.Status{job.Succeeded}},
	{"binary garbage", bash("head -c 500000 /dev/urandom; head -c 500000 /dev/urandom >&2", job.Limits{}), []job.Status{job.Succeeded}},
	{"stdin that nobody reads", job.Spec{Runtime: "bash", Source: "exit 0", Stdin: strings.Repeat("x", 900_000)}, []job.Status{job.Succeeded}},
	{"kill everybody", bash("kill -9 1; kill -STOP 1; kill -9 -1; kill -9 0", job.Limits{}), []job.Status{job.Failed}},
	{"endless sleep", bash("trap '' TERM INT HUP; while :; do sleep 9; done", job.Limits{WallMS: 700}), []job.Status{job.TimedOut}},
	{"all the CPU", python("import os\nos.fork(); os.fork()\nwhile True: pass", job.Limits{CPUMS: 800}), []job.Status{job.TimedOut}},
	{"many artifacts", python("for i in range(400): open(f'{i}.bin', 'wb').write(bytes(5000))", job.Limits{}), []job.Status{job.Succeeded}},
	{"artifacts too large", bash("truncate -s 60M a; truncate -s 40M b; head -c 3000000 /dev/urandom >c", job.Limits{}), []job.Status{job.Succeeded}},
	{"a deep tree", python("import os\nfor i in range(600):\n  os.mkdir('d'); os.chdir('d')\nopen('x', 'w').write('x')", job.Limits{}), []job.Status{job.Succeeded}},
	{"paths that change", bash("mkdir a; echo x >a/x; (while :; do mv a b; ln -s /etc a; rm a; mv b a; done) & sleep 0.5", job.Limits{WallMS: 3000}), []job.Status{job.Succeeded, job.TimedOut}},
	{"zombies", python("import os\nfor i in range(80):\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: pass", job.Limits{}), []job.Status{job.Succeeded, job.OutOfMemory}}, // where children are kept from running, they are as many
	{"forged frames", python("import os\nfor fd in range(3, 64):\n  try: os.write(fd, b'G\\0\\0\\0\\2{}')\n  except OSError: pass\nos.write(1, b'E\\0\\0\\0\\3xyzG\\0\\0\\0\\2{}')", job.Limits{}), []job.Status{job.Succeeded}},
	{"a crash", bash("ulimit -c unlimited; kill -SEGV $$", job.Limits{}), []job.Status{job.Failed}},
	{"a syntax error", job.Spec{Runtime: "node", Source: "((("}, []job.Status{job.Failed}},
	{"nothing bad at all", job.Spec{Runtime: "node", Source: "require('fs').writeFileSync('x', 'y')"}, []job.Status{job.Succeeded}},
}

func bash(source string, l job.Limits) job.Spec {
	return job.Spec{Runtime: "bash", Source: source, Limits: l}
}

func python(source string, l job.Limits) job.Spec {
	return job.Spec{Runtime: "python", Source: source, Limits: l}
}
