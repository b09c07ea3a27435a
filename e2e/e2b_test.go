package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// TestE2BClient: E2B's SDK of npm does what its users do, as its authors published it.
func TestE2BClient(t *testing.T) {
	t.Parallel()
	dir := gbtest.NPM(t, "testdata/e2b-client")
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=e2b"}})
	for _, step := range []string{"lifecycle", "code", "streams", "error", "interrupt", "shown", "environment", "contexts", "files", "commands"} {
		t.Run(step, func(t *testing.T) {
			g.e2bClient(t, dir, step, "E2B_API_KEY="+g.token)
		})
	}
}

// TestE2BDebug: an SDK that is told to debug starts no sandbox and sends no token: it works on one session.
func TestE2BDebug(t *testing.T) {
	t.Parallel()
	dir := gbtest.NPM(t, "testdata/e2b-client")
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=e2b", "GLOVEBOX_FACADE_TENANT=default"}})
	for _, step := range []string{"error", "interrupt"} {
		g.e2bClient(t, dir, step, "E2B_DEBUG=true")
	}
	page, err := g.client.ListSessions(t.Context(), producer.SessionListOptions{})
	if err != nil || len(page.Sessions) != 1 {
		t.Fatalf("got %d sessions, %v, want one", len(page.Sessions), err)
	}
	if _, err := g.client.EndSession(t.Context(), page.Sessions[0].ID); err != nil {
		t.Fatal(err)
	}
	g.e2bClient(t, dir, "error", "E2B_DEBUG=true") // in another
}

// e2bClient runs a step of the client's.
func (g *glovebox) e2bClient(t *testing.T, dir, step string, env ...string) {
	t.Helper()
	client := exec.CommandContext(t.Context(), "node", "check.mjs", step)
	client.Dir = dir
	client.Env = append(os.Environ(), append(env, "E2B_API_URL="+g.url+"/e2b", "E2B_SANDBOX_URL="+g.url+"/e2b")...)
	if out, err := client.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "ok ") {
		t.Errorf("%s: %v\n%s", step, err, out)
	}
}

