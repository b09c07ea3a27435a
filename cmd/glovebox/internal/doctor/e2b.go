package doctor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// e2b is the code interpreter of E2B: a sandbox is started, executes code, and is ended. Its own sandboxes have addresses of their own, which are
// not asked for here, so it is for façades only.
type e2b struct{}

// cases have no standard input, and no compiler.
func (e2b) cases() []caseOf {
	return []caseOf{
		{"hello", python, "print('hello, doctor')", 0, succeeds, "hello, doctor"},
		{"state", python, "kept = 'kept'\x00print(kept)", 0, succeeds, "kept"},
		{"error", python, "1 / 0", 0, fails, "ZeroDivisionError"},
		{"time-out", python, "while True: pass\x00print('goes on')", 1, succeeds, "goes on"},
	}
}

func (e2b) languages(ctx context.Context, s *facadeServer) (all []string, ours map[string]string, err error) {
	err = s.inSandbox(ctx, func(header http.Header) error {
		var listed []struct{ Language string }
		if err := s.askWith(ctx, header, http.MethodGet, "/contexts", nil, &listed, http.StatusOK); err != nil {
			return err
		}
		ours = map[string]string{}
		for _, l := range listed {
			all = append(all, l.Language)
			if l.Language == "python" {
				ours[python] = l.Language
			}
		}
		return nil
	})
	return all, ours, err
}

// run executes what is between the case's NULs one after the other. Its client leaves all but the last after the case's seconds, if it has any.
func (e2b) run(ctx context.Context, s *facadeServer, language string, c caseOf) (got outcome, said string, err error) {
	err = s.inSandbox(ctx, func(header http.Header) error {
		pieces := strings.Split(c.source, "\x00")
		for i, piece := range pieces {
			patience := facadeTimeout
			leaves := c.seconds > 0 && i < len(pieces)-1
			if leaves {
				patience = time.Duration(c.seconds) * time.Second
			}
			executing, cancel := context.WithTimeout(ctx, patience)
			got, said, err = s.execute(executing, header, language, piece)
			left := executing.Err() != nil
			cancel()
			if err != nil && (!leaves || !left) {
				return err
			}
		}
		return nil
	})
	return got, said, err
}

// inSandbox starts a sandbox, and ends it when do is done with it. Requests to it have the header.
func (s *facadeServer) inSandbox(ctx context.Context, do func(header http.Header) error) (err error) {
	var made struct {
		SandboxID          string
		TrafficAccessToken string
		EnvdAccessToken    string
	}
	if err := s.ask(ctx, http.MethodPost, "/sandboxes", map[string]any{"templateID": "code-interpreter-v1", "timeout": 120}, &made, http.StatusCreated); err != nil {
		return err
	}
	header := http.Header{"E2b-Sandbox-Id": {made.SandboxID}, "E2b-Traffic-Access-Token": {made.TrafficAccessToken}, "X-Access-Token": {made.EnvdAccessToken}}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), facadeTimeout)
		defer cancel()
		err = errors.Join(err, s.ask(ending, http.MethodDelete, "/sandboxes/"+made.SandboxID, nil, nil, http.StatusNoContent))
	}()
	return do(header)
}

// execute has a sandbox execute code, and reads what comes of it, line by line.
func (s *facadeServer) execute(ctx context.Context, header http.Header, language, code string) (got outcome, said string, err error) {
	body, err := json.Marshal(map[string]string{"code": code, "language": language})
	if err != nil {
		return "", "", fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(s.URL, "/")+"/execute", bytes.NewReader(body))
	if err != nil {
		return "", "", fmt.Errorf("ask the server: %w", err)
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return "", "", fmt.Errorf("ask the server: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("POST /execute: %s", res.Status)
	}
	got = anythingElse
	lines := bufio.NewScanner(http.MaxBytesReader(nil, res.Body, facadeAnswer))
	lines.Buffer(nil, facadeAnswer)
	for lines.Scan() {
		var line struct{ Type, Text, Name string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return "", "", fmt.Errorf("POST /execute: not the JSON of e2b: %.200s", lines.Bytes())
		}
		switch line.Type {
		case "stdout", "stderr", "result":
			said += line.Text
		case "error":
			got, said = fails, said+line.Name
		case "end_of_execution":
			if got == anythingElse {
				got = succeeds
			}
		}
	}
	if err := lines.Err(); err != nil {
		return "", "", fmt.Errorf("read the answer to POST /execute: %w", err)
	}
	return got, said, nil
}
