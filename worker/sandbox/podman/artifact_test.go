package podman_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/worker/sandbox"
)

func TestArtifacts(t *testing.T) {
	t.Parallel()
	p := program(`
import os, socket
open('b.txt', 'w').write('b')
open('empty', 'w')
os.makedirs('dir/deep'); open('dir/deep/c.txt', 'w').write('c')
os.makedirs('nothing')
os.makedirs('private'); open('private/d.txt', 'w').write('d'); os.chmod('private/d.txt', 0o600); os.chmod('private', 0o700)
open('given-changed.txt', 'a').write('!')
os.utime('given.txt')
`)
	p.Files = append(p.Files,
		sandbox.File{Name: "given.txt", Content: []byte("g")},
		sandbox.File{Name: "data/given-too.txt", Content: []byte("g")},
		sandbox.File{Name: "given-empty.txt"},
		sandbox.File{Name: "given-changed.txt", Content: []byte("g")})
	o, k := run(t, p)
	if o.Status != job.Succeeded || len(o.Skipped) != 0 || o.SkippedTotal != 0 {
		t.Fatalf("got %+v %s", o, k.stderr.String())
	}
	got := map[string]string{}
	for _, a := range k.artifacts {
		got[a.name] = a.bytes
	}
	want := map[string]string{"b.txt": "b", "empty": "", "dir/deep/c.txt": "c", "private/d.txt": "d", "given-changed.txt": "g!"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if want := "b.txt dir/deep/c.txt empty given-changed.txt private/d.txt"; k.names() != want {
		t.Errorf("order: got %q, want %q", k.names(), want)
	}
}

// TestHostileArtifacts: whatever a job leaves behind, only its own regular files with
// plain names come out, and the rest is accounted for.
func TestHostileArtifacts(t *testing.T) {
	t.Parallel()
	o, k := run(t, program(`
import os, socket
open('good.txt', 'w').write('good')
os.symlink('/etc/passwd', 'link-abs'); os.symlink('good.txt', 'link-rel'); os.symlink('/etc', 'link-dir'); os.symlink('/proc/1/root', 'link-root'); os.symlink('nowhere', 'link-dangling')
os.link('good.txt', 'hard1') if False else None
open('hard', 'w').write('h'); os.link('hard', 'hard2')
os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
open('new\nline', 'w').write('x'); open('back\\slash', 'w').write('x'); open('esc\x1b[2J', 'w').write('x')
open(b'bad\xff', 'w').write('x'); open('rtl\u202egpj.exe', 'w').write('x'); open('...', 'w').write('dots'); open(' ', 'w').write('space')
open('-rf', 'w').write('dash')
open('a' * 255, 'w').write('long')
os.mkdir('d' * 200); open('d' * 200 + '/' + 'e' * 100, 'w').write('x')
os.mkdir('closed'); open('closed/x', 'w').write('x'); os.chmod('closed', 0)
open('unreadable', 'w').write('x'); os.chmod('unreadable', 0)
p = 'n'
for i in range(300):
    os.mkdir(p); os.chdir(p)
`, limits(job.Limits{Artifacts: 200})))
	if o.Status != job.Succeeded {
		t.Fatalf("got %+v\n%s", o, k.stderr.String())
	}
	want := " ;-rf;...;" + strings.Repeat("a", 255) + ";good.txt"
	var names []string
	for _, a := range k.artifacts {
		names = append(names, a.name)
	}
	if got := strings.Join(names, ";"); got != want {
		t.Errorf("artifacts:\ngot  %q\nwant %q", got, want)
	}
	got := map[string]string{}
	for _, s := range o.Skipped {
		name := s.Name
		if strings.HasPrefix(name, "n/") {
			name = "n/…"
		}
		if strings.HasPrefix(name, "ddd") {
			name = "ddd…"
		}
		got[name] = s.Reason
	}
	wantSkipped := map[string]string{
		"link-abs": "is a symbolic link", "link-rel": "is a symbolic link", "link-dir": "is a symbolic link",
		"link-root": "is a symbolic link", "link-dangling": "is a symbolic link",
		"hard": "has more than one hard link", "hard2": "has more than one hard link",
		"fifo": "is a FIFO", "socket": "is a socket",
		"new\uFFFDline": "its name has a control or format character", "back\\slash": "its name has a backslash",
		"esc\uFFFD[2J": "its name has a control or format character", "bad\uFFFD": "its name is not UTF-8",
		"rtl\uFFFDgpj.exe": "its name has a control or format character",
		"ddd…":             "its name is longer than 255 bytes", "n/…": "its name is longer than 255 bytes",
		"closed": "can't be read: permission denied", "unreadable": "can't be read: permission denied",
	}
	if diff := cmp.Diff(wantSkipped, got); diff != "" {
		t.Errorf("skipped (-want +got)\n%s", diff)
	}
	if o.SkippedTotal != len(o.Skipped) {
		t.Errorf("got %d skipped in total, want %d", o.SkippedTotal, len(o.Skipped))
	}
}

func TestManyFiles(t *testing.T) {
	t.Parallel()
	o, k := run(t, program(`
import os
for i in range(10_000): open(f'f{i:05}', 'w').write(str(i))
`, limits(job.Limits{Artifacts: 10, WallMS: 60_000})))
	if o.Status != job.Succeeded || len(k.artifacts) != 10 || o.SkippedTotal != 9_990 || len(o.Skipped) != job.MaxSkipped {
		t.Errorf("got %+v, %d artifacts", o, len(k.artifacts))
	}
	if want := "f00000 f00001 f00002 f00003 f00004 f00005 f00006 f00007 f00008 f00009"; k.names() != want {
		t.Errorf("got %q, want %q", k.names(), want)
	}
	if len(o.Skipped) > 0 && o.Skipped[0] != (job.Skipped{Name: "f00010", Reason: "is beyond limits.artifacts (10)"}) {
		t.Errorf("got %+v", o.Skipped[0])
	}
}

func TestArtifactSize(t *testing.T) {
	t.Parallel()
	for _, extra := range []int{0, 1} {
		t.Run(fmt.Sprint(extra), func(t *testing.T) {
			t.Parallel()
			o, k := run(t, program(fmt.Sprintf("open('x', 'wb').write(bytes((1 << 20) + %d))", extra), limits(job.Limits{ArtifactMB: 1})))
			if got, want := len(k.artifacts), 1-extra; got != want || o.SkippedTotal != extra {
				t.Errorf("got %d artifacts and %+v, want %d", got, o.Skipped, want)
			}
		})
	}
}