// askE2B sends a request to a sandbox; headers are names and values.
func (g *glovebox) askE2B(t *testing.T, method, path string, body io.Reader, headers ...string) asked {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.url+"/e2b"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	askFirst(req)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
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

// e2bSandbox starts one, and returns its ID.
func (g *glovebox) e2bSandbox(t *testing.T, token string) string {
	t.Helper()
	said := g.askE2B(t, http.MethodPost, "/sandboxes", strings.NewReader(`{"templateID":"base","timeout":3600}`), "X-API-KEY", token)
	var made struct{ SandboxID string }
	if err := json.Unmarshal([]byte(said.body), &made); err != nil || said.status != http.StatusCreated {
		t.Fatalf("got %d %s, want 201", said.status, said.body)
	}
	return made.SandboxID
}

// e2bRequests are one to each route, and each status, limit and error, in an order: some change what others see.
func e2bRequests() (list []exchange) {
	const call, stream = "application/json", "application/connect+json"
	for _, tt := range []struct {
		method, path, sandbox, mediaType, body string
		status                                 int
		answer                                 string
	}{
		{"GET", "/sandboxes/{sandbox}", "", "", "", 200, `"state":"running","cpuCount":1,"memoryMB":512,"diskSizeMB":256,"envdVersion":"0.5.7","metadata":{}}`},
		{"GET", "/sandboxes", "", "", "", 200, `"sandboxID":"{sandbox}"`},
		{"GET", "/v2/sandboxes?limit=1&state=running", "", "", "", 200, `[{"templateID":"base"`},
		{"GET", "/v2/sandboxes?state=paused", "", "", "", 200, `[]`},
		{"GET", "/v2/sandboxes?limit=no", "", "", "", 400, `{"code":400,"message":"limit is \"no\": want a number from 1 to 200"}`},
		{"GET", "/v2/sandboxes?nextToken=x", "", "", "", 400, `{"code":400,"message":"cursor: is no cursor of this list`},
		{"GET", "/v2/sandboxes?metadata=%25zz", "", "", "", 400, `{"code":400,"message":"metadata is not a query of names and values"}`},
		{"GET", "/sandboxes/{sandbox}/metrics", "", "", "", 200, `[]`},
		{"POST", "/sandboxes/{sandbox}/timeout", "", call, `{"timeout":60}`, 204, ""},
		{"POST", "/sandboxes/{sandbox}/timeout", "", call, `{"timeout":5401}`, 400, `{"code":400,"message":"timeout is 5401: Glovebox's sandboxes live 5400 seconds at most"}`},
		{"POST", "/sandboxes/{sandbox}/timeout", "", call, `{"timeout":"60"}`, 400, `{"code":400,"message":"timeout is \"60\": want a whole number of 0 or more"}`},
		{"POST", "/sandboxes/{sandbox}/timeout", "", call, `{}`, 400, `{"code":400,"message":"timeout is missing: want seconds"}`},
		{"POST", "/sandboxes/{sandbox}/refreshes", "", call, `{"duration":1200}`, 204, ""},
		{"POST", "/sandboxes/{sandbox}/connect", "", call, `{"timeout":9000}`, 200, `"trafficAccessToken":"gbs_GLOVEBOX_TOKEN.`},
		{"POST", "/v2/sandboxes/{sandbox}/connect", "", "", "", 200, `"envdAccessToken":"gbs_GLOVEBOX_TOKEN.`},
		{"POST", "/sandboxes/{sandbox}/resume", "", call, `{}`, 409, `{"code":409,"message":"the sandbox is running`},
		{"POST", "/sandboxes/{sandbox}/pause", "", call, `{}`, 501, `{"code":501,"message":"Glovebox has no such thing: sandboxes can't be paused"}`},
		{"POST", "/sandboxes/{sandbox}/snapshots", "", call, `{}`, 501, `no snapshots`},
		{"POST", "/sandboxes/{sandbox}/fork", "", call, `{}`, 501, `can't be forked`},
		{"PUT", "/sandboxes/{sandbox}/network", "", call, `{}`, 501, `no network`},
		{"POST", "/sandboxes", "", call, `{"templateID":"cobol"}`, 404, `{"code":404,"message":"template cobol not found`},
		{"POST", "/sandboxes", "", call, `{"templateID":7}`, 400, `templateID is 7: want a string`},
		{"POST", "/sandboxes", "", call, `{"templateID":"base","metadata":{"a":1}}`, 400, `metadata.a is 1: want a string`},
		{"POST", "/sandboxes", "", call, `{"templateID":"base","metadata":{"e2b.template":"x"}}`, 400, `metadata.e2b.template is not for clients`},
		{"POST", "/sandboxes", "", call, `{"templateID":"base","envVars":{"A=B":"c"}}`, 400, `envVars`},
		{"POST", "/sandboxes", "", call, `{"templateID":"base","timeout":86400}`, 400, `timeout is 86400`},
		{"POST", "/sandboxes", "", call, `{"templateID":"base","autoPause":true}`, 400, `can't be paused`},
		{"POST", "/sandboxes", "", call, `{"templateID":"base","autoPause":"yes"}`, 400, `autoPause is \"yes\": want true or false`},
		{"POST", "/sandboxes", "", call, `{"templateID":"base","allow_internet_access":"yes"}`, 400, `allow_internet_access is \"yes\": want true or false`},
		{"POST", "/sandboxes", "", call, `{"templateID":"base","volumeMounts":[{"name":"v","path":"/v"}]}`, 400, `volumeMounts: Glovebox has no such thing`},
		{"POST", "/sandboxes", "", call, `[]`, 400, `{"code":400,"message":"the body is not a JSON object"}`},
		{"POST", "/sandboxes", "", call, "{100 MiB}", 413, `{"code":413,"message":"the body is too large`},

		{"POST", "/sandboxes", "", call, `{"templateID":"base","timeout":60}`, 201, `"envdVersion":"0.5.7"`},
		{"DELETE", "/sandboxes/{started}", "", "", "", 204, ""},
		{"POST", "/v2/sandboxes", "", call, `{"templateID":"cobol"}`, 404, `{"code":404,"message":"template cobol not found`},
		{"GET", "/sandboxes/{ended}", "", "", "", 404, `{"code":404,"message":"`},
		{"DELETE", "/sandboxes/{ended}", "", "", "", 404, `{"code":404,"message":"`},
		{"GET", "/sandboxes/{other}", "", "", "", 404, `{"code":404,"message":"`},

		{"GET", "/health", "{sandbox}", "", "", 200, `"OK"`},
		{"GET", "/health", "{ended}", "", "", 502, `The sandbox is not running anymore`},
		{"GET", "/health", "{other}", "", "", 404, anything},
		{"POST", "/execute", "{ended}", call, `{"code":"1"}`, 502, `The sandbox is not running anymore`},
		{"GET", "/health", "", "", "", 400, `the header E2b-Sandbox-Id is missing`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"print(6 * 7)"}`, 200, `{"type":"stdout","text":"42\n","timestamp":"`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"import time; time.sleep(6)"}`, 200, `{"type":"keepalive"}`},
		{"POST", "/execute", "{sandbox}", call, `{"code":""}`, 200, `{"type":"end_of_execution"}`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"6 * 7"}`, 200, `{"is_main_result":true,"text":"42","type":"result"}`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"while True: print('x' * 100000)"}`, 200, `{"type":"error","name":"OutputLimitExceeded"`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"1/0"}`, 200, `{"type":"error","name":"ZeroDivisionError","value":"division by zero","traceback":"`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"import sys; print('x', file=sys.stderr)"}`, 200, `{"type":"stderr","text":"x\n","timestamp":"`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"import os; os._exit(1)"}`, 200, `{"type":"error","name":"UnexpectedEndOfExecution"`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"import os; print(os.environ['A'])","env_vars":{"A":"b"}}`, 200, `{"type":"stdout","text":"b\n"`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"  x = 6 * 7\n  print(x)"}`, 200, `{"type":"stdout","text":"42\n"`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"1","language":"r"}`, 400, `language r is not supported`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"1","language":"java"}`, 400, `language java is not supported`},
		{"POST", "/execute", "{sandbox}", call, `{"code":7}`, 400, `code is 7: want a string`},
		{"POST", "/execute", "{sandbox}", call, `{}`, 400, `code is missing: want a string`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"1","language":"cobol"}`, 400, `language cobol is not supported`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"1","context_id":"main","language":"python"}`, 400, `Only one of context_id or language can be provided`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"1","context_id":"../main"}`, 404, `Context ../main not found`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"1","env_vars":{"A":1}}`, 400, `env_vars.A is 1: want a string`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"1","env_vars":{"A B":"c"}}`, 400, `env_vars.A B is no environment variable`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"a\u0000b"}`, 400, `code: is empty or has a NUL`},
		{"POST", "/execute", "{sandbox}", call, `{"code":"{100 MiB}"}`, 413, `the body is too large`},
		{"GET", "/contexts", "{sandbox}", "", "", 200, `{"id":"main","language":"python","cwd":"/home/user"}`},
		{"POST", "/contexts", "{sandbox}", call, `{"language":"cobol"}`, 400, `language cobol is not supported`},
		{"POST", "/contexts", "{sandbox}", call, `{"cwd":"/etc"}`, 400, `cwd is /etc: want a directory below /home/user`},
		{"POST", "/contexts", "{sandbox}", call, `{"cwd":"../../etc"}`, 400, `cwd is /etc: want`},
		{"DELETE", "/contexts/nobodys", "{sandbox}", "", "", 404, `Context nobodys not found`},
		{"POST", "/contexts/nobodys/restart", "{sandbox}", "", "", 404, `Context nobodys not found`},

		{"POST", "/files?path=d/a.txt", "{sandbox}", "application/octet-stream", "a", 200, `[{"name":"a.txt","type":"file","path":"/home/user/d/a.txt"}]`},
		{"GET", "/files?path=/home/user/d/a.txt", "{sandbox}", "", "", 200, "a"},
		{"GET", "/files?path=../../etc/hostname", "{sandbox}", "", "", 200, anything}, // the sandbox's own
		{"GET", "/files?path=/etc/shadow", "{sandbox}", "", "", 403, `{"code":403,"message":"Permission denied`},
		{"GET", "/files?path=d", "{sandbox}", "", "", 400, `{"code":400,"message":"path is no regular file: /home/user/d"}`},
		{"GET", "/files?path=/dev/zero", "{sandbox}", "", "", 400, `no regular file`},
		{"GET", "/files?path=none", "{sandbox}", "", "", 404, `{"code":404,"message":"No such file or directory: /home/user/none"}`},
		{"GET", "/files", "{sandbox}", "", "", 400, `path is missing`},
		{"GET", "/files?path=a&signature=v1_x", "{sandbox}", "", "", 501, `signed URLs`},
		{"POST", "/files?path=/etc/a", "{sandbox}", "application/octet-stream", "a", 403, `{"code":403,"message":"`},
		{"POST", "/files?path=/home/user", "{sandbox}", "application/octet-stream", "a", 400, `{"code":400,"message":"`},
		{"POST", "/files?path=d", "{sandbox}", "application/octet-stream", "a", 400, "glovebox: an input file can't be made"},
		{"POST", "/files", "{sandbox}", "multipart/form-data; boundary=0", "--0\r\nno header", 400, `not a form of files`},
		{"POST", "/files", "{sandbox}", "multipart/form-data; boundary=0", "--0--\r\n", 400, `no part that is called file`},
		{"POST", "/files", "{sandbox}", "multipart/form-data; boundary=0", "--0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"../../tmp/up/b\"\r\n\r\nb\r\n--0--\r\n", 200, `"path":"/tmp/up/b"`},
		{"POST", "/files?path=a", "{sandbox}", "application/octet-stream", "{100 MiB}", 413, `{"code":413`},

		{"POST", "/filesystem.Filesystem/ListDir", "{sandbox}", call, `{"path":"d"}`, 200, `{"name": "a.txt", "type": "FILE_TYPE_FILE", "path": "/home/user/d/a.txt", "size": "1", "mode": 420, "permissions": "-rw-r--r--"`},
		{"POST", "/filesystem.Filesystem/ListDir", "{sandbox}", call, `{"path":"none"}`, 404, `{"code":"not_found","message":"No such file or directory: /home/user/none"}`},
		{"POST", "/filesystem.Filesystem/ListDir", "{sandbox}", call, `{"path":7}`, 400, `{"code":"invalid_argument","message":"path is 7: want a string"}`},
		{"POST", "/filesystem.Filesystem/ListDir", "{sandbox}", "application/proto", "x", 400, `{"code":"invalid_argument","message":"Content-Type`},
		{"POST", "/filesystem.Filesystem/Remove", "{sandbox}", call, `{"path":"/home/user"}`, 400, `that can't be removed`},
		{"POST", "/filesystem.Filesystem/WatchDir", "{sandbox}", stream, frame(`{"path":"d"}`), 200, `{"error":{"code":"unimplemented","message":"WatchDir of files is not there`},
		{"POST", "/process.Process/List", "{sandbox}", call, `{}`, 200, `{"processes":[]}`},
		{"POST", "/process.Process/Start", "{sandbox}", stream, frame(`{"process":{"cmd":"/bin/echo","args":["x"]}}`), 200, `{"event":{"end":{"exitCode":0,"exited":true,"status":"exit status 0"}}}`},
		{"POST", "/process.Process/Start", "{sandbox}", stream, frame(`{"process":{"cmd":"/no/such"}}`), 200, `{"error":{"code":"invalid_argument","message":"/no/such: No such file or directory"}}`},
		{"POST", "/process.Process/Start", "{sandbox}", stream, frame(`{"process":{"args":[7],"cmd":"x"}}`), 200, `{"error":{"code":"invalid_argument","message":"args[0] is 7: want a string"}}`},
		{"POST", "/process.Process/Start", "{sandbox}", stream, "\x00\xff\xff\xff\xff{}", 200, `{"error":{"code":"invalid_argument","message":"the body is not one message`},
		{"POST", "/process.Process/Start", "{sandbox}", stream, frame(`{"process":{"cmd":"x"},"pty":{}}`), 200, `{"error":{"code":"unimplemented","message":"there are no terminals here"}}`},
		{"POST", "/process.Process/Start", "{sandbox}", stream, frame(`{"process":{"cmd":"x"},"stdin":true}`), 200, `"code":"unimplemented"`},
		{"POST", "/process.Process/SendSignal", "{sandbox}", call, `{"process":{"pid":1},"signal":"SIGNAL_SIGKILL"}`, 404, `{"code":"not_found","message":"process with pid 1 not found"}`},
		{"POST", "/process.Process/SendInput", "{sandbox}", call, `{"process":{"pid":1}}`, 501, `{"code":"unimplemented"`},

		{"POST", "/contexts/main/restart", "{sandbox}", "", "", 200, `null`},
		{"POST", "/contexts", "{sandbox}", call, `{"language":"bash","cwd":"/home/user"}`, 200, `"language":"bash","cwd":"/home/user"}`},
		{"DELETE", "/contexts/main", "{sandbox}", "", "", 200, `null`},
		{"GET", "/nothing", "{sandbox}", "", "", 404, `{"code":404,"message":"Not Found"}`},
		{"OPTIONS", "/execute", "", "", "", 204, ""},
	} {
		list = append(list, exchange{method: tt.method, path: tt.path, sandbox: tt.sandbox, mediaType: tt.mediaType, body: tt.body, status: tt.status, answer: tt.answer})
	}
	return list
}

