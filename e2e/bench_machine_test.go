package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// machine says on what, and with which versions, was measured.
func (b *bench) machine() []string {
	b.t.Helper()
	first := fmt.Sprintf("%s, commit %s, %.0f s.", time.Now().UTC().Format(time.DateOnly), commit(), time.Since(b.began).Seconds())
	if b.scale < 1 {
		first += fmt.Sprintf(" **It measured for %g of the time that its figures need.**", b.scale)
	}
	memory, err := kilobytes(b.read("/proc/meminfo"), "MemTotal")
	b.must(err)
	return []string{
		first,
		fmt.Sprintf("Machine: %d × %s, %.0f GiB, Linux %s", runtime.NumCPU(), b.processor(), float64(memory)/(1<<30), strings.TrimSpace(string(b.read("/proc/sys/kernel/osrelease")))),
		fmt.Sprintf("Versions: %s, %s, %s, %s", runtime.Version(), b.version("podman", "--version"),
			b.version(filepath.Join(gbtest.ToolsDir, "runsc"), "--version"), b.version("redis-server", "--version")),
		"Redis with its append-only file, synced at every write; S3 is versitygw over a directory; all on this machine, the callers too",
		"Percentiles are by nearest rank; what is compared ran in turns; each section's first runs are left out",
	}
}

// commit is what make was told by git.
func commit() string {
	if c := os.Getenv("GLOVEBOX_BENCH_COMMIT"); c != "" {
		return c
	}
	return "unknown"
}

func (b *bench) read(path string) []byte {
	b.t.Helper()
	text, err := os.ReadFile(path)
	b.must(err)
	return text
}

func (b *bench) processor() string {
	b.t.Helper()
	found := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(b.read("/proc/cpuinfo"))
	if found == nil {
		return runtime.GOARCH // a processor that doesn't say
	}
	return string(found[1])
}

// version is the first line of what a program says of itself.
func (b *bench) version(argv ...string) string {
	b.t.Helper()
	out, err := exec.CommandContext(b.t.Context(), argv[0], argv[1:]...).Output()
	b.must(err)
	line, _, _ := strings.Cut(string(out), "\n")
	line, _, _ = strings.Cut(line, " malloc=") // of how Redis was built
	return strings.TrimSpace(line)
}
