package podman_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// about is a command about the session's files.
func about(do, name string) step { return inFiles(job.FileCommand{Do: do, Name: name}) }

func inFiles(c job.FileCommand) step {
	return step{code: c.Code(), in: sandbox.Context{Language: job.FilesLanguage}}
}

// given writes a file.
func given(name, content string) step {
	return step{files: []sandbox.File{{Name: name, Content: []byte(content)}}, in: sandbox.Context{Language: job.FilesLanguage}}
}

// hostileFiles makes what a directory can hold that is no plain file.
const hostileFiles = `
import os, socket
x = 41
os.makedirs('d/e'); open('d/e/f.txt', 'w').write('inside'); os.mkdir('empty')
open('plain.txt', 'w').write('plain')
os.symlink('plain.txt', 'link'); os.symlink('d', 'dirlink'); os.symlink('/proc/self', 'proc'); os.symlink('/etc/passwd', 'passwd'); os.symlink('loop', 'loop')
os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket')
open('once', 'w').write('1'); os.link('once', 'twice')
open('secret', 'w').write('s'); os.chmod('secret', 0)
os.mkdir('closed'); os.chmod('closed', 0)
open('two\nlines', 'w'); open(b'\xff', 'w')
with open('sparse', 'wb') as f: f.truncate(3 << 20)
`

// TestSessionFiles: commands about files do what they say, with the session's rights, and follow no link. What the session's code knows stays.
func TestSessionFiles(t *testing.T) {
	t.Parallel()
	const listed = `{"files":[` +
		`{"name":"closed","kind":"directory"},{"name":"d","kind":"directory"},{"name":"dirlink","kind":"link"},{"name":"empty","kind":"directory"},{"name":"fifo","kind":"fifo"},` +
		`{"name":"link","kind":"link"},{"name":"loop","kind":"link"},{"name":"once","kind":"file","size":1,"problem":"has more than one hard link"},{"name":"passwd","kind":"link"},` +
		`{"name":"plain.txt","kind":"file","size":5},{"name":"proc","kind":"link"},{"name":"secret","kind":"file","size":1},{"name":"socket","kind":"socket"},` +
		`{"name":"sparse","kind":"file","size":3145728},{"name":"twice","kind":"file","size":1,"problem":"has more than one hard link"},` +
		`{"name":"two\nlines","kind":"file","problem":"its name has a control or format character"},{"name":"` + "\ufffd" + `","kind":"file","problem":"its name is not UTF-8"}]}`
	refused := func(s step, code string) (step, want) {
		return s, want{status: job.Failed, code: 1, stderr: code + ": "}
	}
	var todo []step
	var wanted []want
	add := func(s step, w want) { todo, wanted = append(todo, s), append(wanted, w) }
	add(about(job.ListFiles, ""), want{stdout: `{"files":[]}`}) // before there is an interpreter
	add(given("new/a.txt", "given"), want{})
	add(about(job.ReadFile, "new/a.txt"), want{})
	add(about(job.DeleteFile, "new/a.txt"), want{})
	add(about(job.DeleteFile, "new"), want{})
	add(step{code: hostileFiles}, want{})
	add(about(job.ListFiles, ""), want{stdout: listed})
	add(about(job.ListFiles, "d/e"), want{stdout: `{"files":[{"name":"f.txt","kind":"file","size":6}]}`})
	add(about(job.ReadFile, "d/e/f.txt"), want{})
	for name, code := range map[string]string{
		"missing": job.CodeNoFile, "d/missing": job.CodeNoFile, "missing/a": job.CodeNoFile, "d": job.CodeFileRefused, "link": job.CodeFileRefused, "dirlink/e/f.txt": job.CodeFileRefused,
		"proc/status": job.CodeFileRefused, "passwd": job.CodeFileRefused, "loop": job.CodeFileRefused, "loop/a": job.CodeFileRefused, "fifo": job.CodeFileRefused, "socket": job.CodeFileRefused,
		"once": job.CodeFileRefused, "secret": job.CodeFileRefused, "closed/a": job.CodeFileRefused, "plain.txt/a": job.CodeFileRefused, "sparse": job.CodeTooLarge,
		strings.Repeat("n", 255): job.CodeNoFile,
	} {
		add(refused(about(job.ReadFile, name), code))
	}
	for _, s := range []step{
		about(job.ListFiles, "dirlink"), about(job.ListFiles, "proc"), about(job.ListFiles, "plain.txt"), about(job.ListFiles, "closed"), about(job.DeleteFile, "d"), about(job.DeleteFile, "dirlink/e"),
		about(job.MakeDirectory, "plain.txt"), about(job.MakeDirectory, "dirlink/g"), about(job.MakeDirectory, "proc/g"), given("dirlink/a", "1"), given("proc/fd/9", "1"), given("d", "1"), given("plain.txt/a", "1"),
		inFiles(job.FileCommand{Do: job.ListFiles, After: "not a page!"}),
		{code: "{", in: sandbox.Context{Language: job.FilesLanguage}},
	} {
		add(refused(s, job.CodeFileRefused))
	}
	add(refused(about(job.DeleteFile, "missing"), job.CodeNoFile))
	add(refused(given("large", strings.Repeat("x", 17<<20)), job.CodeTooLarge))
	add(about(job.MakeDirectory, "g/h"), want{})
	add(about(job.MakeDirectory, "g/h"), want{}) // it is there
	add(about(job.DeleteFile, "link"), want{})
	add(given("passwd", "mine"), want{}) // in the place of the link
	add(about(job.ReadFile, "passwd"), want{})
	add(step{code: "import os; x + 1, os.path.isdir('g/h'), os.path.exists('plain.txt'), os.path.lexists('link'), open('/etc/passwd').read() != 'mine'"}, want{stdout: "(42, True, True, False, True)\n"})
	prepared := preloaded(t, "session-files", 1)
	awaitPreloaded(t, prepared)
	first, o := turnsIn(t, prepared, sessionOf(t, "python"), about(job.ListFiles, ""), given("a.txt", "1"), about(job.ListFiles, ""), step{code: "open('a.txt').read()"})
	if check(t, first, want{stdout: `{"files":[]}`}, want{}, want{stdout: `{"files":[{"name":"a.txt","kind":"file","size":1}]}`}, want{stdout: "'1'\n"}); !o.Preloaded {
		t.Error("the session was not prepared")
	}
	p := sessionOf(t, "python")
	p.Limits.DiskMB, p.Limits.ArtifactMB = 16, 2
	got := turns(t, p, todo...)
	check(t, got, wanted...)
	for i, s := range todo {
		content := map[string]string{"new/a.txt": "given", "d/e/f.txt": "inside", "passwd": "mine"}
		for name, text := range content {
			if s.code != about(job.ReadFile, name).code || wanted[i].status == job.Failed {
				continue
			}
			if a := got[i].artifacts; len(a) != 1 || a[0].name != name || a[0].bytes != text {
				t.Errorf("turn %d: read %s, got %+v", i+1, name, a)
			}
			delete(content, name)
		}
	}
}

