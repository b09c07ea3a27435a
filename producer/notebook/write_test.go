package notebook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/notebook"
)

// source is a session that was made up.
type source struct {
	all []job.Executed
	err error // after them
}

func (s source) Session(_ context.Context, id string) (job.Session, error) {
	if id == "none" {
		return job.Session{}, job.ErrNoSession
	}
	return job.Session{ID: id, Runtime: "python"}, nil
}

func (s source) Transcript(context.Context, string) iter.Seq2[job.Executed, error] {
	return func(yield func(job.Executed, error) bool) {
		for _, e := range s.all {
			if !yield(e, nil) {
				return
			}
		}
		if s.err != nil {
			yield(job.Executed{}, s.err)
		}
	}
}

func (s source) Open(_ context.Context, _, path string) (*producer.Download, error) {
	if strings.Contains(path, "gone") {
		return nil, job.ErrNotFound
	}
	return &producer.Download{ReadCloser: io.NopCloser(strings.NewReader("png"))}, nil
}

func executed(n int64, code string, r job.Result, files ...job.File) job.Executed {
	r.ID = fmt.Sprintf("default-%d", n)
	r.Session = &job.ExecutionState{ID: "s", Sequence: n, State: job.StateKept}
	return job.Executed{Result: r, Input: &job.ExecutionInput{Code: code, Files: files}}
}

