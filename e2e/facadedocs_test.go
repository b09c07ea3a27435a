package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer/facade"
	"github.com/glovebox-run/glovebox/producer/facade/e2b"
	"github.com/glovebox-run/glovebox/producer/facade/jobe"
	judge0facade "github.com/glovebox-run/glovebox/producer/facade/judge0" // judge0 is its client here
	"github.com/glovebox-run/glovebox/producer/facade/piston"
)

// exchange is a request to a façade, below its base path, and what it is answered.
type exchange struct {
	method, path string
	sandbox      string // of E2B's
	mediaType    string
	body         string
	status       int
	answer       string // a part of it; "" for nothing at all, anything for whatever
	by           asker
}

// asker is who sends an exchange, by the token.
type asker string

const (
	ownToken   asker = ""
	noToken    asker = "without a token"
	wrongToken asker = "with a wrong token"
)

// tokenOf is what an asker sends.
func (g *glovebox) tokenOf(who asker) string {
	return map[asker]string{ownToken: g.token, noToken: "", wrongToken: "wrong"}[who]
}

const anything = "…"

// given are the names in an exchange, which an ask replaces: {token} and the like. {100 MiB} is as many letters.
type given map[string]string

var sizes = regexp.MustCompile(`\{(\d+) (bytes|MiB)\}`)

func (g given) fill(text string) string {
	text = sizes.ReplaceAllStringFunc(text, func(size string) string {
		m := sizes.FindStringSubmatch(size)
		n, _ := strconv.Atoi(m[1])
		return strings.Repeat("x", n*map[string]int{"bytes": 1, "MiB": 1 << 20}[m[2]])
	})
	for name, value := range g {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// check asks all that a façade's list has, in its order.
func (g given) check(t *testing.T, list []exchange, ask func(e exchange) asked) {
	t.Helper()
	for _, e := range list {
		sent := e
		for _, text := range []*string{&sent.path, &sent.sandbox, &sent.body} {
			*text = g.fill(*text)
		}
		said, want := ask(sent), g.fill(e.answer)
		if said.status != e.status || e.answer != anything && !strings.Contains(said.body, want) || want == "" && said.body != "" || said.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s %s %.200s: got %d %.1000q, want %d %s", e.method, e.path, e.body, said.status, said.body, e.status, e.answer)
		}
	}
}

// told is a line of docs/facades.md.
type told struct{ what, sent, answered string }

func (e exchange) told() told {
	what := e.method + " " + e.path
	if e.sandbox != "" {
		what += " to " + e.sandbox
	}
	if e.mediaType != "" && e.mediaType != "application/json" {
		what += " as " + e.mediaType
	}
	if e.by != ownToken {
		what += " " + string(e.by)
	}
	return told{what, e.body, strings.TrimSpace(fmt.Sprint(e.status, " ", e.answer))}
}

// linesOf are programs' lines by their names.
func linesOf[P any](programs map[string]P, line func(name string, p P) told) (list []told) {
	for name, p := range programs {
		list = append(list, line(name, p))
	}
	slices.SortFunc(list, func(a, b told) int { return strings.Compare(a.what, b.what) })
	return list
}

var (
	longText = regexp.MustCompile(`[^"\\ {}]{300,}`)
	unseen   = regexp.MustCompile(`[\x00-\x1f\x7f-\x9f\x{fffd}]`)
)

// cell is a text in a table of Markdown's.
func cell(text string) string {
	if text == "" {
		return ""
	}
	text = longText.ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprintf("%s…(%d bytes)", s[:8], len(s)) })
	if len(text) > 600 {
		text = fmt.Sprintf("%s(%d bytes)", job.Clip(text, 300), len(text))
	}
	text = unseen.ReplaceAllStringFunc(text, func(s string) string { return strings.Trim(strconv.QuoteToASCII(s), `"`) })
	text = strings.ReplaceAll(text, "|", `\|`)
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// jsonOf is v in JSON, with its characters as they are.
func jsonOf(t *testing.T, v any) string {
	t.Helper()
	if text, ok := v.(string); ok || v == nil {
		return text
	}
	b, err := job.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var update = flag.Bool("update", false, "write docs/facades.md anew")

// TestFacadeTables: docs/facades.md has all that these tests send to façades and are answered, which is at least one request to
// each route.
func TestFacadeTables(t *testing.T) {
	t.Parallel()
	const page = "../docs/facades.md"
	var b strings.Builder
	b.WriteString("# What façades answer\n\n<!-- Written by go test ./e2e -run TestFacadeTables -update: change the tables of its tests instead. -->\n\n" +
		"Each line is sent to a façade by `make test`, on a real queue and real sandboxes, and answered as it says: a part of the answer, or the fields that matter. `{…}` stands for what differs from run to run, `{100 MiB}` for a text that long. Judge0's programs have longer limits of time there than they name, so that a busy machine decides nothing. [moving.md](moving.md) says what façades are.\n")
	for _, part := range []struct {
		facade   facade.Facade
		title    string
		programs []told
		requests []exchange
	}{
		{judge0facade.New(), "Judge0 CE", judge0Told(t), judge0Requests(t)},
		{piston.New(), "Piston v2", append(pistonTold(), dialogsTold()...), pistonRequests()},
		{jobe.New(), "Jobe", jobeTold(), jobeRequests()},
		{e2b.New(), "E2B's code interpreter", nil, e2bRequests()},
	} {
		asked := http.NewServeMux()
		routes := map[string]bool{}
		for _, r := range part.facade.Routes {
			asked.HandleFunc(r.Pattern, func(http.ResponseWriter, *http.Request) {})
			routes[r.Pattern] = false
		}
		fmt.Fprintf(&b, "\n## %s\n", part.title)
		if part.programs != nil {
			b.WriteString("\n| program | sent | answered |\n|---|---|---|\n")
			for _, p := range part.programs {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", p.what, cell(p.sent), cell(p.answered))
			}
		}
		b.WriteString("\n| request | body | answered |\n|---|---|---|\n")
		for _, e := range part.requests {
			line := e.told()
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(line.what), cell(line.sent), cell(line.answered))
			r, err := http.NewRequestWithContext(t.Context(), e.method, "http://localhost/"+strings.Trim(strings.TrimPrefix(e.path, part.facade.Base), "/"), http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			_, pattern := asked.Handler(r)
			routes[pattern] = true
		}
		for pattern, there := range routes {
			if !there {
				t.Errorf("%s: nothing asks %s", part.facade.Name, pattern)
			}
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != b.String() {
		t.Errorf("%s differs from the tables (%v): go test ./e2e -run TestFacadeTables -update", page, err)
	}
}
