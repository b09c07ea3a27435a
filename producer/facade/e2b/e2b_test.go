package e2b

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
)

// TestEntries: a body of many entries is refused before anything is made of them, wherever they are.
func TestEntries(t *testing.T) {
	t.Parallel()
	many := func(s string, n int) string { return strings.TrimSuffix(strings.Repeat(s, n), ",") }
	for body, want := range map[string]bool{
		`{"code":"` + many(`{[\",`, 5000) + `"}`:              true,
		`{"env_vars":{` + many(`"a":"",`, 4000) + `}}`:        true,
		`{` + many(`"a":1,`, 5000) + `}`:                      false,
		`{"env_vars":{` + many(`"a":"",`, 5000) + `}}`:        false,
		`{"process":{"args":[` + many(`"",`, 5000) + `]}}`:    false,
		`{"a":` + many("[", 5000) + many("]", 5000) + `}`:     false,
		`{"code":"\\","env_vars":[` + many(`1,`, 5000) + `]}`: false,
	} {
		if _, err := parseRequest([]byte(body)); (err == nil) != want {
			t.Errorf("%.30s: got %v", body, err)
		}
	}
}

// memory is an api's: what is taken is told.
type memory struct {
	facade.Host

	body  []byte
	taken int64
}

func (m *memory) Body(context.Context) ([]byte, func(), error) {
	m.taken += int64(len(m.body))
	return m.body, func() { m.taken -= int64(len(m.body)) }, nil
}

func (m *memory) Work(_ context.Context, n int64) (func(), error) {
	m.taken += n
	return func() { m.taken -= n }, nil
}

// TestUnzip: what is unzipped is taken as a body that came so, is bounded, and is given back.
func TestUnzip(t *testing.T) {
	t.Parallel()
	zip := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(text))
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	call := func(text string) (int64, int64, error) {
		m := &memory{body: zip(text)}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Header.Set("Content-Encoding", "gzip")
		_, done, err := readHeld(t.Context(), r, &facade.Call{Host: m})
		taken := m.taken - int64(len(m.body))
		if err == nil {
			done()
		}
		return taken, m.taken, err
	}
	if taken, left, err := call(`{"code":"` + strings.Repeat("x", 8<<20-11) + `"}`); err != nil || taken != 32<<20 || left != 0 {
		t.Errorf("got %d taken, %d left, %v", taken, left, err)
	}
	var said statusError
	if _, left, err := call(`{"code":"` + strings.Repeat("x", 8<<20) + `"}`); !errors.As(err, &said) || said.status != http.StatusRequestEntityTooLarge || left != 0 {
		t.Errorf("one too large: got %v, %d left", err, left)
	}
	if _, left, err := call(`[]`); err == nil || left != 0 {
		t.Errorf("no object: got %v, %d left", err, left)
	}
	// A message that is compressed in a body that is not.
	message := zip(`{"path":"a"}`)
	m := &memory{body: append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(message))), message...)}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	r.Header.Set("Content-Type", streamType)
	r.Header.Set("Connect-Content-Encoding", "gzip")
	q, done, err := readCall(t.Context(), r, &facade.Call{Host: m})
	if err != nil || !q.has("path") || m.taken <= int64(len(m.body)) {
		t.Fatalf("got %v, %v, %d taken", q, err, m.taken)
	}
	if done(); m.taken != 0 {
		t.Errorf("%d are left", m.taken)
	}
}

// deaf is a client that takes nothing.
type deaf struct{ http.ResponseWriter }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("it has left") }

// TestSendStream: a file that can't be sent whole ends the connection.
func TestSendStream(t *testing.T) {
	t.Parallel()
	defer func() {
		if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // it is told by itself
			t.Errorf("got %v, want that the connection ends", got)
		}
	}()
	err := sendStream(t.Context(), deaf{httptest.NewRecorder()}, &facade.Call{}, job.Result{Stdout: "text", Results: []job.Shown{{Data: map[string]job.Rendering{printedType: {Text: "4"}}}}}, "a")
	t.Errorf("got %v where nothing of the file was sent", err)
}

