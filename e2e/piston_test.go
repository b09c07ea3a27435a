package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// asked is an answer of a façade.
type asked struct {
	status int
	header http.Header
	body   string
}

// ask sends a request to the api with a token, as "Authorization: Bearer", unless that is "".
func (g *glovebox) ask(t *testing.T, token, method, path, mediaType, body string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	askFirst(req)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return asked{res.StatusCode, res.Header, string(said)}
}

// askFirst has a large body wait until it is asked for: a server that refuses it closes the connection half a second after its answer,
// which is lost with it where the client is still sending then.
func askFirst(req *http.Request) {
	if req.ContentLength > 1<<20 {
		req.Header.Set("Expect", "100-continue")
	}
}

// pistonStage is a stage of an answer of Piston's, with pointers where there may be null.
type pistonStage struct {
	Stdout, Stderr, Output  string
	Code                    *int
	Signal, Message, Status *string
	CPUTime                 *int64 `json:"cpu_time"`
	WallTime                *int64 `json:"wall_time"`
	Memory                  *int64
}

type pistonAnswer struct {
	Language, Version string
	Run               pistonStage
	Compile           *pistonStage
}

// said is an answer's stage in a line: the code or signal, status and message, with "-" for null.
func (s pistonStage) said() string {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	code := "-"
	if s.Code != nil {
		code = fmt.Sprint(*s.Code)
	}
	return strings.Join([]string{code, text(s.Signal), text(s.Status), text(s.Message)}, " ")
}

// pistonProgram is a request to execute, and what it does.
type pistonProgram struct {
	request        string // without braces, and without version, unless it has one
	stdout, stderr string // what is in it; "" for nothing at all
	run, compile   string // as said tells it; compile is "" without that stage
}

// body is the whole request. A busy machine needs long where its program's time is not what a case is about.
func (p pistonProgram) body() string {
	if !strings.Contains(p.request, `"version"`) {
		p.request += `,"version":"*"`
	}
	if !strings.Contains(p.request, `_timeout"`) {
		p.request += `,"run_timeout":60000,"compile_timeout":60000`
	}
	return "{" + p.request + "}"
}

