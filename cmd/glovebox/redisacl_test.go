package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/record"
)

// printACL is what "glovebox redis-acl" prints.
func printACL(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, getenv: config.File{}.Get}
	if code := a.run(t.Context(), append([]string{"redis-acl"}, args...)); code != exitOK {
		t.Fatalf("redis-acl %q: exit code %d: %s", args, code, &errs)
	}
	return out.String()
}

// TestRedisACL loads what the command prints into a real Redis, as its help says, and
// opens the records with each of the users.
func TestRedisACL(t *testing.T) {
	t.Parallel()
	server := gbtest.Redis(t)
	dir := filepath.Join(t.TempDir(), "passwords")
	commands := printACL(t, "--commands", "--worker", "host-1", dir)
	password := func(user string) string {
		b, err := os.ReadFile(filepath.Join(dir, user))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(commands, strings.TrimSpace(string(b))) {
			t.Errorf("the password of %s is printed", user)
		}
		return strings.TrimSpace(string(b))
	}
	host, port, _ := strings.Cut(server.Addr, ":")
	cli := exec.CommandContext(t.Context(), "redis-cli", "-h", host, "-p", port, "-e")
	cli.Env = append(os.Environ(), "REDISCLI_AUTH="+server.Password)
	cli.Stdin = strings.NewReader(commands)
	out, err := cli.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "OK\nOK\nOK\nOK" {
		t.Fatalf("redis-cli: %v: %s", err, out)
	}
	for _, user := range []string{"glovebox-api", "glovebox-worker-host-1"} {
		s, err := record.Open(t.Context(), record.Config{URL: "redis://" + user + ":" + password(user) + "@" + server.Addr + "/0"})
		if err != nil {
			t.Errorf("open records as %s: %v", user, err)
			continue
		}
		s.Close()
	}
	admin := redis.NewClient(&redis.Options{Addr: server.Addr, Password: password("default")})
	defer admin.Close()
	if err := admin.FlushAll(t.Context()).Err(); err != nil {
		t.Errorf("as the operator: %v", err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "default")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode of a password: got %v, %v, want 0600", fi.Mode(), err)
	}
	// Once more it is the same, and in a file, too.
	if again := printACL(t, "--commands", "--worker", "host-1", dir); again != commands {
		t.Error("printed again, the users differ")
	}
	file := printACL(t, "--worker", "host-1", dir)
	if file != strings.ReplaceAll(commands, "ACL SETUSER ", "user ") {
		t.Errorf("the file differs from the commands:\n%s", file)
	}
}

func TestRedisACLRefuses(t *testing.T) {
	t.Parallel()
	open, short := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(open, "glovebox-api"), []byte(strings.Repeat("p", 30)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(short, "glovebox-api"), []byte("redis"), 0o600); err != nil {
		t.Fatal(err)
	}
	escaped := t.TempDir()
	if err := os.WriteFile(filepath.Join(escaped, "glovebox-api"), []byte("twenty%41characters-or-more"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"? # % or blank":  {escaped},
		"chmod 600":       {open},
		"no password for": {short},
		"want 1 to 63":    {"--worker", "a b", t.TempDir()},
	} {
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, getenv: config.File{}.Get}
		if code := a.run(t.Context(), append([]string{"redis-acl"}, args...)); code == exitOK || !strings.Contains(errs.String(), want) || out.Len() > 0 {
			t.Errorf("%q: got %d, %q, %q, want %q said and nothing printed", args, code, errs.String(), out.String(), want)
		}
	}
}
