package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// jobe is Jobe's: a run is one request.
type jobe struct{}

const jobeAPI = "/index.php/restapi"

func (jobe) cases() []caseOf { return programCases }

func (jobe) languages(ctx context.Context, s *facadeServer) (all []string, ours map[string]string, err error) {
	var listed [][]string
	if err := s.ask(ctx, http.MethodGet, jobeAPI+"/languages", nil, &listed, http.StatusOK); err != nil {
		return nil, nil, err
	}
	ours = map[string]string{}
	for _, l := range listed {
		if len(l) == 0 {
			continue
		}
		all = append(all, l[0])
		if name := map[string]string{"python3": python, "c": inC}[l[0]]; name != "" {
			ours[name] = l[0]
		}
	}
	return all, ours, nil
}

func (jobe) run(ctx context.Context, s *facadeServer, language string, c caseOf) (outcome, string, error) {
	var got struct {
		Outcome         int
		CmpInfo, Stdout string
	}
	err := s.ask(ctx, http.MethodPost, jobeAPI+"/runs", map[string]any{"run_spec": map[string]any{
		"language_id": language, "sourcecode": c.source, "input": "doctor\n", "parameters": map[string]any{"cputime": c.seconds},
	}}, &got, http.StatusOK, http.StatusNonAuthoritativeInfo)
	if got.Outcome == 21 {
		err = errors.New("outcome 21: no place was free")
	}
	what, ok := map[int]outcome{11: doesntBuild, 13: runsTooLong, 15: succeeds}[got.Outcome]
	if !ok {
		what = anythingElse
	}
	return what, got.CmpInfo + got.Stdout, err
}

// judge0 is Judge0's: a submission that is looked at until it has ended.
type judge0 struct{}

// judge0Look is how often its clients look.
const judge0Look = 200 * time.Millisecond

func (judge0) cases() []caseOf { return programCases }

func (judge0) languages(ctx context.Context, s *facadeServer) (all []string, ours map[string]string, err error) {
	var listed []struct {
		ID   int
		Name string
	}
	if err := s.ask(ctx, http.MethodGet, "/languages", nil, &listed, http.StatusOK); err != nil {
		return nil, nil, err
	}
	ours = map[string]string{}
	for _, l := range listed {
		all = append(all, fmt.Sprintf("%d %s", l.ID, l.Name))
		for _, name := range []string{python, inC} {
			if strings.HasPrefix(l.Name, name+" (") {
				ours[name] = fmt.Sprint(l.ID) // the newest comes last
			}
		}
	}
	return all, ours, nil
}

func (judge0) run(ctx context.Context, s *facadeServer, language string, c caseOf) (outcome, string, error) {
	ctx, cancel := context.WithTimeout(ctx, facadeTimeout)
	defer cancel()
	var made struct{ Token string }
	err := s.ask(ctx, http.MethodPost, "/submissions?base64_encoded=false&wait=false", map[string]any{
		"language_id": language, "source_code": c.source, "stdin": "doctor\n", "cpu_time_limit": c.seconds,
	}, &made, http.StatusCreated)
	for err == nil {
		var got struct {
			Status        struct{ ID int }
			Stdout        string
			CompileOutput string `json:"compile_output"`
		}
		if err = s.ask(ctx, http.MethodGet, "/submissions/"+made.Token+"?base64_encoded=false", nil, &got, http.StatusOK); err != nil {
			break
		}
		if got.Status.ID > 2 { // neither queued nor processing
			what, ok := map[int]outcome{3: succeeds, 5: runsTooLong, 6: doesntBuild}[got.Status.ID]
			if !ok {
				what = anythingElse
			}
			return what, got.CompileOutput + got.Stdout, nil
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("wait for submission %s: %w", made.Token, ctx.Err())
		case <-time.After(judge0Look):
		}
	}
	return anythingElse, "", err
}

// piston is Piston's: an execution is one request.
type piston struct{}

const pistonAPI = "/api/v2"

func (piston) cases() []caseOf { return programCases }

func (piston) languages(ctx context.Context, s *facadeServer) (all []string, ours map[string]string, err error) {
	var listed []struct{ Language, Version string }
	if err := s.ask(ctx, http.MethodGet, pistonAPI+"/runtimes", nil, &listed, http.StatusOK); err != nil {
		return nil, nil, err
	}
	ours = map[string]string{}
	for _, l := range listed {
		all = append(all, l.Language+" "+l.Version)
		if name := map[string]string{"python": python, "c": inC}[l.Language]; name != "" {
			ours[name] = l.Language
		}
	}
	return all, ours, nil
}

func (piston) run(ctx context.Context, s *facadeServer, language string, c caseOf) (outcome, string, error) {
	type stage struct {
		Code   *int
		Signal string
		Output string
	}
	var got struct {
		Run     stage
		Compile *stage
	}
	sent := map[string]any{"language": language, "version": "*", "files": []any{map[string]any{"content": c.source}}, "stdin": "doctor\n"}
	if c.wanted == runsTooLong { // else what the server gives: the original allows no more
		sent["run_timeout"] = c.seconds * 1000
	}
	err := s.ask(ctx, http.MethodPost, pistonAPI+"/execute", sent, &got, http.StatusOK)
	switch code := got.Run.Code; {
	case got.Compile != nil && (got.Compile.Code == nil || *got.Compile.Code != 0):
		return doesntBuild, got.Compile.Output, err
	case code != nil && *code == 0:
		return succeeds, got.Run.Output, err
	case got.Run.Signal == "SIGKILL":
		return runsTooLong, got.Run.Output, err
	}
	return anythingElse, got.Run.Output, err
}
