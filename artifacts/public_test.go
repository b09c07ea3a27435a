package artifacts_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// sdk is a client for what a Store can't do: what an operator does to a bucket.
func sdk(s3 *gbtest.S3Server) *awss3.Client {
	return awss3.New(awss3.Options{
		Region: s3.Region, BaseEndpoint: &s3.Endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s3.AccessKey, s3.SecretKey, ""),
	})
}

// bucketByHand makes a bucket as an operator does, and returns a Store over it that has
// written nothing yet.
func bucketByHand(t *testing.T, s3 *gbtest.S3Server) *artifacts.Store {
	t.Helper()
	if _, err := sdk(s3).CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: aws.String("glovebox")}); err != nil {
		t.Fatal(err)
	}
	store, err := artifacts.Open(t.Context(), artifacts.Config{
		Endpoint: s3.Endpoint, Region: s3.Region, Bucket: "glovebox", AccessKey: s3.AccessKey, SecretKey: s3.SecretKey, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// TestPublicBucket: the bucket is not ours to make, and whatever anybody may do with it is found.
func TestPublicBucket(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ action, resource string }{
		"read":                   {"s3:GetObject", "arn:aws:s3:::glovebox/*"},
		"read what tenants have": {"s3:GetObject", "arn:aws:s3:::glovebox/tenants/*"},
		"read all but that":      {"s3:GetObject", "arn:aws:s3:::glovebox/glovebox-*"},
		"list":                   {"s3:ListBucket", "arn:aws:s3:::glovebox"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s3 := gbtest.S3(t)
			store := bucketByHand(t, s3)
			if err := store.Check(t.Context()); !errors.Is(err, artifacts.ErrNotTried) {
				t.Errorf("check of an empty bucket: got %v, want ErrNotTried", err)
			}
			if err := store.Guard(t.Context()); err != nil {
				t.Errorf("a private bucket: got %v", err)
			}
			if err := store.Check(t.Context()); err != nil {
				t.Errorf("check of a private bucket: got %v", err)
			}
			policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"` + c.action + `","Resource":"` + c.resource + `"}]}`
			if _, err := sdk(s3).PutBucketPolicy(t.Context(), &awss3.PutBucketPolicyInput{Bucket: aws.String("glovebox"), Policy: &policy}); err != nil {
				t.Fatal(err)
			}
			if err := store.Guard(t.Context()); !errors.Is(err, artifacts.ErrPublic) {
				t.Errorf("a public bucket: got %v, want ErrPublic", err)
			}
			if err := store.Check(t.Context()); !errors.Is(err, artifacts.ErrPublic) {
				t.Errorf("check of a public bucket: got %v, want ErrPublic", err)
			}
		})
	}
}