// TestCheckPrinted: what an errand printed counts only if nothing else printed meanwhile.
func TestCheckPrinted(t *testing.T) {
	t.Parallel()
	says := func(size string) []job.Shown {
		return []job.Shown{{Data: map[string]job.Rendering{"text/plain": {Text: "4"}}}, {Data: map[string]job.Rendering{printedType: {Text: size}}}}
	}
	for name, results := range map[string][]job.Shown{"nothing": nil, "less": says("3"), "more": says("5"), "no number": says("4 "), "the same": says("4")} {
		if err := checkPrinted(job.Result{Results: results}, 4); (err == nil) != (name == "the same") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestForm: the files of a form are what they are, also where one has nothing, and one that ends too early is refused.
func TestForm(t *testing.T) {
	t.Parallel()
	part := func(name, content string) string {
		return "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name + "\"\r\n\r\n" + content + "\r\n"
	}
	sent, err := partsOf([]byte(part("a", "one")+part("b", "")+part("c", "three")+"--x--\r\n"), "x", "")
	if err != nil || len(sent) != 3 || string(sent[0].content) != "one" || len(sent[1].content) != 0 || string(sent[2].content) != "three" {
		t.Errorf("got %s, %v", sent, err)
	}
	if sent, err := partsOf([]byte(part("a", "one")+"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\r\n\r\nx"), "x", ""); err == nil {
		t.Errorf("without an end: got %s", sent)
	}
}

func TestErrorOf(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	kept, lost := &job.ExecutionState{State: job.StateKept}, &job.ExecutionState{State: job.StateLost}
	for name, tt := range map[string]struct {
		r        job.Result
		language string
		want     string
	}{
		"well":              {job.Result{Status: job.Succeeded, Session: kept}, "python", ""},
		"an exception":      {job.Result{Status: job.Failed, ExitCode: code(1), Session: kept, Exception: &job.Exception{Name: "ValueError", Value: "v"}}, "python", "ValueError: v"},
		"an exit code":      {job.Result{Status: job.Failed, ExitCode: code(3), Session: kept}, "python", "SystemExit: 3"},
		"bash's exit code":  {job.Result{Status: job.Failed, ExitCode: code(3), Session: kept}, "bash", ""},
		"time":              {job.Result{Status: job.TimedOut, Limit: "wall_ms", Session: kept}, "python", "TimeoutError: the execution took longer than wall_ms allows"},
		"output":            {job.Result{Status: job.OutputLimitExceeded, Limit: "output_kb", Session: kept, Exception: &job.Exception{Name: "KeyboardInterrupt"}}, "python", "OutputLimitExceeded: the execution printed more than output_kb allows"},
		"memory":            {job.Result{Status: job.OutOfMemory, Session: lost}, "python", "MemoryError: the sandbox used more memory than it has"},
		"interrupted":       {job.Result{Status: job.Canceled, Session: kept}, "python", "KeyboardInterrupt: "},
		"lost":              {job.Result{Status: job.Failed, ExitCode: code(137), Session: lost}, "bash", unexpected + ": "},
		"its worker lost":   {job.Result{Status: job.InternalError, Error: &job.Error{Message: "gone"}}, "python", unexpected + ": gone"},
		"its session ended": {job.Result{Status: job.Canceled, Error: &job.Error{Message: "ended"}}, "python", unexpected + ": ended"},
	} {
		got := ""
		if n, v, _, failed := errorOf(tt.r, tt.language); failed {
			got = n + ": " + v
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// TestCodeOfStatus: what is refused for a reason is no fault of ours, which SDKs would try again, and each code has a status.
func TestCodeOfStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{402: "resource_exhausted", 403: "permission_denied", 409: "already_exists", 413: "invalid_argument", 415: "invalid_argument", 429: "resource_exhausted", 418: "internal"} {
		if got := codeOfStatus(status); got != want || statusOfCode[got] == 0 {
			t.Errorf("%d: got %q, %d, want %q", status, got, statusOfCode[got], want)
		}
	}
}

// TestBashEnv: variables hold between the two, whatever their values are, and then are as they were.
func TestBashEnv(t *testing.T) {
	t.Parallel()
	set, reset := envCode("bash", map[string]string{"A": "it's $(id) `id` \"\n", "B": "new"})
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "B=old\nexport B\n"+set+`printf '[%s]' "$A" "$B"`+"\n"+reset+`printf '[%s]' "${A-unset}" "$B"; `+reset+`printf '[%s]' "$B"; compgen -v glovebox`)
	if out, err := cmd.Output(); string(out) != "[it's $(id) `id` \"\n][new][unset][old][old]" || err == nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// TestPythonEnv is the same for Python.
func TestPythonEnv(t *testing.T) {
	t.Parallel()
	gbtest.Require(t, "python3")
	set, reset := envCode("python", map[string]string{"A": "$(id)", "B": "new"})
	cmd := exec.CommandContext(t.Context(), "python3", "-c", "import os\nos.environ['B'] = 'old'\nassert ("+set+") is None\nprint([os.environ['A'], os.environ['B']])\nassert ("+reset+") is None\nprint(['A' in os.environ, os.environ['B']])\nassert ("+reset+") is None")
	out, err := cmd.CombinedOutput()
	if want := "['$(id)', 'new']\n[False, 'old']\n"; string(out) != want || err != nil {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}
