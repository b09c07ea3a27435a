package config

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path string, f File) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(path, ""); err != nil {
		t.Fatal(err)
	}
}

func TestFindClient(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	here, there := filepath.Join(dir, "env"), filepath.Join(home, ".config/glovebox/env")
	write(t, here, File{"GLOVEBOX_URL": "http://here", "GLOVEBOX_TOKEN": "here", "GLOVEBOX_ADMIN_TOKEN": "admin-here"})
	write(t, there, File{"GLOVEBOX_URL": "http://there/", "GLOVEBOX_TOKEN": "there", "GLOVEBOX_WEBHOOK_SECRET": "whsec_there"})
	for _, c := range []struct {
		name, flag       string
		env              File
		url, token, from string
	}{
		{"file of the directory", "", nil, "http://here", "here", here},
		{"environment over file", "", File{"GLOVEBOX_URL": "http://env", "GLOVEBOX_TOKEN": "env"}, "http://env", "env", "GLOVEBOX_URL"},
		{"flag over environment", "http://flag/", File{"GLOVEBOX_URL": "http://env", "GLOVEBOX_TOKEN": "env"}, "http://flag", "env", "--url"},
		{"no token for a stranger", "", File{"GLOVEBOX_URL": "http://elsewhere"}, "http://elsewhere", "", "GLOVEBOX_URL"},
		{"the token of the file of that URL", "http://there", nil, "http://there", "there", "--url"},
	} {
		got, err := FindClient(c.flag, c.env.Get, dir, home)
		if err != nil || got.URL != c.url || got.Token != c.token || got.From != c.from || got.WebhookSecret != "whsec_there" {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
		// An admin token from a file goes to no other URL either.
		if want := c.from == here; (got.AdminToken == "admin-here") != want {
			t.Errorf("%s: got admin token %q", c.name, got.AdminToken)
		}
	}
	if got, err := FindClient("", File{}.Get, t.TempDir(), ""); err != nil || got.URL != "" {
		t.Errorf("nothing anywhere: got %+v, %v", got, err)
	}
	if _, err := FindClient("127.0.0.1:1", File{}.Get, dir, home); err == nil {
		t.Error("--url without a scheme: got no error")
	}
	if err := os.Chmod(here, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := FindClient("", File{}.Get, dir, home); err == nil {
		t.Error("a file that others can read: got no error")
	}
}