// pistonPrograms are what programs do, in Piston's words.
func pistonPrograms() map[string]pistonProgram {
	const fine = "0 - - -"
	return map[string]pistonProgram{
		"python":            {`"language":"python","files":[{"content":"print(6 * 7)"}]`, "42\n", "", fine, ""},
		"an alias":          {`"language":"py","version":"3.x","files":[{"content":"print(6 * 7)"}]`, "42\n", "", fine, ""},
		"stdin and args":    {`"language":"python","files":[{"name":"a.py","content":"import sys; print(sys.argv[1:], repr(sys.stdin.read()))"}],"stdin":"x","args":["a b","$(id)"]`, `['a b', '$(id)'] 'x\n'`, "", fine, ""},
		"no stdin":          {`"language":"python","files":[{"content":"print(repr(input()))"}]`, "''\n", "", fine, ""},
		"its language":      {`"language":"bash","files":[{"content":"echo $PISTON_LANGUAGE $HOME $1"}],"args":["x"]`, "bash /tmp x\n", "", fine, ""},
		"hex and base64":    {`"language":"bash","files":[{"name":"in/b","content":"/w==","encoding":"base64"},{"content":"cat in/b c | xxd -p","name":"a.sh"},{"name":"c","content":"00fe","encoding":"hex"}]`, "ff00fe\n", "", fine, ""},
		"exit code":         {`"language":"javascript","files":[{"content":"console.log('out'); console.error('err'); process.exit(3)"}]`, "out\n", "err\n", "3 - RE Exited with error status 3", ""},
		"c":                 {`"language":"c","files":[{"content":"int twice(int); \n#include <stdio.h>\nint main(int n, char **a) { printf(\"%d %s\\n\", twice(21), a[1]); }"},{"name":"twice","content":"int twice(int n) { return 2 * n; }"}],"args":["x"]`, "42 x\n", "", fine, fine},
		"c++":               {`"language":"cpp","files":[{"name":"x.cpp","content":"#include <bits/stdc++.h>\nint main() { std::cout << 42; }"}]`, "42", "", fine, fine},
		"a compiler's word": {`"language":"gcc","files":[{"content":"int main(void) { return answer; }"}]`, "", "answer", "1 - RE Exited with error status 1", "1 - RE Exited with error status 1"},
		"a crash":           {`"language":"c","files":[{"content":"int main(void) { *(volatile int *)8 = 1; }"}]`, "", "", "- SIGSEGV SG Caught fatal signal 11", fine},
		"java":              {`"language":"java","files":[{"name":"file0.code","content":"public class Hello { public static void main(String[] a) { System.out.println(a[0]); } }"}],"args":["x"],"run_timeout":60000`, "x\n", "", fine, ""},
		"go":                {`"language":"go","files":[{"content":"package main\nfunc main() { println(42) }"}],"compile_memory_limit":-1,"run_memory_limit":-1`, "", "42\n", fine, fine},
		"typescript":        {`"language":"ts","files":[{"content":"const n: number = 42; console.log(n)"}]`, "42\n", "", fine, ""},
		"an executable":     {`"language":"file","files":[{"content":"IyEvYmluL2Jhc2gKZWNobyB4ICIkMSIK","encoding":"base64"}],"args":["y z"]`, "x y z\n", "", fine, ""},
		"time":              {`"language":"bash","files":[{"content":"echo begun; sleep 1000"}],"run_timeout":8000`, "begun\n", "", "- SIGKILL TO Time limit exceeded (wall clock)", ""},
		"CPU time":          {`"language":"python","files":[{"content":"while True: pass"}],"run_cpu_time":300,"run_timeout":60000`, "", "", "- SIGKILL TO Time limit exceeded", ""},
		"memory":            {`"language":"python","files":[{"content":"x = [b'x' * (1 << 20) * 2 for _ in range(1000)]"}],"run_memory_limit":100000000`, "", "", "- SIGKILL SG Caught fatal signal 9", ""},
		"stdout":            {`"language":"python","files":[{"content":"while True: print('x' * 1000)"}]`, "xxx", "", "- SIGKILL OL stdout length exceeded", ""},
		"stderr":            {`"language":"python","files":[{"content":"import sys\nwhile True: print('x' * 1000, file=sys.stderr)"}]`, "", "xxx", "- SIGKILL EL stderr length exceeded", ""},
		"compile time":      {`"language":"c","files":[{"content":"int main(void) { return 0; }"}],"compile_timeout":20`, "", "", "- SIGKILL TO Time limit exceeded (wall clock)", "- SIGKILL TO Time limit exceeded (wall clock)"},
		"folders":           {`"language":"python","files":[{"name":"a/main.py","content":"import os; print(sorted(os.listdir()), open('b/c').read())"},{"name":"b/c","content":"data"}]`, "data\n", "", fine, ""},
		"not run":           {`"language":"python","files":[{"content":"/w==","encoding":"base64","name":"b"},{"content":"print(open('b', 'rb').read())"}]`, "b'\\xff'\n", "", fine, ""},
		"long and no UTF-8": {`"language":"python","files":[{"content":"import sys; sys.stdout.buffer.write(b'x' * 200_000 + b'\\xff')"}]`, strings.Repeat("x", 200_000) + "\uFFFD", "", fine, ""},
	}
}

func pistonTold() []told {
	return linesOf(pistonPrograms(), func(name string, p pistonProgram) told {
		answered := "run: " + p.run
		if p.compile != "" {
			answered = "compile: " + p.compile + "; " + answered
		}
		for _, stream := range [][2]string{{"stdout", p.stdout}, {"stderr", p.stderr}} {
			if stream[1] != "" {
				answered += "; " + stream[0] + ": " + quote(stream[1])
			}
		}
		return told{name, p.body(), answered}
	})
}

