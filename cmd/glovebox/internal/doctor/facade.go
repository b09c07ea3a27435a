package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// facadeTimeout is what one answer may take: a run that waits for its turn, and a time-out.
	facadeTimeout = 90 * time.Second
	// facadeAnswer bounds one, in bytes.
	facadeAnswer = 4 << 20
)

// ErrFacade is a contract that isn't known here.
var ErrFacade = errors.New("is no façade: want jobe, judge0, piston or e2b")

// Facade is a server that speaks another one's contract: a façade of Glovebox's, or the original.
type Facade struct {
	Name       string // jobe, judge0, piston or e2b
	URL, Token string
}

// caseOf is what a program is to come to.
type caseOf struct {
	name, language, source string
	seconds                int // its CPU time at most
	wanted                 outcome
	says                   string // a part of what is printed, or of what the compiler says
}

// outcome is the same for all contracts.
type outcome string

const (
	succeeds     outcome = "succeeded"
	fails        outcome = "error"
	doesntBuild  outcome = "compile error"
	runsTooLong  outcome = "time limit exceeded"
	anythingElse outcome = "something else"
)

// Languages of the cases, by which a contract finds its own names.
const (
	python = "Python"
	inC    = "C"
)

// programCases are those of contracts that run programs.
var programCases = []caseOf{
	{"hello", python, "print('hello, ' + input())", 10, succeeds, "hello, doctor"},
	{"compile error", inC, "int main(void) { return undeclared_name; }", 10, doesntBuild, "undeclared_name"},
	{"time-out", python, "while True: pass", 1, runsTooLong, ""},
}

// contract is how a server's clients speak to it.
type contract interface {
	// cases are what it is to do.
	cases() []caseOf
	// languages lists names, and by them what the cases' languages are called.
	languages(ctx context.Context, s *facadeServer) (all []string, ours map[string]string, err error)
	// run returns what a program came to, and what it or its compiler said.
	run(ctx context.Context, s *facadeServer, language string, c caseOf) (outcome, string, error)
}

// RunFacade looks whether a server lists languages, and does what its contract says to a few programs.
func RunFacade(ctx context.Context, f Facade) ([]Finding, error) {
	of, ok := map[string]contract{"jobe": jobe{}, "judge0": judge0{}, "piston": piston{}, "e2b": e2b{}}[f.Name]
	if !ok {
		return nil, fmt.Errorf("%.40q %w", f.Name, ErrFacade)
	}
	r, s := &report{}, &facadeServer{client: &http.Client{Timeout: facadeTimeout}, Facade: f}
	defer s.client.CloseIdleConnections()
	all, ours, err := of.languages(ctx, s)
	switch {
	case err != nil:
		r.problem("languages", err.Error(), "correct the URL, as "+f.Name+"'s clients have it, and the token")
		return r.findings, nil
	case len(all) == 0:
		r.problem("languages", "none", "start a worker, or install languages")
		return r.findings, nil
	}
	r.ok("languages", fmt.Sprintf("%d: %s", len(all), strings.Join(all, ", ")))
	for _, c := range of.cases() {
		language := ours[c.language]
		if language == "" {
			r.warning(c.name, "not looked at: the server has no "+c.language, "")
			continue
		}
		began := time.Now()
		got, said, err := of.run(ctx, s, language, c)
		took := time.Since(began).Round(time.Millisecond)
		switch {
		case err != nil:
			r.problem(c.name, err.Error(), "")
		case got != c.wanted || !strings.Contains(said, c.says):
			r.problem(c.name, fmt.Sprintf("%s: %s, %.200q; want %s, %q", language, got, said, c.wanted, c.says), "")
		default:
			r.ok(c.name, fmt.Sprintf("%s: %s, as it is to be, in %s", language, got, took))
		}
	}
	return r.findings, nil
}

// facadeServer is asked as by one of its clients.
type facadeServer struct {
	Facade

	client *http.Client
}

// ask sends JSON, unless sent is nil, and decodes the answer, unless to is nil. It has to have one of these statuses.
func (s *facadeServer) ask(ctx context.Context, method, path string, sent, to any, statuses ...int) error {
	return s.askWith(ctx, nil, method, path, sent, to, statuses...)
}

// askWith is ask with more headers.
func (s *facadeServer) askWith(ctx context.Context, header http.Header, method, path string, sent, to any, statuses ...int) error {
	var body io.Reader = http.NoBody
	if sent != nil {
		text, err := json.Marshal(sent)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.URL, "/")+path, body)
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	if sent != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if s.Token != "" {
		req.Header.Set(map[string]string{"jobe": "X-API-KEY", "judge0": "X-Auth-Token", "piston": "Authorization", "e2b": "X-API-KEY"}[s.Name], s.Token)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, facadeAnswer))
	if err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	if !slices.Contains(statuses, res.StatusCode) {
		return fmt.Errorf("%s %s: %s %.200s", method, path, res.Status, bytes.TrimSpace(text))
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s %s: not the JSON of %s: %.200s", method, path, s.Name, bytes.TrimSpace(text))
	}
	return nil
}
