package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// pistonSocket is a connection to Piston's connect.
type pistonSocket struct {
	tb testing.TB
	*websocket.Conn
}

func (g *glovebox) pistonConnect(t *testing.T) pistonSocket {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), strings.Replace(g.url, "http", "ws", 1)+"/piston/api/v2/connect", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + g.token}}}) //nolint:bodyclose // the library does
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return pistonSocket{t, c}
}

func (s pistonSocket) sends(text string) {
	s.tb.Helper()
	if err := s.Write(s.tb.Context(), websocket.MessageText, []byte(text)); err != nil {
		s.tb.Fatal(err)
	}
}

// hears returns what is sent up to a message that has a text, or to the end, with data of one stream that follows another as one.
// At the end is what it was closed with.
func (s pistonSocket) hears(until string) string {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), patience)
	defer cancel()
	var said strings.Builder
	stream, data := "", ""
	flush := func() {
		if data != "" {
			said.WriteString(stream + " " + quote(data) + "\n")
		}
		stream, data = "", ""
	}
	for {
		_, text, err := s.Read(ctx)
		if err != nil {
			flush()
			return said.String() + websocket.CloseStatus(err).String() + "\n"
		}
		var m struct {
			Type, Stage, Stream, Data, Message, Language string
			Code                                         *int
			Signal                                       *string
		}
		if err := json.Unmarshal(text, &m); err != nil {
			s.tb.Fatalf("%s: %v", text, err)
		}
		if m.Type == "data" {
			if stream != m.Stream {
				flush()
			}
			stream, data = m.Stream, data+m.Data
			if until != "" && strings.HasSuffix(data, until) {
				flush()
				return said.String()
			}
			continue
		}
		flush()
		switch m.Type {
		case "runtime":
			said.WriteString("runtime " + m.Language)
		case "stage":
			said.WriteString("stage " + m.Stage)
		case "exit":
			said.WriteString("exit " + m.Stage + string(text[strings.Index(string(text), `,"code"`):]))
		case "error":
			said.WriteString("error " + m.Message)
		default:
			s.tb.Fatalf("got %s", text)
		}
		said.WriteString("\n")
		if until != "" && strings.Contains(string(text), until) {
			return said.String()
		}
	}
}

// pistonTurn waits for what is heard first, and then sends.
type pistonTurn struct{ until, send string }

// pistonDialog is one over Piston's WebSocket, and all that is heard, as hears tells it.
type pistonDialog struct {
	turns []pistonTurn
	want  string
}

func pistonInit(language, source string) string {
	return `{"type":"init","language":"` + language + `","version":"*","run_timeout":60000,"compile_timeout":60000,"files":[{"content":` + quote(source) + `}]}`
}

func pistonStdin(data string) string {
	return `{"type":"data","stream":"stdin","data":` + quote(data) + `}`
}