// TestPiston: what programs do, in Piston's words.
func TestPiston(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=piston"}})
	const path = "/piston/api/v2/execute"
	for name, tt := range pistonPrograms() {
		t.Run(name, func(t *testing.T) {
			said := g.ask(t, g.token, http.MethodPost, path, "application/json", tt.body())
			var a pistonAnswer
			if err := json.Unmarshal([]byte(said.body), &a); err != nil || said.status != http.StatusOK {
				t.Fatalf("got %d %.500s, want 200", said.status, said.body)
			}
			if got := a.Run.said(); got != tt.run {
				t.Errorf("run: got %s, want %s", got, tt.run)
			}
			compile := ""
			if a.Compile != nil {
				compile = a.Compile.said()
			}
			if compile != tt.compile {
				t.Errorf("compile: got %s, want %s", compile, tt.compile)
			}
			for _, stream := range [][2]string{{a.Run.Stdout, tt.stdout}, {a.Run.Stderr, tt.stderr}} {
				if !strings.Contains(stream[0], stream[1]) || stream[1] == "" && stream[0] != "" {
					t.Errorf("got %.300q, want %.300q", stream[0], stream[1])
				}
			}
			if a.Run.Output != a.Run.Stdout+a.Run.Stderr || a.Run.WallTime == nil || a.Language == "" || strings.Count(a.Version, ".") != 2 {
				t.Errorf("got %.500s", said.body)
			}
		})
	}
	t.Run("canceled", func(t *testing.T) {
		defer g.cancelWhatRuns()()
		said := g.ask(t, g.token, http.MethodPost, path, "application/json", `{"language":"sh","version":"*","files":[{"content":"sleep 250"}],"run_timeout":300000}`)
		if said.status != http.StatusInternalServerError || strings.TrimSpace(said.body) != `{"message":"the program was canceled"}` {
			t.Errorf("got %d %s, want 500", said.status, said.body)
		}
	})
}

