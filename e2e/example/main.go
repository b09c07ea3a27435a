// This command is an example of both Go clients: it runs a job and prints what came of
// it, over the API where GLOVEBOX_URL and GLOVEBOX_TOKEN are set, and otherwise over Redis
// and the bucket directly. Both are producer.Jobs, and producer.Files. The end-to-end tests run it both ways.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/job"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/direct"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var jobs interface {
		producer.Jobs
		producer.Files
	}
	if url := os.Getenv("GLOVEBOX_URL"); url != "" {
		overHTTP, err := producer.New(url, os.Getenv("GLOVEBOX_TOKEN"))
		if err != nil {
			return err
		}
		defer overHTTP.Close()
		jobs = overHTTP
	} else {
		client, err := direct.Open(ctx, direct.Config{RedisURL: os.Getenv("GLOVEBOX_REDIS_URL"), S3: artifacts.Config{
			Endpoint: os.Getenv("GLOVEBOX_S3_ENDPOINT"), Region: os.Getenv("GLOVEBOX_S3_REGION"), Bucket: os.Getenv("GLOVEBOX_S3_BUCKET"),
			AccessKey: os.Getenv("GLOVEBOX_S3_ACCESS_KEY"), SecretKey: os.Getenv("GLOVEBOX_S3_SECRET_KEY"), PathStyle: true,
		}})
		if err != nil {
			return err
		}
		defer client.Close()
		jobs = client
	}
	j, err := jobs.Submit(ctx, job.Spec{Runtime: "python", Source: "print('hello'); open('squares.csv', 'w').write('2,4\\n3,9\\n')"})
	if err != nil {
		return err
	}
	if j, err = jobs.Wait(ctx, j.ID); err != nil {
		return err
	}
	fmt.Printf("%s: %s", j.Result.Status, j.Result.Stdout)
	for _, a := range j.Result.Artifacts {
		file, err := jobs.Open(ctx, j.ID, producer.ArtifactPath(a.Name))
		if err != nil {
			return err
		}
		fmt.Printf("%s (%d bytes):\n", file.Name, file.Size)
		if _, err := io.Copy(os.Stdout, file); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}
