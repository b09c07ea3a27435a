package notebook

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

// cell is a code cell, or one of Markdown: then it has neither outputs nor a count.
type cell struct {
	ID       string
	Markdown bool
	Metadata made
	Count    *int64
	Source   string
	Outputs  []any
}

// MarshalJSON writes the cell as nbformat has it: a Markdown cell must not have what only code cells have, and these have to.
func (c cell) MarshalJSON() ([]byte, error) {
	type common struct {
		ID       string `json:"id"`
		Type     string `json:"cell_type"`
		Metadata struct {
			Glovebox made `json:"glovebox"`
		} `json:"metadata"`
		Source string `json:"source"`
	}
	all := common{ID: c.ID, Type: "markdown", Source: c.Source}
	all.Metadata.Glovebox = c.Metadata
	if c.Markdown {
		return job.Marshal(all)
	}
	all.Type = "code"
	return job.Marshal(struct {
		common

		Count   *int64 `json:"execution_count"`
		Outputs []any  `json:"outputs"`
	}{all, c.Count, c.Outputs})
}

// made is what Glovebox says of a cell.
type made struct {
	Job       string         `json:"job"`
	Status    job.Status     `json:"status,omitempty"`
	State     string         `json:"state,omitempty"`
	Context   string         `json:"context,omitempty"`
	Language  string         `json:"language,omitempty"`
	Artifacts []job.Artifact `json:"artifacts,omitempty"`
	Files     []job.File     `json:"files,omitempty"`
}

type stream struct {
	Type string `json:"output_type"` // stream
	Name string `json:"name"`
	Text string `json:"text"`
}

type failure struct {
	Type      string   `json:"output_type"` // error
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

type display struct {
	Type     string         `json:"output_type"` // display_data
	Data     map[string]any `json:"data"`
	Metadata struct{}       `json:"metadata"`
}

// value is a display that is the value of a cell.
type value struct {
	display

	Count *int64 `json:"execution_count"`
}

// cellsOf are those of an execution: what it was given, if it was given files, and its code. What was never begun has none.
func cellsOf(ctx context.Context, from producer.Files, e job.Executed) ([]cell, error) {
	if e.Input == nil {
		return nil, nil
	}
	var cells []cell
	number := e.ID
	code := cell{Source: e.Input.Code, Metadata: made{Job: e.ID, Status: e.Status, Context: e.Input.Context, Language: e.Input.Language}, Outputs: []any{}}
	if at := e.Session; at != nil {
		code.Count, code.Metadata.State = &at.Sequence, at.State
		number = strconv.FormatInt(at.Sequence, 10)
	}
	code.ID = "x" + number
	if files := e.Input.Files; len(files) > 0 {
		given := cell{ID: "f" + number, Markdown: true, Metadata: made{Job: e.ID}}
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = quoted(f.Name)
			f.Content, f.ContentBase64 = "", ""
			given.Metadata.Files = append(given.Metadata.Files, f)
		}
		given.Source = "Files: " + strings.Join(names, ", ")
		cells = append(cells, given)
		if e.Input.Code == "" {
			return cells, nil
		}
	}
	code.Metadata.Artifacts = e.Artifacts
	if e.Input.Language == job.FilesLanguage { // nothing that a kernel could run
		return append(cells, cell{ID: code.ID, Markdown: true, Metadata: code.Metadata, Source: "Files: " + quoted(e.Input.Code)}), nil
	}
	streams, problem := printed(e.Result, e.Input.Env["GLOVEBOX_RESULTS"] != "only")
	code.Outputs = append(code.Outputs, streams...)
	shown, err := shownOf(ctx, from, e.Result, code.Count)
	code.Outputs = append(code.Outputs, shown...)
	if problem != nil {
		code.Outputs = append(code.Outputs, *problem)
	}
	return append(cells, code), err
}

// quoted is a name as code of Markdown.
func quoted(name string) string {
	fence := "`"
	for strings.Contains(name, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + name + " " + fence
	}
	return fence + name + fence
}

// traceback is what Python prints before one.
const traceback = "Traceback (most recent call last):\n"

// printed is what an execution printed, and how it failed; nil if it has not. values says that the interpreter printed values.
func printed(r job.Result, values bool) (streams []any, problem *failure) {
	failed := r.Status != job.Succeeded
	said := failure{Type: "error", Name: string(r.Status), Value: because(r), Traceback: []string{}}
	stdout, stderr := r.Stdout, r.Stderr
	for _, x := range r.Results {
		if x.Kind == job.ShownValue && values { // what is printed of it is there as a value
			stdout = strings.TrimSuffix(stdout, x.Data[plain].Text+"\n")
		}
	}
	if e := r.Exception; e != nil && failed {
		said.Traceback = strings.Split(strings.TrimRight(e.Traceback, "\n"), "\n")
		stderr = strings.TrimSuffix(stderr, e.Traceback)
		if r.Status == job.Failed {
			said.Name, said.Value = e.Name, e.Value
		}
	} else if i := strings.LastIndex(stderr, traceback); failed && r.Status == job.Failed && i >= 0 && (i == 0 || stderr[i-1] == '\n') {
		lines := strings.Split(strings.TrimRight(stderr[i:], "\n"), "\n")
		said.Name, said.Value, _ = strings.Cut(lines[len(lines)-1], ": ")
		said.Traceback, stderr = lines, stderr[:i]
	}
	for _, s := range []stream{{"stream", "stdout", stdout}, {"stream", "stderr", stderr}} {
		if s.Text != "" {
			streams = append(streams, s)
		}
	}
	if failed {
		problem = &said
	}
	return streams, problem
}

// because says in words how an execution failed.
func because(r job.Result) string {
	switch {
	case r.Error != nil:
		return r.Error.Message
	case r.Limit != "":
		return "limit " + r.Limit
	case r.ExitCode != nil:
		return fmt.Sprintf("exit code %d", *r.ExitCode)
	}
	return ""
}
