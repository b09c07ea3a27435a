package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/glovebox-run/glovebox/internal/config"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestAPIRefusesAPublicBucket: of a bucket that somebody else made, too, and if its server
// comes back only later.
func TestAPIRefusesAPublicBucket(t *testing.T) {
	t.Parallel()
	server, redis := gbtest.S3(t), gbtest.Redis(t)
	client := s3.New(s3.Options{
		Region: server.Region, BaseEndpoint: &server.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(server.AccessKey, server.SecretKey, ""),
	})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("glovebox")}); err != nil {
		t.Fatal(err)
	}
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::glovebox/*"}]}`
	if _, err := client.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: aws.String("glovebox"), Policy: &policy}); err != nil {
		t.Fatal(err)
	}
	serve := func(said *gbtest.Buffer) int {
		ctx, cancel := context.WithTimeout(t.Context(), gbtest.Patience)
		defer cancel()
		a := &app{stdout: &bytes.Buffer{}, stderr: said, getenv: config.File{
			"GLOVEBOX_REDIS_URL": redis.API(), "GLOVEBOX_S3_ENDPOINT": server.Endpoint, "GLOVEBOX_S3_REGION": server.Region, "GLOVEBOX_S3_BUCKET": "glovebox",
			"GLOVEBOX_S3_ACCESS_KEY": server.AccessKey, "GLOVEBOX_S3_SECRET_KEY": server.SecretKey,
			"GLOVEBOX_API_ADDR": "127.0.0.1:0", "GLOVEBOX_PUBLIC_URL": "http://127.0.0.1:1", "GLOVEBOX_TOKEN": strings.Repeat("t", 20),
			"GLOVEBOX_WEBHOOK_KEY": base64.StdEncoding.EncodeToString(make([]byte, 32)), "GLOVEBOX_CAPABILITY_KEY": base64.StdEncoding.EncodeToString(make([]byte, 32)),
		}.Get}
		return a.run(ctx, []string{"api"})
	}
	var said gbtest.Buffer
	if code := serve(&said); code != exitUsage || !strings.Contains(said.String(), "the bucket is public") || strings.Contains(said.String(), "api serves") {
		t.Errorf("got exit code %d: %s", code, said.String())
	}
	server.Kill()
	var later gbtest.Buffer
	ended := make(chan int, 1)
	go func() { ended <- serve(&later) }()
	for deadline := time.Now().Add(gbtest.Patience); !strings.Contains(later.String(), "api serves"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not serve while the bucket is away: %s", later.String())
		}
	}
	server.Restart()
	if code := <-ended; code != exitUsage || !strings.Contains(later.String(), "the bucket is public") {
		t.Errorf("once the bucket was back: got exit code %d: %s", code, later.String())
	}
}