// pistonDialogs have each message, and each code that a connection is closed with.
func pistonDialogs() map[string]pistonDialog {
	return map[string]pistonDialog{
		"a dialog": {
			[]pistonTurn{{"", pistonInit("python", "print('name?')\nprint('hello', input())\nimport sys; print(sys.stdin.readline())")}, {"name?\n", pistonStdin("A")}, {"", pistonStdin("da\n")}, {"hello Ada\n", pistonStdin("bye\n")}},
			"runtime python\nstage run\nstdout \"name?\\n\"\nstdout \"hello Ada\\n\"\nstdout \"bye\\n\\n\"\nexit run,\"code\":0,\"signal\":null}\nStatusCode(4999)\n",
		},
		"typed ahead": {
			[]pistonTurn{{"", pistonInit("python", "print(input() + input())")}, {"", pistonStdin("a\nb\n")}},
			"runtime python\nstage run\nstdout \"ab\\n\"\nexit run,\"code\":0,\"signal\":null}\nStatusCode(4999)\n",
		},
		"compiled": {
			[]pistonTurn{{"", pistonInit("c", "#include <stdio.h>\nint main(void) { int n; scanf(\"%d\", &n); printf(\"%d\\n\", 2 * n); return 7; }")}, {`"stage":"run"`, pistonStdin("21\n")}},
			"runtime c\nstage compile\nexit compile,\"code\":0,\"signal\":null}\nstage run\nstdout \"42\\n\"\nexit run,\"code\":7,\"signal\":null}\nStatusCode(4999)\n",
		},
		"a signal": {
			[]pistonTurn{{"", pistonInit("bash", "echo up; sleep 99")}, {"up\n", `{"type":"signal","signal":"SIGTERM"}`}},
			"runtime bash\nstage run\nstdout \"up\\n\"\nexit run,\"code\":null,\"signal\":\"SIGTERM\"}\nStatusCode(4999)\n",
		},
		"both streams": {
			[]pistonTurn{{"", pistonInit("bash", "echo out; sleep 1; echo err >&2; exit 3")}},
			"runtime bash\nstage run\nstdout \"out\\n\"\nstderr \"err\\n\"\nexit run,\"code\":3,\"signal\":null}\nStatusCode(4999)\n",
		},
		"its time is up": {
			[]pistonTurn{{"", strings.Replace(pistonInit("python", "input()"), `"run_timeout":60000`, `"run_timeout":1000`, 1)}},
			"runtime python\nstage run\nexit run,\"code\":null,\"signal\":\"SIGKILL\"}\nStatusCode(4999)\n",
		},
		"the same word": {
			[]pistonTurn{{"", pistonInit("bash", "echo Execution timed out >&2; read")}, {"runtime", pistonStdin("\n")}},
			"runtime bash\nstage run\nstderr \"Execution timed out\\n\"\nexit run,\"code\":0,\"signal\":null}\nStatusCode(4999)\n",
		},
		"twice":               {[]pistonTurn{{"", pistonInit("bash", "sleep 60")}, {"", pistonInit("bash", "sleep 60")}}, "StatusCode(4000)\n"},
		"nothing":             {nil, "StatusCode(4001)\n"},
		"no JSON":             {[]pistonTurn{{"", "x"}}, "error the message is not a JSON object\nStatusCode(4002)\n"},
		"no language":         {[]pistonTurn{{"", `{"type":"init"}`}}, "error language is required as a string\nStatusCode(4002)\n"},
		"an unknown language": {[]pistonTurn{{"", pistonInit("basic", "x")}}, "error basic-* runtime is unknown\nStatusCode(4002)\n"},
		"data first":          {[]pistonTurn{{"", pistonStdin("x")}}, "StatusCode(4003)\n"},
		"a signal first":      {[]pistonTurn{{"", `{"type":"signal","signal":"SIGTERM"}`}}, "StatusCode(4003)\n"},
		"another stream":      {[]pistonTurn{{"", pistonInit("bash", "sleep 60")}, {"runtime", `{"type":"data","stream":"stdout","data":"x"}`}}, "StatusCode(4004)\n"},
		"another signal":      {[]pistonTurn{{"", pistonInit("bash", "sleep 60")}, {"runtime", `{"type":"signal","signal":"SIGNOT"}`}}, "StatusCode(4005)\n"},
		"another type":        {[]pistonTurn{{"", pistonInit("bash", "read; echo $REPLY")}, {"runtime", `{"type":"wave"}`}, {"", pistonStdin("1\n")}}, "runtime bash\nstage run\nstdout \"1\\n\"\nexit run,\"code\":0,\"signal\":null}\nStatusCode(4999)\n"},
		"too much input":      {[]pistonTurn{{"", pistonInit("bash", "sleep 60")}, {"runtime", pistonStdin(strings.Repeat("x", 100_000))}, {"", pistonStdin(strings.Repeat("x", 100_000))}, {"", pistonStdin(strings.Repeat("x", 100_000))}}, "error the job has had all the input that it may get while it runs: 256 KiB as JSON, with 64 bytes more for each input\nStatusCode(4002)\n"},
	}
}

func dialogsTold() []told {
	return linesOf(pistonDialogs(), func(name string, d pistonDialog) told {
		var sent []string
		for _, turn := range d.turns {
			sent = append(sent, turn.send)
		}
		return told{"connect: " + name, strings.Join(sent, " "), strings.ReplaceAll(strings.TrimSpace(d.want), "\n", "; ")}
	})
}

