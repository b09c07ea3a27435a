package runtimes

import (
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

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
	err := walkImage(folders, baseFolder, func(name string, content []byte) error {
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