// TestE2BRoutes: every route, status, limit and error, on sandboxes that run, have ended, or are another tenant's.
func TestE2BRoutes(t *testing.T) {
	t.Parallel()
	admin := rand.Text()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=e2b", "GLOVEBOX_ADMIN_TOKEN=" + admin, "GLOVEBOX_FACADE_TENANT="}})
	theirs := g.tenantToken(admin, "other", job.Terms{})
	mine := g.e2bSandbox(t, g.token)
	if said := g.askE2B(t, http.MethodPost, "/execute", strings.NewReader(`{"code":"1"}`), "X-API-KEY", g.token, "E2b-Sandbox-Id", mine); said.status != http.StatusOK {
		t.Fatalf("got %d %s, want 200", said.status, said.body)
	}
	ended, others := g.e2bSandbox(t, g.token), g.e2bSandbox(t, theirs) // these need no place on the worker
	if said := g.askE2B(t, http.MethodDelete, "/sandboxes/"+ended, http.NoBody, "X-API-KEY", g.token); said.status != http.StatusNoContent {
		t.Fatalf("got %d %s, want 204", said.status, said.body)
	}
	const nobodys = "default-s-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	const call = "application/json"
	given{"sandbox": mine, "ended": ended, "started": g.e2bSandbox(t, g.token), "other": others}.check(t, e2bRequests(), func(e exchange) asked {
		headers := []string{"X-API-KEY", g.token}
		if e.sandbox != "" {
			headers = append(headers, "E2b-Sandbox-Id", e.sandbox, "E2b-Sandbox-Port", "49999")
		}
		if e.mediaType != "" {
			headers = append(headers, "Content-Type", e.mediaType)
		}
		return g.askE2B(t, e.method, e.path, strings.NewReader(e.body), headers...)
	})

	// Whoever else's a sandbox is, or was: it is not there. One that has ended is told of on its own routes only.
	for _, tt := range []struct{ method, path, mediaType, body string }{
		{"GET", "/sandboxes/ID", "", ""},
		{"DELETE", "/sandboxes/ID", "", ""},
		{"POST", "/sandboxes/ID/timeout", call, `{"timeout":1}`},
		{"POST", "/sandboxes/ID/refreshes", call, `{"duration":1}`},
		{"POST", "/sandboxes/ID/connect", call, `{}`},
		{"POST", "/sandboxes/ID/resume", call, `{}`},
		{"GET", "/sandboxes/ID/metrics", "", ""},
		{"GET", "/health", "", ""},
		{"POST", "/execute", call, `{"code":"1"}`},
		{"GET", "/contexts", "", ""},
		{"POST", "/contexts", call, `{}`},
		{"DELETE", "/contexts/main", "", ""},
		{"POST", "/contexts/main/restart", "", ""},
		{"GET", "/files?path=a", "", ""},
		{"POST", "/files?path=a", "text/plain", "a"},
		{"POST", "/filesystem.Filesystem/Stat", call, `{"path":"a"}`},
		{"POST", "/process.Process/List", call, `{}`},
	} {
		for id, status := range map[string]int{others: http.StatusNotFound, nobodys: http.StatusNotFound, "x": http.StatusNotFound, ended: http.StatusBadGateway} {
			path := strings.Replace(tt.path, "ID", url.PathEscape(id), 1)
			if path != tt.path && status == http.StatusBadGateway {
				status = http.StatusNotFound
			}
			if strings.HasPrefix(tt.path, "/filesystem") || strings.HasPrefix(tt.path, "/process") {
				status = map[int]int{http.StatusNotFound: http.StatusNotFound, http.StatusBadGateway: http.StatusServiceUnavailable}[status] // as Connect has it
			}
			said := g.askE2B(t, tt.method, path, strings.NewReader(tt.body), "X-API-KEY", g.token, "E2b-Sandbox-Id", id, "Content-Type", tt.mediaType)
			if said.status != status {
				t.Errorf("%s %s of %s: got %d %.300s, want %d", tt.method, tt.path, id, said.status, said.body, status)
			}
		}
		for _, token := range []string{"", "wrong"} {
			said := g.askE2B(t, tt.method, strings.Replace(tt.path, "ID", mine, 1), strings.NewReader(tt.body), "X-Access-Token", token, "E2b-Sandbox-Id", mine, "Content-Type", tt.mediaType)
			if said.status != http.StatusUnauthorized {
				t.Errorf("%s %s with the token %q: got %d %.300s, want 401", tt.method, tt.path, token, said.status, said.body)
			}
		}
	}
	if said := g.askE2B(t, http.MethodGet, "/sandboxes/"+others, http.NoBody, "X-API-KEY", theirs); said.status != http.StatusOK {
		t.Errorf("the other tenant's own: got %d %s", said.status, said.body)
	}

	// A sandbox by the name of its host, with either token that SDKs send.
	for _, header := range []string{"X-Access-Token", "E2B-Traffic-Access-Token"} {
		if said := g.askE2B(t, http.MethodGet, "/health", http.NoBody, header, g.token, "Host", "49983-"+mine+".sandboxes.example.com:443"); said.status != http.StatusNoContent {
			t.Errorf("by its host: got %d %s, want 204", said.status, said.body)
		}
	}

	// What is compressed to little is no more than any body.
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.CopyN(z, zeros{}, 200<<20); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	if said := g.askE2B(t, http.MethodPost, "/files?path=a", &zipped, "X-API-KEY", g.token, "E2b-Sandbox-Id", mine, "Content-Encoding", "gzip"); said.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a bomb: got %d %.300s, want 413", said.status, said.body)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// frame is a message as Connect's protocol has it on a stream.
func frame(message string) string {
	n := len(message)
	return string([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + message
}

// TestE2BLeaves: code whose client has left is interrupted, and one that waits is never executed.
func TestE2BLeaves(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=e2b"}})
	sandbox := g.e2bSandbox(t, g.token)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error, 2)
	listed := func(status job.Status, n int) bool {
		page, err := g.client.ListExecutions(t.Context(), sandbox, producer.SessionListOptions{})
		of := slices.DeleteFunc(page.Jobs, func(j job.Summary) bool { return j.Status != status })
		return err == nil && len(of) == n
	}
	for _, status := range []job.Status{job.Running, job.Queued} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/e2b/execute", strings.NewReader(`{"code":"import time\ntime.sleep(250)"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Access-Token", g.token)
		req.Header.Set("E2b-Sandbox-Id", sandbox)
		go func() {
			res, err := http.DefaultClient.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			left <- err
		}()
		gbtest.Eventually(t, "it is there: "+string(status), func() bool { return listed(status, 1) })
	}
	leave()
	for range 2 {
		if err := <-left; err == nil {
			t.Error("an execution came to an end")
		}
	}
	gbtest.Eventually(t, "both are canceled", func() bool { return listed(job.Canceled, 2) })
	if said := g.askE2B(t, http.MethodPost, "/execute", strings.NewReader(`{"code":"print('goes on')"}`), "X-API-KEY", g.token, "E2b-Sandbox-Id", sandbox); !strings.Contains(said.body, "goes on") {
		t.Errorf("got %d %s, want that it goes on", said.status, said.body)
	}
}