// TestPistonConnect: a dialog over Piston's WebSocket, each of its messages, and what is refused.
func TestPistonConnect(t *testing.T) {
	t.Parallel()
	g := start(t, options{apiEnv: []string{"GLOVEBOX_FACADES=piston"}})
	t.Run("dialogs", func(t *testing.T) { //nolint:paralleltest // those in it are
		for name, c := range pistonDialogs() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				gbtest.WhenIdle(t)
				s := g.pistonConnect(t)
				said := ""
				for _, turn := range c.turns {
					if turn.until != "" {
						said += s.hears(turn.until)
					}
					s.sends(turn.send)
				}
				said += s.hears("")
				if !strings.Contains(c.want, "exit") { // what is wrong may come before the program runs, or after
					said = strings.NewReplacer("stage run\n", "", "runtime bash\n", "").Replace(said)
				}
				if said != c.want {
					t.Errorf("got\n%s\nwant\n%s", said, c.want)
				}
			})
		}
	})
	t.Run("a client that leaves", func(t *testing.T) { //nolint:paralleltest // behind those whose programs run
		s := g.pistonConnect(t)
		s.sends(strings.Replace(pistonInit("bash", "echo up; sleep 299"), `"run_timeout":60000`, `"run_timeout":300000`, 1))
		s.hears("up\n")
		id := g.theOneThatRuns()
		_ = s.CloseNow()
		if r := g.wait(id); r.Status != job.Canceled {
			t.Errorf("got %+v, want it canceled", r)
		}
	})
	t.Run("a worker that is lost", func(t *testing.T) { //nolint:paralleltest // it is the only one
		s := g.pistonConnect(t)
		s.sends(strings.Replace(pistonInit("python", echoing), `"run_timeout":60000`, `"run_timeout":300000`, 1))
		s.hears("ready\n")
		s.sends(pistonStdin("one\n"))
		s.hears("<one>\n")
		g.worker.Kill()
		g.worker = g.startWorker()
		s.sends(pistonStdin("two\n"))
		if said := s.hears("<two>\n"); said != "stdout "+quote("<two>\n")+"\n" {
			t.Errorf("got %s", said)
		}
	})
	t.Run("canceled while it waits", func(t *testing.T) { //nolint:paralleltest // without a worker
		g.worker.Stop()
		s := g.pistonConnect(t)
		s.sends(pistonInit("bash", "echo up"))
		s.hears("runtime")
		page, err := g.client.List(t.Context(), producer.ListOptions{Status: []job.Status{job.Queued}})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatalf("got %+v, %v, want one job that waits", page, err)
		}
		if _, err := g.client.Cancel(t.Context(), page.Jobs[0].ID); err != nil {
			t.Fatal(err)
		}
		if said := s.hears(""); said != "error the program was canceled\nStatusCode(4002)\n" {
			t.Errorf("got %s", said)
		}
	})
	t.Run("an api that drains", func(t *testing.T) { //nolint:paralleltest // the last
		s := g.pistonConnect(t)
		s.sends(pistonInit("bash", "echo up"))
		s.hears("runtime")
		g.api.Stop()
		if said := s.hears(""); !strings.HasPrefix(said, "error ") || !strings.HasSuffix(said, "\nStatusCode(4002)\n") {
			t.Errorf("got %s", said)
		}
		g.startAPI("GLOVEBOX_FACADES=piston")
		page, err := g.client.List(t.Context(), producer.ListOptions{Status: []job.Status{job.Queued}})
		if err != nil || len(page.Jobs) != 0 {
			t.Errorf("got %+v, %v, want its job canceled", page, err)
		}
	})
	t.Run("without a token", func(t *testing.T) { //nolint:paralleltest // it takes no time
		_, res, err := websocket.Dial(t.Context(), strings.Replace(g.url, "http", "ws", 1)+"/piston/api/v2/connect", nil) //nolint:bodyclose // likewise
		if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %v, %v, want 401", res, err)
		}
	})
}
