package podman_test

import (
	"context"
	"io"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

// TestTurnsFiles: the first turn has the files that the session brings, which are sent only when they change.
func TestTurnsFiles(t *testing.T) {
	t.Parallel()
	p := sessionOf(t, "python")
	p.Files = []sandbox.File{{Name: "in.txt", Content: []byte("in")}, {Name: "dir/other.txt", Content: []byte("other")}}
	got := turns(t, p, step{code: "import os, shutil; print(open('in.txt').read())"}, step{code: "os.link('in.txt', 'also'); os.remove('also'); print('more', file=open('in.txt', 'a')); os.symlink('in.txt', 'link')"},
		step{code: "n = open('dir/other.txt', 'w').write('new')"}, step{code: "shutil.rmtree('dir'); os.remove('in.txt'); os.remove('link')"})
	check(t, got, want{stdout: "in\n"}, want{}, want{}, want{})
	for i, names := range []string{"", "in.txt", "dir/other.txt", ""} {
		if got[i].names() != names {
			t.Errorf("turn %d sent %q, want %q", i+1, got[i].names(), names)
		}
	}
	if s := got[1].Skipped; len(s) != 1 || s[0].Name != "link" || got[1].SkippedTotal != 1 {
		t.Errorf("skipped %+v, %d in all, want the link", s, got[1].SkippedTotal)
	}
}

// TestTurnsGiven: a turn's files are there before its code, in the place of what has their names, and are sent only when the code
// changes them. What can't be made is said, and the code is not executed. Links lead nowhere that the code could not write itself.
func TestTurnsGiven(t *testing.T) {
	t.Parallel()
	given := func(name, content string) []sandbox.File {
		return []sandbox.File{{Name: name, Content: []byte(content)}}
	}
	large := []sandbox.File{{Name: "large", Size: 40 << 20, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(zeros{}, 40<<20)), nil
	}}}
	p := sessionOf(t, "python")
	p.Limits.DiskMB, p.Limits.FileMB = 32, 64
	todo := []step{
		{files: given("d/in.txt", "one"), code: "import os; print(open('d/in.txt').read())"},
		{files: given("d/in.txt", "two"), code: "x = open('d/in.txt').read(); print(x)"},
		{files: append(given("d/in.txt", "three"), given("large", "old")...)},
		{files: given("e.txt", ""), code: "print(open('d/in.txt').read(), x, os.path.getsize('e.txt'), file=open('e.txt', 'w'))"},
		{files: large, code: "print('never')"},
		{code: "os.path.getsize('large'), os.remove('large')"},
		{files: given("d", "x"), code: "print('never')"},
		{files: given("e.txt/x", "x"), code: "print('never')"},
		{code: "os.symlink('/proc/1', 'agent'); os.symlink('/etc', 'etc'); os.symlink('/tmp/out', 'out'); os.mkfifo('pipe'); os.symlink('round', 'round')"},
		{files: given("agent/environ", "x"), code: "print('never')"},
		{files: given("etc/passwd", "x"), code: "print('never')"},
		{files: given("round/x", "x"), code: "print('never')"},
		{files: given("out", "mine"), code: "print(open('out').read(), os.path.islink('out'), os.path.exists('/tmp/out'))"},
		{files: given("pipe", "mine"), code: "print(open('pipe').read())"},
		{files: append(given("f1", "1"), given("f2", "2")...), code: "os.mkdir('locked', 0o500)"},
		{files: given("locked/f3", "x"), code: "print('never')"},
		{code: "print(open('f1').read(), open('f2').read(), x)"},
	}
	refused := want{status: job.Failed, code: 1, stderr: "glovebox: "}
	got := turns(t, p, todo...)
	check(t, got,
		want{stdout: "one\n"}, want{stdout: "two\n"}, want{}, want{},
		want{status: job.Failed, code: 1, stderr: "limits.disk_mb); large is empty now"}, want{stdout: "(0, None)\n"}, refused, refused,
		want{}, refused, refused, refused, want{stdout: "mine False False\n"}, want{stdout: "mine\n"},
		want{}, refused, want{stdout: "1 2 two\n"},
	)
	for i, g := range got {
		names := ""
		if i == 3 {
			names = "e.txt"
		}
		if g.names() != names {
			t.Errorf("turn %d sent %q, want %q", i+1, g.names(), names)
		}
	}
	if got[3].artifacts[0].bytes != "three two 0\n" {
		t.Errorf("got %q", got[3].artifacts[0].bytes)
	}
	node := turns(t, sessionOf(t, "node"), step{files: given("a.txt", "one")}, step{files: given("a.txt", "two"), code: "require('fs').readFileSync('a.txt', 'utf8')"})
	check(t, node, want{}, want{stdout: "'two'\n"})
	prepared := preloaded(t, "turns-given", 1)
	awaitPreloaded(t, prepared)
	first, o := turnsIn(t, prepared, sessionOf(t, "python"), step{files: given("a.txt", "one"), code: "import os; print(open('a.txt').read(), os.listdir())"})
	if check(t, first, want{stdout: "one ['a.txt']\n"}); !o.Preloaded {
		t.Error("the session was not prepared")
	}
}

// TestTurnsHoles: files are compared with those of the turn before by what they hold, up to limits.disk_mb of them. What is beyond it is sent again: a file with
// holes can be read for hours.
func TestTurnsHoles(t *testing.T) {
	t.Parallel()
	p := sessionOf(t, "python")
	p.Limits.DiskMB, p.Limits.ArtifactMB, p.Limits.FileMB = 8, 8, 8
	hole := func(name string) step {
		return step{code: "with open('" + name + "', 'wb') as f: n = f.truncate(6 << 20)"}
	}
	got := turns(t, p, hole("a"), hole("b"), step{})
	for i, names := range []string{"a", "b", "b"} {
		if got[i].names() != names {
			t.Errorf("turn %d sent %q, want %q", i+1, got[i].names(), names)
		}
	}
}
