package notebook

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

const (
	// maxChart is how large a chart may be that is in the notebook, bytes, and maxCharts all charts of a cell.
	maxChart  = 256 << 10
	maxCharts = 1 << 20
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
	Type     string            `json:"output_type"` // display_data
	Data     map[string]string `json:"data"`
	Metadata struct{}          `json:"metadata"`
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
	code.Outputs = append(code.Outputs, printed(e.Result)...)
	charts, err := chartsOf(ctx, from, e.Result)
	code.Outputs = append(code.Outputs, charts...)
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

// printed is what an execution printed, and how it failed.
func printed(r job.Result) (outputs []any) {
	failed := r.Status != job.Succeeded
	problem := failure{Type: "error", Name: string(r.Status), Value: because(r), Traceback: []string{}}
	stderr := r.Stderr
	if i := strings.LastIndex(stderr, traceback); failed && r.Status == job.Failed && i >= 0 && (i == 0 || stderr[i-1] == '\n') {
		lines := strings.Split(strings.TrimRight(stderr[i:], "\n"), "\n")
		problem.Name, problem.Value, _ = strings.Cut(lines[len(lines)-1], ": ")
		problem.Traceback, stderr = lines, stderr[:i]
	}
	for _, s := range []stream{{"stream", "stdout", r.Stdout}, {"stream", "stderr", stderr}} {
		if s.Text != "" {
			outputs = append(outputs, s)
		}
	}
	if failed {
		outputs = append(outputs, problem)
	}
	return outputs
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

// chartsOf are the charts that an execution drew and that are small. One that is gone is left out.
func chartsOf(ctx context.Context, from producer.Files, r job.Result) (outputs []any, err error) {
	left := int64(maxCharts)
	for _, a := range r.Artifacts {
		if a.Kind != job.KindChart || a.MediaType != "image/png" || a.Size > min(maxChart, left) {
			continue
		}
		left -= a.Size
		png, err := chart(ctx, from, r.ID, a)
		if errors.Is(err, job.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read chart %q of execution %s: %w", a.Name, r.ID, err)
		}
		outputs = append(outputs, display{Type: "display_data", Data: map[string]string{
			"image/png": base64.StdEncoding.EncodeToString(png), "text/plain": a.Name,
		}})
	}
	return outputs, nil
}

func chart(ctx context.Context, from producer.Files, id string, a job.Artifact) ([]byte, error) {
	d, err := from.Open(ctx, id, producer.ArtifactPath(a.Name))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(io.LimitReader(d, maxChart))
}