// TestSessionFilesAtRest: a file that a thread writes to all the time stands still while it is read, and a directory of many entries is listed page by page.
func TestSessionFilesAtRest(t *testing.T) {
	t.Parallel()
	const entries = 3000
	p := &pager{steps: steps{todo: []step{
		{code: fmt.Sprintf(`
import os, threading
def grow():
    with open('growing', 'ab', 0) as f:
        while True: f.write(b'x')
open('growing', 'w').close(); threading.Thread(target=grow, daemon=True).start()
os.mkdir('many')
for i in range(%d): open(f'many/{i:05}-' + 'n' * 200, 'w').close()`, entries)},
		about(job.ReadFile, "growing"), about(job.ReadFile, "growing"),
		{code: "os.path.getsize('growing') > 0"},
		about(job.ListFiles, "many"),
	}}}
	program := sessionOf(t, "python")
	program.Turns = p
	if o, err := open(t).Run(t.Context(), program, &kept{}); err != nil || o.Lost || len(p.done) < 5 {
		t.Fatalf("lost %v, %v, after %d turns", o.Lost, err, len(p.done))
	}
	check(t, p.done, want{}, want{}, want{}, want{stdout: "True\n"})
	first, second := p.done[1].artifacts, p.done[2].artifacts
	if len(first) != 1 || len(second) != 1 || first[0].size == 0 || first[0].bytes != second[0].bytes {
		t.Errorf("a file that is written to was read as %d and %d files", len(first), len(second))
	}
	if len(p.names) != entries || !slices.IsSorted(p.names) || len(slices.Compact(p.names)) != entries {
		t.Errorf("%d names were listed, want %d, each once, in order", len(p.names), entries)
	}
}

// pager lists a directory page by page, once the last of its steps has listed the first.
type pager struct {
	steps

	names []string
}

func (p *pager) Ended(ctx context.Context, o sandbox.TurnOutcome) error {
	if err := p.steps.Ended(ctx, o); err != nil || len(p.done) < len(p.todo) {
		return err
	}
	list, err := job.ParseFileList(p.done[len(p.done)-1].stdout.String())
	if err != nil {
		return err
	}
	for _, f := range list.Files {
		p.names = append(p.names, f.Name)
	}
	if list.Next != "" && len(list.Files) > 0 {
		p.todo = append(p.todo, inFiles(job.FileCommand{Do: job.ListFiles, Name: "many", After: list.Next}))
	}
	return nil
}
