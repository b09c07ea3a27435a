package main

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

func TestDev(t *testing.T) {
	t.Parallel()
	d := newDevTest(t)
	d.start()
	id := d.run("print(6 * 7)", "42\n")

	t.Log("a second dev on the same directory is refused")
	_, stderr, code := d.glovebox("", "dev", "--api", "127.0.0.1:0")
	if code != exitFailed || !strings.Contains(stderr, "in use by another glovebox dev (pid "+strconv.Itoa(d.dev.PID())) {
		t.Errorf("got exit code %d and %q", code, stderr)
	}

	t.Log("metrics are where it says, of the job that ran and nothing of what it was")
	where := regexp.MustCompile(`(?s)metrics at (http://127.0.0.1:\d+/metrics) \(api\)\s+and (http://127.0.0.1:\d+/metrics) \(worker\)`).FindStringSubmatch(d.dev.Output())
	if where == nil {
		t.Fatalf("dev doesn't say where its metrics are:\n%s", d.dev.Output())
	}
	for url, want := range map[string]string{
		where[1]: `glovebox_jobs_accepted_total{priority="normal",runtime="python"} 1`,
		where[2]: `glovebox_jobs_ended_total{runtime="python",status="succeeded"} 1`,
	} {
		text := d.scrape(url)
		for _, line := range []string{want, `glovebox_redis_errors_total{reason="connection"} 0`} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%s: want %s in\n%s", url, line, text)
			}
		}
		if strings.Contains(text, id) || strings.Contains(text, "default") {
			t.Errorf("%s: a job or a tenant is in\n%s", url, text)
		}
	}

	t.Log("list shows it")
	if stdout, stderr, code := d.glovebox("", "list", "--status", "succeeded", "--runtime", "py", "--since", "1h"); code != exitOK ||
		!regexp.MustCompile(`^JOB +STATUS +RUNTIME +CREATED +TOOK\n`+id+` +succeeded +python +20\S+ \S+ +[0-9.]+ m?s\n$`).MatchString(stdout) {
		t.Errorf("list: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("", "list", "--status", "done"); code != exitUsage || !strings.Contains(stderr, "out_of_memory") {
		t.Errorf("list: exit code %d, %s%s", code, stdout, stderr)
	}

	t.Log("what is killed comes back")
	programs := map[string]string{" api": "api", "glovebox-worker": "worker", "redis-server": "redis", "versitygw": "s3", "podman": "podman"}
	if testing.Short() { // all come back in one way
		programs = map[string]string{"glovebox-worker": "worker", "redis-server": "redis"}
	}
	for name, what := range programs {
		old := d.child(name)
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		d.until(what+" died, and dev says so", func() bool {
			return regexp.MustCompile(what + ` +died \(signal: killed\) and is started again`).MatchString(d.dev.Output())
		})
		d.until(what+" is there again", func() bool {
			for _, p := range descendants(t, d.dev.PID()) {
				if p.parent == d.dev.PID() && p.pid != old && strings.Contains(p.command, name) {
					return true
				}
			}
			return false
		})
		d.until("the api serves, and Redis serves it", func() bool { _, _, code := d.glovebox("", "list"); return code == exitOK })
		d.run("print('"+what+"')", what+"\n")
	}

	t.Log("Ctrl-C ends everything in seconds")
	all := descendants(t, d.dev.PID())
	if len(all) < 5 {
		t.Errorf("dev runs %v, want at least five programs", all)
	}
	began := time.Now()
	d.dev.Signal(syscall.SIGINT)
	<-d.dev.Done()
	if took := time.Since(began); took > gbtest.Patience {
		t.Errorf("it took %s", took)
	}
	d.gone(all)
	if left := d.sandboxes("--quiet"); left != "" {
		t.Errorf("sandboxes still run:\n%s", left)
	}

	t.Log("started again, it has every job and result")
	d.start()
	if stdout, stderr, code := d.glovebox("", "get", id); code != exitOK || !strings.Contains(stdout, "succeeded") {
		t.Errorf("get: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("", "logs", id); code != exitOK || stdout != "42\n" {
		t.Errorf("logs: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("print('followed')\nexit(3)", "submit", "--runtime", "python", "--follow", "-"); code != exitFailed || stdout != "followed\n" {
		t.Errorf("submit --follow: exit code %d, %s%s", code, stdout, stderr)
	}

	t.Log("a template runs with parameters, which are no part of the program")
	const greet = `{"params":{"type":"object","required":["who"],"properties":{"who":{"type":"string"},"n":{"type":"integer","default":2}}},
		"spec":{"runtime":"python","source":"import sys; print(sys.argv[1:], sys.stdin.read())","args":[{"from":"/params/who"}],"stdin":{"from":"/params/n"}}}`
	if stdout, stderr, code := d.glovebox(greet, "template", "set", "greet", "-"); code != exitOK || stdout != "greet@1\n" {
		t.Errorf("template set: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("", "template", "run", "greet", "--param", "who='$(id)'", "--wait"); code != exitOK || stdout != "[\"'$(id)'\"] 2\n" {
		t.Errorf("template run: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox(`{"who":"file"}`, "template", "run", "greet@1", "--params", "-", "--param", "n:=3", "--wait"); code != exitOK || stdout != "['file'] 3\n" {
		t.Errorf("template run: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("", "template", "run", "greet"); code != exitUsage || !strings.Contains(stderr, "missing property 'who'") {
		t.Errorf("template run: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("", "template", "list"); code != exitOK || !strings.Contains(stdout, "greet") {
		t.Errorf("template list: exit code %d, %s%s", code, stdout, stderr)
	}

	t.Log("a hook starts the template with what its sender signs")
	stdout, stderr, code := d.glovebox("", "hook", "create", "--template", "greet", "--sender", "standard-webhooks", "--from", "who=/body/user/name")
	words := strings.Fields(stdout)
	if code != exitOK || len(words) != 2 {
		d.t.Fatalf("hook create: exit code %d, %s%s", code, stdout, stderr)
	}
	id = postSigned(d.t, words[0], words[1], `{"user":{"name":"a; b"}}`)
	if stdout, stderr, code := d.glovebox("", "get", "--wait", "--json", id); code != exitOK || !strings.Contains(stdout, `"stdout": "['a; b'] 2\n"`) {
		t.Errorf("the hook's job: exit code %d, %s%s", code, stdout, stderr)
	}
	hook := path.Base(words[0])
	if stdout, stderr, code := d.glovebox("", "hook", "deliveries", hook); code != exitOK || !strings.Contains(stdout, "started") || !strings.Contains(stdout, id) {
		t.Errorf("hook deliveries: exit code %d, %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"set", hook, "--pause"}, {"set", hook, "--resume", "--body", "event.json"}, {"rotate", hook}, {"show", hook}, {"list"}, {"rm", hook}} {
		if stdout, stderr, code := d.glovebox("", append([]string{"hook"}, args...)...); code != exitOK {
			t.Errorf("hook %v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	if stdout, stderr, code := d.glovebox("", "template", "rm", "greet"); code != exitOK {
		t.Errorf("template rm: exit code %d, %s%s", code, stdout, stderr)
	}

	t.Log("a secret that is stored is a job's, and *** in what it prints")
	if stdout, stderr, code := d.glovebox("a secret value\n", "secret", "set", "MINE"); code != exitOK || stdout != "" {
		t.Errorf("secret set: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("import os\nprint(os.environ['MINE'], len(os.environ['MINE']))", "submit", "--runtime", "python", "--secret", "MINE", "--wait", "-"); code != exitOK || stdout != "*** 14\n" {
		t.Errorf("submit --secret: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("", "secret", "list"); code != exitOK || !strings.Contains(stdout, "MINE") || strings.Contains(stdout, "value") {
		t.Errorf("secret list: exit code %d, %s%s", code, stdout, stderr)
	}
	if stdout, stderr, code := d.glovebox("", "secret", "rm", "MINE", "NONE"); code != exitFailed || !strings.Contains(stderr, "NONE: there is no such secret") {
		t.Errorf("secret rm: exit code %d, %s%s", code, stdout, stderr)
	}

	t.Log("killed, it leaves nothing behind that keeps it from starting again")
	all = descendants(t, d.dev.PID())
	d.dev.Kill()
	d.gone(all)
	d.start()
	d.run("print('again')", "again\n")
	d.until("what killed workers left in Podman is removed", func() bool { // and the living one's sandboxes wait
		workers := strings.Fields(d.sandboxes("--all", "--format", `{{index .Labels "run.glovebox.worker"}}`))
		slices.Sort(workers)
		return len(slices.Compact(workers)) == 1
	})
	d.dev.Stop()
}

func TestDevSubmit(t *testing.T) {
	t.Parallel()
	d := newDevTest(t)
	d.start()

	t.Log("every option of submit reaches the program")
	dir := t.TempDir()
	for name, content := range map[string]string{
		"main.py": "import os, sys\nprint(sys.argv[1:], os.environ['A'], sys.stdin.read(), open('in/x', encoding='latin1').read())\n" +
			"print('oops', file=sys.stderr)\nopen('made.txt', 'w').write('made')\nsys.exit(3)\n",
		"x": "\xff", "stdin": "typed",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	stdout, stderr, code := d.glovebox("", "submit", "--out", out, "--env", "A=b", "--arg", "one", "--stdin-file", filepath.Join(dir, "stdin"),
		"--file", "in/x="+filepath.Join(dir, "x"), "--limit", "wall_ms=120000", "--metadata", "k=v", "--priority", "high", filepath.Join(dir, "main.py"), "--", "two")
	if want := "['one', 'two'] b typed ÿ\n"; stdout != want || code != exitFailed {
		t.Errorf("got %q, exit code %d, want %q and 1; it said:\n%s", stdout, code, want, stderr)
	}
	for _, want := range []string{"oops\n", "failed (exit code 3)", "made.txt", "saved as " + out} {
		if !strings.Contains(stderr, want) {
			t.Errorf("got %q, want %q in it", stderr, want)
		}
	}
	if got := string(read(t, filepath.Join(out, "made.txt"))); got != "made" {
		t.Errorf("downloaded: got %q, want %q", got, "made")
	}

	t.Log("the signed result reaches receive, with the files' URLs")
	receiver := gbtest.Start(t, []string{d.bin + "/glovebox", "receive", "--count", "1"}, d.env(), nil)
	d.until("receive listens", func() bool { return receiver.Printed("receiving at http://") })
	url := regexp.MustCompile(`receiving at (\S+)`).FindStringSubmatch(receiver.Output())[1]
	d.glovebox("open('a.txt', 'w').write('x')", "submit", "-r", "py", "--callback", url, "-")
	d.until("receive ends after its one message", func() bool { return !receiver.Alive() })
	if got := receiver.Output(); !regexp.MustCompile(`(?s)verified  job\.completed  msg_\w+\n.* succeeded in .*a\.txt .*http://`).MatchString(got) {
		t.Errorf("got %q", got)
	}

	t.Log("results are attested, and verify prints so")
	result, stderr, code := d.glovebox("print(1)", "submit", "-r", "py", patiently, "--json", "-")
	if code != exitOK {
		t.Errorf("submit: exit code %d, %q", code, stderr)
	}
	if stdout, stderr, code := d.glovebox(result, "verify", "-"); code != exitOK || !strings.HasPrefix(stdout, "verified  default-") {
		t.Errorf("verify: exit code %d, %q %q", code, stdout, stderr)
	}

	t.Log("--wait with a time gives up, and the job can be cancelled")
	stdout, stderr, code = d.glovebox("import time; time.sleep(60)", "submit", "-r", "python", "--limit", "wall_ms=60000", "--wait=1s", "--json", "-")
	if code != exitGoesOn || !strings.Contains(stderr, "the job goes on: glovebox get --wait ") {
		t.Errorf("got exit code %d, %q %q", code, stdout, stderr)
	}
	id := regexp.MustCompile(`--wait (\S+)`).FindStringSubmatch(stderr)[1]
	if stdout, stderr, code := d.glovebox("", "cancel", id); code != exitOK {
		t.Errorf("cancel: exit code %d, %q %q", code, stdout, stderr)
	}
	stdout, stderr, code = d.glovebox("", "get", patiently, "--json", id)
	if code != exitOK || !strings.Contains(stdout, `"status": "canceled"`) {
		t.Errorf("get: exit code %d, %q %q", code, stdout, stderr)
	}
	if _, stderr, code := d.glovebox("", "cancel", id+"a"); code != exitFailed || !strings.Contains(stderr, "no such job") {
		t.Errorf("cancel of no job: exit code %d, %q", code, stderr)
	}

	t.Log("a runtime that is not there, and a limit beyond the most, are said with what is allowed")
	_, stderr, code = d.glovebox("x", "submit", "-r", "klingon", "--limit", "memory_mb=999999", "-")
	if code != exitUsage || !strings.Contains(stderr, "klingon") || !strings.Contains(stderr, "python") || !strings.Contains(stderr, "limits.memory_mb") {
		t.Errorf("got exit code %d, %q", code, stderr)
	}
	_, stderr, code = d.glovebox("x", "submit", "-")
	if code != exitUsage || !strings.Contains(stderr, "--runtime is needed") {
		t.Errorf("got exit code %d, %q", code, stderr)
	}

	t.Log("what a job left and a large file are inputs of another, and rm leaves nothing")
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, bytes.Repeat([]byte("0123456789"), 300_000), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, _ = d.glovebox("open('left.txt', 'w').write('a' * 1000)", "submit", "-r", "py", patiently, "--json", "-")
	id = regexp.MustCompile(`"id": "(\S+)"`).FindStringSubmatch(stdout + stderr)[1]
	stdout, stderr, code = d.glovebox("print(len(open('in/a').read()), len(open('large').read()))", "submit", "-r", "py", patiently,
		"--artifact", "in/a="+id+"/left.txt", "--file", large, "--retention", "1h", "-")
	if stdout != "1000 3000000\n" || code != exitOK {
		t.Errorf("got %q, exit code %d; it said:\n%s", stdout, code, stderr)
	}
	if stdout, stderr, code := d.glovebox("", "rm", id); code != exitOK {
		t.Errorf("rm: exit code %d, %q %q", code, stdout, stderr)
	}
	for _, again := range []string{"rm", "get"} {
		if _, stderr, code := d.glovebox("", again, id); code != exitFailed || !strings.Contains(stderr, "no such job") {
			t.Errorf("%s after rm: exit code %d, %q", again, code, stderr)
		}
	}

	t.Log("doctor finds it")
	if stdout, stderr, code := d.glovebox("", "doctor"); code != exitOK || !strings.Contains(stdout, "its kernel is gVisor's") || !strings.Contains(stdout, "results are signed") {
		t.Errorf("doctor: exit code %d\n%s%s", code, stdout, stderr)
	}

	t.Log("a second Ctrl-C doesn't wait for the job that runs, and the job is not lost")
	// A secret is read when a job starts: the second time the program has nothing to wait for.
	seconds := func(value string) {
		t.Helper()
		if _, stderr, code := d.glovebox(value, "secret", "set", "SECONDS"); code != exitOK {
			t.Fatalf("secret set: exit code %d, %s", code, stderr)
		}
	}
	seconds("290.0000")
	stdout, _, _ = d.glovebox("import os, time; time.sleep(float(os.environ['SECONDS'])); print('done')",
		"submit", "-r", "python", "--secret", "SECONDS", "--limit", "wall_ms=300000", "-")
	id = strings.TrimSpace(stdout)
	d.until("the job runs", func() bool {
		stdout, _, _ := d.glovebox("", "get", "--json", id)
		return strings.Contains(stdout, `"status": "running"`)
	})
	seconds("0.000000")
	all := descendants(t, d.dev.PID())
	d.dev.Signal(syscall.SIGINT)
	d.until("dev stops", func() bool { return d.dev.Printed("Stopping") })
	began := time.Now()
	d.dev.Signal(syscall.SIGINT)
	<-d.dev.Done()
	if took := time.Since(began); took > 2*gbtest.AtOnce { // the job takes five minutes
		t.Errorf("the second Ctrl-C took %s", took)
	}
	d.gone(all)
	d.start()
	stdout, stderr, code = d.glovebox("", "get", patiently, id)
	if code != exitOK || !strings.Contains(stdout, "done") {
		t.Errorf("get: exit code %d, %q %q", code, stdout, stderr)
	}
	d.dev.Stop()
}
