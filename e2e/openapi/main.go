// This command runs a job with a client that oapi-codegen made of the API's OpenAPI
// document, as somebody would who has that document and nothing else of Glovebox. It
// prints the job's result. It is a module of its own, so that the generator and what it
// needs are no dependencies of Glovebox.
//
// Environment: GLOVEBOX_URL and GLOVEBOX_TOKEN.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

//go:generate go tool oapi-codegen -config config.yaml ../../producer/api/testdata/openapi.json

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client, err := NewClientWithResponses(os.Getenv("GLOVEBOX_URL"), WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("GLOVEBOX_TOKEN"))
		return nil
	}))
	if err != nil {
		return err
	}
	wait, runtime, source := "wait=30", "python", "print('made by a generated client')\nopen('made.txt', 'w').write('too')\n"
	submitted, err := client.SubmitJobWithResponse(ctx, &SubmitJobParams{Prefer: &wait}, SubmitJobJSONRequestBody{Runtime: &runtime, Source: &source})
	if err != nil {
		return err
	}
	result := submitted.JSON200
	for result == nil && submitted.JSON202 != nil { // it was accepted, and has not ended yet
		got, err := client.GetJobWithResponse(ctx, submitted.JSON202.Id, &GetJobParams{Prefer: &wait})
		if err != nil {
			return err
		}
		if got.StatusCode() != http.StatusOK {
			continue
		}
		r, err := got.JSON200.AsResult()
		if err != nil {
			return err
		}
		result = &r
	}
	if result == nil {
		return fmt.Errorf("submit: %s: %s", submitted.Status(), submitted.Body)
	}
	listed, err := client.ListJobsWithResponse(ctx, &ListJobsParams{})
	if err != nil {
		return err
	}
	if listed.JSON200 == nil || len(listed.JSON200.Jobs) == 0 || listed.JSON200.Jobs[0].Id != result.Id {
		return errors.New("the job is not the newest in the list: " + string(listed.Body))
	}
	fmt.Printf("%s %s", result.Status, result.Stdout)
	for _, a := range result.Artifacts {
		fmt.Printf("%s %d\n", a.Name, a.Size)
	}
	return nil
}
