package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// submitTime bounds the start of a job, which a caller that leaves doesn't end: it could be there
	// already, and nobody would know of it.
	submitTime = 30 * time.Second
	// cancelTime is how long asking for the end of a job may take whose caller has left.
	cancelTime = 10 * time.Second
)

// runCodeArguments are those of run_code.
type runCodeArguments struct {
	Code      string         `json:"code"`
	Language  string         `json:"language"`
	SessionID string         `json:"session_id"`
	Stdin     string         `json:"stdin"`
	Files     []fileArgument `json:"files"`
	TimeoutMS int64          `json:"timeout_ms"`
}

type fileArgument struct {
	Name          string `json:"name"`
	Content       string `json:"content"`
	ContentBase64 string `json:"content_base64"`
}

// runCode is the tool that runs a program.
func runCode(languages []string) Tool {
	const kept = " A session keeps that of the call that started it."
	language := map[string]any{"type": "string", "description": "The programming language: python, node, bash, …" + kept}
	if len(languages) > 0 {
		language = map[string]any{"type": "string", "description": "The programming language." + kept, "enum": languages}
	}
	input, _ := json.Marshal(map[string]any{ // of what can be written as JSON
		"type":                 "object",
		"additionalProperties": false,
		"required":             []string{"code"},
		"properties": map[string]any{
			"code":       map[string]any{"type": "string", "description": "The whole program, or in a session the next piece of it. Print what you want to see."},
			"language":   language,
			"session_id": map[string]any{"type": "string", "description": "\"new\" starts a session of python, node, typescript, bash or multi (which executes Python here), whose variables and files stay for later calls; the session_id of an earlier answer goes on with it. Without it nothing stays."},
			"stdin":      map[string]any{"type": "string", "description": "What the program reads from standard input."},
			"timeout_ms": map[string]any{"type": "integer", "minimum": 1, "description": "How long it may run, in milliseconds. Default: 10000. That of the call that starts a session is the most for all its calls."},
			"files": map[string]any{
				"type": "array", "description": "Files placed in the program's working directory, in a session in the place of those of their names.",
				"items": map[string]any{
					"type": "object", "additionalProperties": false, "required": []string{"name"},
					"properties": map[string]any{
						"name":           map[string]any{"type": "string", "description": "A relative path, such as data/in.csv."},
						"content":        map[string]any{"type": "string", "description": "The file's text."},
						"content_base64": map[string]any{"type": "string", "description": "The file's bytes in base64, instead of content."},
					},
				},
			},
		},
	})
	return Tool{
		Name: RunCode, Title: "Run code",
		Description: "Runs a program in a sandbox of its own and answers what it printed, its exit code and the files it made. " +
			"Each call starts anew, unless it names a session: no variables, files or installed packages are left from an earlier call. There is no network, so nothing can be installed. " +
			"Python has numpy, pandas, scipy, sympy, matplotlib and seaborn; plt.show() returns the figure as an image. " +
			"Files that the program writes to its working directory are returned as links.",
		Scopes: []job.Scope{job.ScopeSubmit, job.ScopeRead},
		Input:  input,
		call: func(ctx context.Context, c Caller, arguments []byte) (Answer, error) {
			in, err := decode[runCodeArguments](arguments)
			if err != nil {
				return Answer{}, err
			}
			return run(ctx, c, in)
		},
	}
}

// run runs a program and answers what came of it.
func run(ctx context.Context, c Caller, in runCodeArguments) (Answer, error) {
	if strings.TrimSpace(in.Code) == "" {
		return Answer{}, argumentError("code: is empty; want the program's text")
	}
	if in.TimeoutMS < 0 {
		return Answer{}, argumentError("timeout_ms: is negative; want milliseconds, or nothing for the default")
	}
	if in.SessionID != "" {
		return runInSession(ctx, c, in)
	}
	if in.Language == "" {
		return Answer{}, argumentError("language: is missing; it is needed for code outside of a session that is there")
	}
	spec := job.Spec{
		Runtime: in.Language, Source: in.Code, Stdin: in.Stdin, Limits: job.Limits{WallMS: in.TimeoutMS},
		Files: in.files(), Metadata: map[string]string{"tool": RunCode}, Stream: c.Progress != nil, IdempotencyKey: c.key(),
	}
	submitting, done := context.WithTimeout(context.WithoutCancel(ctx), submitTime)
	j, err := c.Glovebox.Submit(submitting, spec)
	done()
	if err != nil {
		return Answer{}, err
	}
	ended, err := c.await(ctx, j)
	if ctx.Err() != nil { // nobody is left to read the answer
		cancel, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer done()
		_, _ = c.Glovebox.Cancel(cancel, j.ID) // it may have ended by now
		return Answer{}, ctx.Err()
	}
	if err != nil {
		c.report(err)
		return unfinished(j, err), nil
	}
	return c.answer(ctx, ended), nil
}

// await returns the job once it has ended, or as it is when the caller's time is up.
func (c Caller) await(ctx context.Context, j producer.Job) (producer.Job, error) {
	if j.Ended() || j.Status == job.Held { // whoever decides may take a day
		return j, nil
	}
	waiting, cancel := context.WithTimeout(ctx, c.MaxWait)
	defer cancel()
	if c.Progress != nil {
		watch, stop := context.WithCancel(waiting)
		told := make(chan struct{})
		go func() {
			defer close(told)
			c.tell(watch, j.ID)
		}()
		defer func() { stop(); <-told }()
	}
	ended, err := c.Glovebox.Wait(waiting, j.ID)
	if err != nil && errors.Is(waiting.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
		return c.Glovebox.Get(ctx, j.ID)
	}
	return ended, err
}

// files are what the program is given beside the code.
func (in runCodeArguments) files() (files []job.File) {
	for _, f := range in.Files {
		files = append(files, job.File{Name: f.Name, Content: f.Content, ContentBase64: f.ContentBase64})
	}
	return files
}
