package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// echoing answers each line, and says so at the end.
const echoing = "import sys\nprint('ready', flush=True)\nfor line in sys.stdin: print('<' + line.strip() + '>', flush=True)\nprint('end')"

// dialog is what a job has printed so far, as its watcher sees it.
type dialog struct {
	g  *glovebox
	id string

	mu     sync.Mutex
	stdout string
	err    error
}

// talk submits an interactive job and watches it.
func (g *glovebox) talk(spec job.Spec) *dialog {
	g.tb.Helper()
	spec.Interactive = true
	d := &dialog{g: g, id: g.submit(spec)}
	go func() {
		for e, err := range g.client.Watch(g.tb.Context(), d.id, "") {
			d.mu.Lock()
			if e.Type == producer.EventStdout {
				d.stdout = d.stdout[:min(e.Offset, int64(len(d.stdout)))] + string(e.Data)
			}
			d.err = err
			d.mu.Unlock()
		}
	}()
	return d
}

// sees waits until the job has printed text, and nothing behind it.
func (d *dialog) sees(text string) {
	d.g.tb.Helper()
	gbtest.Eventually(d.g.tb, "the job prints "+text, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.err != nil {
			d.g.tb.Fatal(d.err)
		}
		return strings.HasSuffix(d.stdout, text)
	})
}

// sends sends input, also to a job whose worker was lost.
func (d *dialog) sends(in job.Input) {
	d.g.tb.Helper()
	gbtest.Eventually(d.g.tb, "the job takes input", func() bool {
		err := d.g.client.SendInput(d.g.tb.Context(), d.id, in)
		if err != nil && !errors.Is(err, job.ErrNotRunning) {
			d.g.tb.Fatal(err)
		}
		return err == nil
	})
}

// TestInteractive: a program answers what is sent to it while it runs, also one whose worker is lost in between: another one
// sends it the same once more.
func TestInteractive(t *testing.T) {
	t.Parallel()
	g := start(t, options{noWorker: true})
	doomed := g.startWorker()
	d := g.talk(job.Spec{Runtime: "python", Source: echoing, Limits: job.Limits{WallMS: 300_000}})
	d.sees("ready\n")
	d.sends(job.Input{Data: "one\n"})
	d.sees("<one>\n")
	d.sends(job.Input{Data: "two\n"})
	d.sees("<two>\n")
	doomed.Kill()
	g.startWorker()
	d.sends(job.Input{Data: "three\n"})
	d.sees("ready\n<one>\n<two>\n<three>\n")
	d.sends(job.Input{Data: "last", EOF: true})
	r := g.wait(d.id)
	if r.Status != job.Succeeded || r.Stdout != "ready\n<one>\n<two>\n<three>\n<last>\nend\n" || r.Attempt != 2 {
		t.Errorf("got %+v", r)
	}
	if err := g.client.SendInput(t.Context(), d.id, job.Input{Data: "late"}); !errors.Is(err, job.ErrEnded) {
		t.Errorf("got %v, want ErrEnded", err)
	}
	if err := g.client.SendInput(t.Context(), g.submit(job.Spec{Runtime: "bash", Source: "sleep 9"}), job.Input{Data: "late"}); job.CodeOf(err) != job.CodeNoInput && !errors.Is(err, job.ErrNotRunning) {
		t.Errorf("got %v, want a refusal", err)
	}

	stopped := g.talk(job.Spec{Runtime: "bash", Source: "trap 'echo bye; exit 3' INT; echo ready; while :; do sleep 0.1; done", Limits: job.Limits{WallMS: 300_000, CPUMS: 300_000}})
	stopped.sees("ready\n")
	stopped.sends(job.Input{Signal: "SIGINT"})
	if r := g.wait(stopped.id); r.Status != job.Failed || r.Stdout != "ready\nbye\n" || *r.ExitCode != 3 {
		t.Errorf("interrupted: got %+v", r)
	}
}

// TestInteractiveRedisRestarts: input that was accepted is there when Redis is back, and what is sent then arrives, too.
func TestInteractiveRedisRestarts(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	d := g.talk(job.Spec{Runtime: "python", Source: echoing, Limits: job.Limits{WallMS: 300_000}})
	d.sees("ready\n")
	d.sends(job.Input{Data: "one\n"})
	d.sees("<one>\n")
	g.redis.Kill()
	g.redis.Restart()
	var err error
	gbtest.Eventually(t, "the api takes input again", func() bool {
		err = g.client.SendInput(t.Context(), d.id, job.Input{Data: "two\n", EOF: true})
		return err == nil || errors.Is(err, job.ErrInputClosed) // an answer got lost
	})
	if r := g.wait(d.id); r.Status != job.Succeeded || r.Stdout != "ready\n<one>\n<two>\nend\n" {
		t.Errorf("got %+v", r)
	}
}

// TestRunInteractive: glovebox run -i is a program at one's terminal.
func TestRunInteractive(t *testing.T) {
	t.Parallel()
	g := start(t, options{})
	file := filepath.Join(t.TempDir(), "guess.py")
	if err := os.WriteFile(file, []byte("name = input('name? ')\nprint('hello', name)\nage = int(input('age? '))\nprint(age + 1)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := g.atTerminal("run", "-i", "--limit", "wall_ms=300000", file)
	p.sees("name? ")
	p.types("Ada\r")
	p.sees("hello Ada")
	p.sees("age? ")
	p.types("36\r")
	p.sees("37")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("got %v, want the program's success", err)
	}
}