// pistonRequests are one to each route, and each error that needs no program.
func pistonRequests() (list []exchange) {
	const json, text = "application/json", "text/plain;charset=UTF-8"
	const program = `"files":[{"content":"true"}]`
	for _, tt := range []struct {
		method, path, mediaType, body string
		status                        int
		want                          string // what is in the body
	}{
		{"GET", "/piston", "", "", 200, `{"message":"Piston v3.1.1"}`},
		{"GET", "/piston/", "", "", 200, `{"message":"Piston v3.1.1"}`},
		{"GET", "/piston/nothing", "", "", 404, `{"message":"Not Found"}`},
		{"GET", "/piston/api/v2/execute", "", "", 404, `{"message":"Not Found"}`},
		{"GET", "/piston/api/v2/runtimes", "", "", 200, `{"language":"python","version":"3.13.0","aliases":["py","py3","python3","python3.10","python3.11","python3.12","python3.13"]}`},
		{"GET", "/piston/api/v2/runtimes", "", "", 200, `{"language":"java","version":"25.0.0","aliases":[]}`},
		{"GET", "/piston/api/v2/piston/runtimes/", "", "", 200, `"aliases":["cpp","g++"],"runtime":"gcc"}`},
		{"GET", "/piston/api/v2/packages", "", "", 200, `{"language":"gcc","language_version":"14.0.0","installed":true}`},
		{"POST", "/piston/api/v2/packages", json, `{"language":"python","version":"3"}`, 403, `{"message":"Glovebox's operator installs languages`},
		{"DELETE", "/piston/api/v2/packages", json, `{"language":"python","version":"3"}`, 403, `{"message":"Glovebox's operator installs languages`},
		{"GET", "/piston/api/v2/connect", "", "", 426, `{"message":"connect is a WebSocket"}`},
		{"GET", "/piston/api/v2/piston/connect", "", "", 426, `{"message":"connect is a WebSocket"}`},
		{"GET", "/piston/api/v2/piston/packages", "", "", 200, `{"language":"gcc","language_version":"14.0.0","installed":true}`},
		{"POST", "/piston/api/v2/piston/packages", json, `{"language":"python","version":"3"}`, 403, `{"message":"Glovebox's operator installs languages`},
		{"DELETE", "/piston/api/v2/piston/packages", json, `{"language":"python","version":"3"}`, 403, `{"message":"Glovebox's operator installs languages`},
		{"OPTIONS", "/piston/api/v2/execute", "", "", 204, ""},
		{"POST", "/piston/api/v2/execute", "", `{"language":"sh","version":"*",` + program + `}`, 200, `"code":0`},
		{"POST", "/piston/api/v2/piston/execute", text, `{"language":"sh","version":"*",` + program + `}`, 200, `"code":0`},
		{"POST", "/piston/api/v2/execute", "application/x-www-form-urlencoded", `language=sh`, 415, `{"message":"requests must be of type application/json"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":`, 400, `{"message":"the body is not a JSON object"}`},
		{"POST", "/piston/api/v2/execute", json, `{"version":"*",` + program + `}`, 400, `{"message":"language is required as a string"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh",` + program + `}`, 400, `{"message":"version is required as a string"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*"}`, 400, `{"message":"files is required as an array"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","files":[{"name":"a"}]}`, 400, `{"message":"files[0].content is required as a string"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","files":[{"content":"zz","encoding":"hex"}]}`, 400, `{"message":"files[0].content is not hex"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","files":[{"content":"/w=?","encoding":"base64"}]}`, 400, `{"message":"files[0].content is not base64"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","files":[{"content":"/w==","encoding":"base64"}]}`, 400, `{"message":"files must include at least one utf8 encoded file"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","stdin":7,` + program + `}`, 400, `{"message":"If specified, stdin must be a string"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","args":"x",` + program + `}`, 400, `{"message":"If specified, args must be an array of strings"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*",` + program + `,"run_timeout":-2}`, 400, `{"message":"run_timeout must be non-negative"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*",` + program + `,"compile_timeout":300001}`, 400, `{"message":"compile_timeout cannot exceed the configured limit of 300000"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*",` + program + `,"run_cpu_time":1200001}`, 400, `{"message":"run_cpu_time cannot exceed the configured limit of `},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*",` + program + `,"compile_cpu_time":1200001}`, 400, `{"message":"compile_cpu_time cannot exceed the configured limit of `},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*",` + program + `,"run_memory_limit":2147483649}`, 400, `{"message":"run_memory_limit cannot exceed the configured limit of `},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*",` + program + `,"compile_memory_limit":2147483649}`, 400, `{"message":"compile_memory_limit cannot exceed the configured limit of `},
		{"POST", "/piston/api/v2/execute", json, `{"language":"x","version":"1.2.3",` + program + `}`, 400, `{"message":"x-1.2.3 runtime is unknown"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"<1",` + program + `}`, 400, `{"message":"sh-<1 runtime is unknown"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","files":[]}`, 400, `{"message":"files must include at least one utf8 encoded file"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*",` + program + `,"run_timeout":300001}`, 400, `{"message":"run_timeout cannot exceed the configured limit of 300000"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*",` + program + `,"run_timeout":"1"}`, 400, `{"message":"If specified, run_timeout must be a number"}`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","files":[{"name":"../x","content":"true"}]}`, 400, `{"message":"files[0].name: is not a plain path`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","files":[{"name":"/etc/x","content":"true"}]}`, 400, `{"message":"files[0].name: is absolute`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","args":["` + strings.Repeat(`x","`, 300) + `"],` + program + `}`, 400, `{"message":"args: has too many entries`},
		{"POST", "/piston/api/v2/execute", json, `{"language":"sh","version":"*","stdin":"{100 MiB}",` + program + `}`, 413, `{"message":"the body is too large`},
	} {
		list = append(list, exchange{method: tt.method, path: tt.path, mediaType: tt.mediaType, body: tt.body, status: tt.status, answer: tt.want})
	}
	return append(list,
		exchange{method: "GET", path: "/piston/api/v2/runtimes", status: 401, answer: `{"message":"`, by: noToken},
		exchange{method: "POST", path: "/piston/api/v2/execute", mediaType: json, body: `{"language":"sh","version":"*",` + program + `}`, status: 401, answer: `{"message":"`, by: wrongToken},
	)
}