// TestWriteWithoutValues: where values were not printed, nothing of what was printed is one.
func TestWriteWithoutValues(t *testing.T) {
	t.Parallel()
	e := executed(1, "print(5)\n5", job.Result{Status: job.Succeeded, Stdout: "5\n", Results: []job.Shown{{Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": {Text: "5"}}}}})
	e.Input.Env = map[string]string{"GLOVEBOX_RESULTS": "only"}
	var b bytes.Buffer
	if err := notebook.Write(t.Context(), &b, source{all: []job.Executed{e}}, "s"); err != nil {
		t.Fatal(err)
	}
	if outputs := check(t, b.Bytes())[0]["outputs"].([]any); len(outputs) != 2 || outputs[0].(map[string]any)["text"] != "5\n" {
		t.Errorf("got %v, want what was printed and the value", outputs)
	}
}

// TestWrite: whatever a session has executed, its notebook is one by nbformat's rules, and has it.
func TestWrite(t *testing.T) {
	t.Parallel()
	one := 1
	chart := func(name string, size int64) job.Artifact {
		return job.Artifact{Name: name, Size: size, MediaType: "image/png", Kind: job.KindChart, SHA256: "x"}
	}
	all := []job.Executed{
		executed(1, "x = 1 # </script> ä \u2028", job.Result{Status: job.Succeeded, Stdout: "1\n\x1b[0m\ufffd"}),
		executed(2, "", job.Result{Status: job.Succeeded}, job.File{Name: "a`b.csv", Content: "x"}, job.File{Name: "c", Upload: "u", SHA256: "u", Size: 3}),
		executed(3, "1/0", job.Result{Status: job.Failed, ExitCode: &one, Stderr: "Traceback (most recent call last):\nold\nsaid Traceback (most recent call last):\nTraceback (most recent call last):\n  File\nZeroDivisionError: division by zero\n"}),
		executed(4, "raise E", job.Result{Status: job.Failed, ExitCode: &one, Stderr: "Traceback (most recent call last):\nE\n"}),
		executed(5, "throw 1", job.Result{Status: job.Failed, ExitCode: &one, Stderr: "Uncaught 1\n"}),
		executed(6, "while True: pass", job.Result{Status: job.TimedOut, Limit: "wall_ms"}),
		executed(7, "plot()", job.Result{Status: job.Succeeded, Artifacts: []job.Artifact{
			chart("a.png", 3), chart("large.png", 1<<20), chart("gone.png", 3), {Name: "b.csv", Kind: job.KindFile, MediaType: "text/csv", Size: 1},
		}}),
		executed(10, "df", job.Result{
			Status: job.Failed, ExitCode: &one, Stdout: "printed\ntable\n", Stderr: "warned\nTraceback (most recent call last):\nE: v\n",
			Artifacts: []job.Artifact{chart("chart-1.png", 3), chart("large.png", 1<<20), {Name: "result-1.html", MediaType: "text/html", Kind: job.KindFile, Size: 3}},
			Results: []job.Shown{
				{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"image/png": {Artifact: "chart-1.png"}, "application/vnd.glovebox.chart+json": {Text: `{"type":"bar"}`}}},
				{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"image/png": {Artifact: "large.png"}}},
				{Kind: job.ShownDisplay, Data: map[string]job.Rendering{"application/json": {Text: `no JSON`}}},
				{Kind: job.ShownValue, Data: map[string]job.Rendering{"text/plain": {Text: "table"}, "text/html": {Artifact: "result-1.html"}, "application/json": {Text: `[1]`}}},
			},
			Exception: &job.Exception{Name: "E", Value: "v", Traceback: "Traceback (most recent call last):\nE: v\n"},
		}),
		{Result: job.Result{ID: "default-8", Status: job.Failed, Error: &job.Error{Code: "input_gone", Message: "it is gone"}}, Input: &job.ExecutionInput{Code: "1"}},
		{Result: job.Result{ID: "default-9", Status: job.Canceled}}, // never begun
	}
	var b bytes.Buffer
	if err := notebook.Write(t.Context(), &b, source{all: all}, "s"); err != nil {
		t.Fatal(err)
	}
	cells := check(t, b.Bytes())
	var kinds []string
	for _, c := range cells {
		kind := c["id"].(string)
		outputs, _ := c["outputs"].([]any)
		for _, o := range outputs {
			kind += " " + o.(map[string]any)["output_type"].(string)
		}
		kinds = append(kinds, kind)
	}
	want := []string{"x1 stream", "f2", "x3 stream error", "x4 error", "x5 stream error", "x6 error", "x7 display_data", "x10 stream stream display_data execute_result error", "xdefault-8 error"}
	if !slices.Equal(kinds, want) {
		t.Errorf("got %q, want %q", kinds, want)
	}
	if got := cells[1]["source"]; got != "Files: `` a`b.csv ``, `c`" || strings.Contains(b.String(), `"content"`) {
		t.Errorf("got %q", got)
	}
	failure := cells[2]["outputs"].([]any)[1].(map[string]any)
	if failure["ename"] != "ZeroDivisionError" || failure["evalue"] != "division by zero" || len(failure["traceback"].([]any)) != 3 {
		t.Errorf("got %v", failure)
	}
	shown := cells[7]["outputs"].([]any)
	if got := []any{shown[0].(map[string]any)["text"], shown[1].(map[string]any)["text"]}; !slices.Equal(got, []any{"printed\n", "warned\n"}) {
		t.Errorf("got %q, want what is no value and no traceback", got)
	}
	data := shown[2].(map[string]any)["data"].(map[string]any)
	if data["image/png"] != "cG5n" || !reflect.DeepEqual(data["application/vnd.glovebox.chart+json"], map[string]any{"type": "bar"}) {
		t.Errorf("got %v", data)
	}
	result := shown[3].(map[string]any)
	data = result["data"].(map[string]any)
	if result["execution_count"] != 10.0 || data["text/plain"] != "table" || data["text/html"] != "png" || !reflect.DeepEqual(data["application/json"], []any{1.0}) {
		t.Errorf("got %v", result)
	}
	var empty bytes.Buffer
	if err := notebook.Write(t.Context(), &empty, source{}, "s"); err != nil {
		t.Fatal(err)
	}
	if cells := check(t, empty.Bytes()); len(cells) != 0 {
		t.Errorf("got %v, want no cells", cells)
	}
	var nothing bytes.Buffer
	if err := notebook.Write(t.Context(), &nothing, source{}, "none"); !errors.Is(err, job.ErrNoSession) || nothing.Len() > 0 {
		t.Errorf("got %v and %s, want ErrNoSession and nothing", err, nothing.String())
	}
	if err := notebook.Write(t.Context(), io.Discard, source{all, io.ErrUnexpectedEOF}, "s"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want the source's", err)
	}
}

var cellID = regexp.MustCompile(`^[a-zA-Z0-9-_]+$`)

// check is nbformat's schema of version 4.5, as far as notebooks of code and Markdown go: which fields there have to be, of which types, and that there are
// no others where it allows none.
func check(t *testing.T, b []byte) []map[string]any {
	t.Helper()
	var book map[string]any
	if err := json.Unmarshal(b, &book); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	has(t, "notebook", book, map[string]string{"metadata": "object", "nbformat_minor": "number", "nbformat": "number", "cells": "array"})
	if book["nbformat"] != 4.0 || book["nbformat_minor"] != 5.0 {
		t.Errorf("got nbformat %v.%v", book["nbformat"], book["nbformat_minor"])
	}
	metadata := book["metadata"].(map[string]any)
	kernel, _ := metadata["kernelspec"].(map[string]any)
	if kernel["name"] == "" || kernel["display_name"] == "" || metadata["language_info"].(map[string]any)["name"] == "" {
		t.Errorf("got %v, want a kernel and a language", metadata)
	}
	var cells []map[string]any
	seen := map[any]bool{}
	for _, c := range book["cells"].([]any) {
		cell := c.(map[string]any)
		cells = append(cells, cell)
		id, _ := cell["id"].(string)
		if !cellID.MatchString(id) || len(id) > 64 || seen[id] {
			t.Errorf("got cell id %q", id)
		}
		seen[id] = true
		fields := map[string]string{"id": "string", "cell_type": "string", "metadata": "object", "source": "string"}
		if cell["cell_type"] == "code" {
			fields["outputs"], fields["execution_count"] = "array", "number or null"
		} else if cell["cell_type"] != "markdown" {
			t.Errorf("got a cell of type %v", cell["cell_type"])
		}
		has(t, "cell "+id, cell, fields)
		outputs, _ := cell["outputs"].([]any)
		for _, o := range outputs {
			checkOutput(t, o.(map[string]any))
		}
	}
	return cells
}

func checkOutput(t *testing.T, out map[string]any) {
	t.Helper()
	switch out["output_type"] {
	case "stream":
		has(t, "stream", out, map[string]string{"output_type": "string", "name": "string", "text": "string"})
	case "error":
		has(t, "error", out, map[string]string{"output_type": "string", "ename": "string", "evalue": "string", "traceback": "array"})
		for _, line := range out["traceback"].([]any) {
			if _, ok := line.(string); !ok {
				t.Errorf("got a line %v", line)
			}
		}
	case "display_data", "execute_result":
		fields := map[string]string{"output_type": "string", "data": "object", "metadata": "object"}
		if out["output_type"] == "execute_result" {
			fields["execution_count"] = "number or null"
		}
		has(t, "display", out, fields)
		for name, v := range out["data"].(map[string]any) {
			if _, ok := v.(string); !ok && !strings.HasSuffix(name, "json") {
				t.Errorf("got data %v", v)
			}
		}
	default:
		t.Errorf("got an output of type %v", out["output_type"])
	}
}

// has checks that an object has these fields, of these types, and no others.
func has(t *testing.T, what string, object map[string]any, fields map[string]string) {
	t.Helper()
	for name, v := range object {
		kind := map[string]string{"string": "string", "float64": "number", "bool": "boolean", "<nil>": "null", "[]interface {}": "array", "map[string]interface {}": "object"}[fmt.Sprintf("%T", v)]
		if want, ok := fields[name]; !ok || !strings.Contains(want, kind) {
			t.Errorf("%s: %s is of type %s, want %q", what, name, kind, want)
		}
	}
	for name := range fields {
		if _, ok := object[name]; !ok {
			t.Errorf("%s: %s is missing", what, name)
		}
	}
}
