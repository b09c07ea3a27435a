package producer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
)

func ExampleNew() {
	url := startAPI() // yours: http://127.0.0.1:8437 with `glovebox dev`
	jobs, err := producer.New(url, "the token that `glovebox dev` wrote to .glovebox/env")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer jobs.Close()
	ctx := context.Background()

	j, err := jobs.Submit(ctx, job.Spec{
		Runtime: "python",
		Source:  "print('hello'); open('squares.csv', 'w').write('2,4\\n3,9\\n')",
		Limits:  job.Limits{WallMS: 5000, MemoryMB: 128},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if j, err = jobs.Wait(ctx, j.ID); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %s", j.Result.Status, j.Result.Stdout)
	for _, a := range j.Result.Artifacts {
		d, err := jobs.Open(ctx, j.ID, producer.ArtifactPath(a.Name))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer d.Close()
		b, err := io.ReadAll(d)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s (%d bytes):\n%s", d.Name, d.Size, b)
	}
	// Output:
	// succeeded: hello
	// squares.csv (8 bytes):
	// 2,4
	// 3,9
}

// What is wrong with a job is said field by field.
func ExampleJobs_invalid() {
	var jobs producer.Jobs
	jobs, err := producer.New(startAPI(), "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = jobs.Submit(context.Background(), job.Spec{Runtime: "cobol", Limits: job.Limits{WallMS: -1}})
	var invalid job.Invalid
	if errors.As(err, &invalid) {
		for _, f := range invalid {
			fmt.Printf("%s %s, allowed: %s\n", f.Field, f.Message, f.Allowed)
		}
	}
	// Output:
	// runtime is not a runtime of this Glovebox, allowed: python
	// source is empty, allowed: the program's text, or files[] with an entrypoint
	// limits.wall_ms is out of range, allowed: 0 (the default) to 300000
}

// A program decides by an error's code, whatever is said beside it.
func ExampleClient_Get_notFound() {
	jobs, err := producer.New(startAPI(), "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer jobs.Close()
	_, err = jobs.Get(context.Background(), "default-bbbbbbbbbbbbbbbbbbbbbbbbbb")
	fmt.Println(errors.Is(err, job.ErrNotFound), job.CodeOf(err))
	// Output:
	// true not_found
}

// A job that ends soon takes one request.
func ExampleClient_Run() {
	jobs, err := producer.New(startAPI(), "token", producer.WithHTTPClient(http.DefaultClient))
	if err != nil {
		fmt.Println(err)
		return
	}
	j, err := jobs.Run(context.Background(), job.Spec{Runtime: "python", Source: "print('hello')"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(j.Result.Stdout)
	// Output:
	// hello
}

// Code alone needs no spec.
func ExampleClient_Execute() {
	jobs, err := producer.New(startAPI(), "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer jobs.Close()
	e, err := jobs.Execute(context.Background(), producer.ExecuteRequest{Language: "python", Code: "print('hello')"})
	var over *job.WaitOverError
	switch {
	case errors.As(err, &over):
		fmt.Println("it goes on:", over.ID)
	case err != nil:
		fmt.Println(err)
	case e.Error != nil:
		fmt.Println(*e.Error, e.Stderr)
	default:
		fmt.Print(e.Stdout)
	}
	// Output:
	// hello
}

// A list comes page by page.
func ExampleLister() {
	var jobs producer.Lister
	jobs, err := producer.New(startAPI(), "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	o := producer.ListOptions{Status: []job.Status{job.Queued, job.Running}}
	for more := true; more; more = o.Cursor != "" {
		page, err := jobs.List(context.Background(), o)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, j := range page.Jobs {
			fmt.Println(j.ID, j.Status)
		}
		o.Cursor = page.Next
	}
	// Output:
	// default-aaaaaaaaaaaaaaaaaaaaaaaaaa queued
}

// Jobs are sent as they are made; the key makes it safe to send them again.
func ExampleBatches() {
	var jobs producer.Batches
	jobs, err := producer.New(startAPI(), "token")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	squares := func(yield func(job.Spec, error) bool) {
		for i := range 3 {
			if !yield(job.Spec{Runtime: "python", Source: fmt.Sprintf("print(%d ** 2)", i)}, nil) {
				return
			}
		}
	}
	o := producer.BatchOptions{BatchOptions: job.BatchOptions{IdempotencyKey: "squares of 2026-11-20"}}
	batch, err := jobs.SubmitBatch(ctx, o, squares)
	if err != nil {
		fmt.Println(err)
		return
	}
	if batch, err = jobs.WaitBatch(ctx, batch.ID); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(batch.Status, batch.Counts)
	for r, err := range jobs.BatchResults(ctx, batch.ID, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("jobs[%d]: %s", r.Index, r.Result.Stdout)
	}
	// Output:
	// completed map[succeeded:3]
	// jobs[0]: 0
	// jobs[1]: 1
	// jobs[2]: 4
}

// startAPI answers as Glovebox would for the jobs of the examples; [TestJobs] runs
// against the API itself.
func startAPI() (url string) {
	const path = "/v1/jobs/default-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	record := job.Summary{ID: "default-aaaaaaaaaaaaaaaaaaaaaaaaaa", Status: job.Queued}
	result := job.Result{ID: record.ID, Status: job.Succeeded, Stdout: "hello\n", Artifacts: []job.Artifact{{Name: "squares.csv", Size: 8}}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("POST /v1/code-sandbox/execute", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, producer.Execution{Stdout: result.Stdout, ExitCode: new(int)})
	})
	mux.HandleFunc("POST /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		var spec job.Spec
		_ = json.NewDecoder(r.Body).Decode(&spec)
		if err := spec.Check([]string{"python"}, nil, job.DefaultMaximums); err != nil {
			p := producer.NewProblem(http.StatusUnprocessableEntity, job.CodeInvalid, "fields are wrong")
			errors.As(err, &p.Errors)
			w.Header().Set("Content-Type", producer.ProblemMediaType)
			answer(w, p.Status, p)
			return
		}
		if r.Header.Get("Prefer") != "" {
			answer(w, http.StatusOK, result)
			return
		}
		answer(w, http.StatusAccepted, record)
	})
	mux.HandleFunc("GET /v1/jobs", func(w http.ResponseWriter, r *http.Request) {
		page := producer.JobPage{Jobs: []job.Summary{}, Next: "next"}
		if r.FormValue("cursor") == "next" {
			page = producer.JobPage{Jobs: []job.Summary{record}}
		}
		answer(w, http.StatusOK, page)
	})
	mux.HandleFunc("GET /v1/jobs/{id}", func(w http.ResponseWriter, _ *http.Request) {
		p := producer.NewProblem(http.StatusNotFound, job.CodeNotFound, "there is no such job, batch or file, or no longer")
		w.Header().Set("Content-Type", producer.ProblemMediaType)
		answer(w, p.Status, p)
	})
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, result) })
	mux.HandleFunc("GET "+path+"/artifacts/squares.csv", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "2,4\n3,9\n")
	})
	batch := job.Batch{ID: "default-b-aaaaaaaaaaaaaaaaaaaaaaaaaa", Status: job.BatchRunning, Counts: map[job.Status]int{}}
	mux.HandleFunc("POST /v1/batches", func(w http.ResponseWriter, r *http.Request) {
		lines, _ := io.ReadAll(r.Body)
		batch.Jobs = bytes.Count(lines, []byte("\n")) - 1 // the first is about the batch
		answer(w, http.StatusAccepted, batch)
	})
	mux.HandleFunc("GET /v1/batches/"+batch.ID, func(w http.ResponseWriter, _ *http.Request) {
		ended := batch
		ended.Status, ended.Counts = job.BatchCompleted, map[job.Status]int{job.Succeeded: batch.Jobs}
		answer(w, http.StatusOK, ended)
	})
	mux.HandleFunc("GET /v1/batches/"+batch.ID+"/results", func(w http.ResponseWriter, _ *http.Request) {
		for i := range batch.Jobs {
			r := result
			r.Stdout = fmt.Sprintln(i * i)
			_ = json.NewEncoder(w).Encode(job.BatchResult{Index: i, Result: &r})
		}
	})
	srv := httptest.NewServer(mux)
	exampleServers = append(exampleServers, srv)
	return srv.URL
}