// TestPistonRoutes: every route of Piston's, and every error that needs no program.
func TestPistonRoutes(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=piston", "GLOVEBOX_FACADE_TENANT="}})
	given{}.check(t, pistonRequests(), func(e exchange) asked { return g.ask(t, g.tokenOf(e.by), e.method, e.path, e.mediaType, e.body) })
	const json = "application/json"
	for _, token := range []string{"", "wrong"} {
		for _, path := range []string{"/piston/api/v2/runtimes", "/piston/api/v2/packages"} {
			if said := g.ask(t, token, http.MethodGet, path, "", ""); said.status != http.StatusUnauthorized || !strings.HasPrefix(said.body, `{"message":"`) {
				t.Errorf("%q: got %d %s, want 401", token, said.status, said.body)
			}
		}
		if said := g.ask(t, token, http.MethodPost, "/piston/api/v2/execute", json, `{}`); said.status != http.StatusUnauthorized {
			t.Errorf("%q: got %d %s, want 401", token, said.status, said.body)
		}
	}
}

// TestPistonClient: npm's client works as it is, with the token in its server's URL, or with none where the operator allows that.
func TestPistonClient(t *testing.T) {
	t.Parallel()
	dir := gbtest.NPM(t, "testdata/piston-client")
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=piston", "GLOVEBOX_FACADE_TENANT=default"}})
	for _, server := range []string{strings.Replace(g.url, "://", "://x:"+g.token+"@", 1) + "/piston", g.url + "/piston/"} {
		for _, tt := range []struct {
			language, code string
			options        map[string]any
			want           string
		}{
			{"python", "import sys; print(sys.argv[1:])", map[string]any{"runTimeout": 60_000}, "['1', '2', '3']\n"},
			{"javascript", "console.log(process.argv.slice(2))", map[string]any{"args": []string{"a"}, "runTimeout": 60_000}, "[ 'a' ]\n"},
			{"c++", "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << n; }", map[string]any{"stdin": "42", "runTimeout": 60_000, "compileTimeout": 60_000}, "42"},
		} {
			request, err := json.Marshal([]any{server, tt.language, tt.code, tt.options})
			if err != nil {
				t.Fatal(err)
			}
			client := exec.CommandContext(t.Context(), "node", "execute.mjs", string(request))
			client.Dir = dir
			var stderr bytes.Buffer
			client.Stderr = &stderr
			out, err := client.Output()
			var a pistonAnswer
			if err == nil {
				err = json.Unmarshal(out, &a)
			}
			if err != nil || a.Run.Output != tt.want || a.Run.said() != "0 - - -" || a.Language != tt.language {
				t.Errorf("%s: got %s, %v, want %q\n%s", tt.language, out, err, tt.want, stderr.String())
			}
		}
	}
	wrong := exec.CommandContext(t.Context(), "node", "execute.mjs", fmt.Sprintf(`["%s/piston","python","1"]`, strings.Replace(g.url, "://", "://x:wrong@", 1)))
	wrong.Dir = dir
	if out, err := wrong.Output(); err == nil && !strings.Contains(string(out), "message") && !strings.Contains(string(out), `"success":false`) {
		t.Errorf("a wrong token: got %s, want that it is refused", out)
	}
}

// TestPistonLeaves: a program whose client has left is ended, as nobody can read what it did.
func TestPistonLeaves(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=piston"}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/piston/api/v2/execute",
		strings.NewReader(`{"language":"sh","version":"*","files":[{"content":"sleep 250"}],"run_timeout":300000}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", g.token) // Piston's users send it without a scheme
	left := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
		}
		left <- err
	}()
	listed := func(status job.Status) bool {
		page, err := g.client.List(t.Context(), producer.ListOptions{})
		return err == nil && slices.ContainsFunc(page.Jobs, func(j job.Summary) bool { return j.Status == status })
	}
	gbtest.Eventually(t, "it runs", func() bool { return listed(job.Running) })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want a client that left", err)
	}
	gbtest.Eventually(t, "it is canceled", func() bool { return listed(job.Canceled) })
}
