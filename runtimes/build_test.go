package runtimes

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// addBase adds what the base is built of, so that it is the one that infra/setup.sh has built.
func addBase(t *testing.T, to fstest.MapFS) {
	t.Helper()
	err := walkImage(folders, baseFolder, func(name string, content []byte) error {
		to[baseFolder+"/"+name] = &fstest.MapFile{Data: content}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBuild builds a small runtime on the base that infra/setup.sh has built.
func TestBuild(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "podman")
	ctx := t.Context()

	fsys := fstest.MapFS{
		"buildtest/Containerfile": {Data: []byte("ARG BASE\nFROM ${BASE}\nCOPY marker /marker\nRUN test -s /run/build/ca-certificates.crt && id job >>/marker\n")},
		"buildtest/marker":        {Data: []byte("hello\n")},
		"buildtest/runtime.yaml":  {Data: []byte("name: buildtest\nversion: \"1\"\nversion_command: [\"true\"]\nfile: x\nrun: [cat, \"{file}\"]\n")},
	}
	addBase(t, fsys)
	set, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	image := set.List()[0].Image()
	podman := func(args ...string) string {
		t.Helper()
		out, err := run(exec.CommandContext(ctx, defaultPodman[0], args...))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	podman("rmi", "--force", "--ignore", image)

	var out strings.Builder
	if err := set.Build(ctx, BuildOptions{Out: &out}); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("got %q, want nothing built that is neither core nor named", out.String())
	}
	if err := set.Build(ctx, BuildOptions{All: true, Out: &out}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "building "+image) {
		t.Errorf("got %q, want it to say what it builds", out.String())
	}
	if !strings.Contains(out.String(), "made of "+image) {
		t.Errorf("got %q, want it to make a root image", out.String())
	}
	built, err := set.Built(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !built[image] {
		t.Errorf("%s is not among %v", image, built)
	}
	got := podman("run", "--rm", "--read-only", image, "sh", "-c", "cat /marker; ls -A /run/build 2>/dev/null; cat /etc/apt/sources.list 2>/dev/null || true")
	if want := "hello\nuid=1000(job) gid=1000(job) groups=1000(job)\n"; got != want {
		t.Errorf("got %q, want %q: what was added, and nothing of the build machine", got, want)
	}

	out.Reset()
	if err := set.Build(ctx, BuildOptions{Names: []string{"buildtest"}, Out: &out}); err != nil {
		t.Fatal(err)
	}
	if want := "there: " + image; !strings.Contains(out.String(), want) {
		t.Errorf("the second time: got %q, want it to say %q", out.String(), want)
	}
	podman("rmi", image)
	if _, err := run(exec.CommandContext(ctx, defaultRootImages[0])); err != nil { // its root image goes
		t.Error(err)
	}
}

// TestBuildAtOnce: images are built side by side, except for those that are made from others'.
func TestBuildAtOnce(t *testing.T) { // not beside others: Podman can't list images while one is removed
	gbtest.Require(t, "podman")
	meeting, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer meeting.Close()
	// Each of the two that can be built at once waits until the other is there, too.
	met := make(chan error, 1)
	go func() {
		var all []net.Conn
		for len(all) < 2 {
			c, err := meeting.Accept()
			if err != nil {
				met <- err
				return
			}
			all = append(all, c)
		}
		for _, c := range all {
			fmt.Fprintln(c, "met")
			c.Close()
		}
		met <- nil
	}()
	port := meeting.Addr().(*net.TCPAddr).Port
	meet := fmt.Sprintf("ARG BASE\nFROM ${BASE}\nRUN bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d; read -r word <&3; echo $word >/$0' ", port)
	definition := "version: \"1\"\nversion_command: [\"true\"]\nfile: x\nrun: [cat, \"{file}\"]\n"
	fsys := fstest.MapFS{
		"buildone/Containerfile":  {Data: []byte(meet + "one\n")},
		"buildtwo/Containerfile":  {Data: []byte(meet + "two\n")},
		"buildboth/Containerfile": {Data: []byte("ARG BASE\nARG WITH_BUILDTWO\nFROM ${WITH_BUILDTWO} AS two\nRUN mkdir /from && mv /two /from/\nFROM ${BASE}\nCOPY --from=two /from/two /two\n")},
		"buildone/runtime.yaml":   {Data: []byte("name: buildone\n" + definition)},
		"buildtwo/runtime.yaml":   {Data: []byte("name: buildtwo\n" + definition)},
		"buildboth/runtime.yaml":  {Data: []byte("name: buildboth\non: buildone\nwith: [buildtwo]\n" + definition)},
	}
	err = walkImage(folders, baseFolder, func(name string, content []byte) error {
		fsys[baseFolder+"/"+name] = &fstest.MapFile{Data: content}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	podman := func(args ...string) string {
		t.Helper()
		out, err := run(exec.CommandContext(context.WithoutCancel(t.Context()), defaultPodman[0], args...))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	remove := append([]string{"rmi", "--force", "--ignore"}, set.Images()...)
	podman(remove...)
	t.Cleanup(func() {
		podman(remove...)
		if _, err := run(exec.CommandContext(context.WithoutCancel(t.Context()), defaultRootImages[0])); err != nil { // their root images go
			t.Error(err)
		}
	})
	var out strings.Builder
	if err := set.Build(t.Context(), BuildOptions{Names: []string{"buildboth"}, Jobs: 2, Out: &out}); err != nil {
		t.Fatal(err)
	}
	if err := <-met; err != nil {
		t.Fatal(err)
	}
	both, _ := set.Lookup("buildboth")
	if got := podman("run", "--rm", "--read-only", both.Image(), "cat", "/one", "/two"); got != "met\nmet\n" {
		t.Errorf("got %q, want what is of both images", got)
	}
	if last := "building " + both.Image() + ", 3 of 3"; !strings.Contains(out.String(), last) {
		t.Errorf("got %q, want %q", out.String(), last)
	}
	stored, err := set.InStore(t.Context(), defaultPodman)
	if err != nil {
		t.Fatal(err)
	}
	if i := stored[both.Image()]; i.Size == 0 || !i.Root || !strings.HasPrefix(i.Digest, "sha256:") {
		t.Errorf("got %+v, want its size, its digest and a root image", i)
	}
}

func TestFirstServer(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, sites, want string }{
		{"no line", "", ""},
		{"one", "http://mirror.example/debian\n", "http://mirror.example/debian"},
		{"several", "https://a.example/debian\nhttp://b.example/debian\n", "https://a.example/debian"},
		{"a cloud image's", "mirror+file:/etc/apt/mirrors/debian.list\n", ""},
		{"a CD before a server", "cdrom://[Debian 13]/\nhttp://mirror.example/debian\n", "http://mirror.example/debian"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := firstServer(tt.sites); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	set, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	err = set.Build(t.Context(), BuildOptions{Names: []string{"klingon"}})
	if err == nil || !strings.Contains(err.Error(), `no runtime "klingon"`) {
		t.Errorf("got %v, want an error that names it", err)
	}
	err = set.Build(t.Context(), BuildOptions{Podman: []string{"/nonexistent/podman"}})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/podman") {
		t.Errorf("got %v, want an error that names the command", err)
	}
	there := []string{"sh", "-c", "echo " + set.List()[0].Image()}
	err = set.Build(t.Context(), BuildOptions{Podman: there, Names: []string{set.List()[0].Name}, RootImages: []string{"/nonexistent/root-images"}})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/root-images") {
		t.Errorf("got %v, want an error that names the command", err)
	}
	_, err = run(exec.CommandContext(t.Context(), "sh", "-c", "echo said; exit 3"))
	if err == nil || !strings.Contains(err.Error(), "said") {
		t.Errorf("got %v, want an error with what the command said", err)
	}
}
