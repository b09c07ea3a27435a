package artifacts_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestSweepDeletesVersions: what is swept from a versioned bucket is gone in every version,
// and what is kept stays as it is.
func TestSweepDeletesVersions(t *testing.T) {
	t.Parallel()
	s3 := gbtest.S3(t, "--versioning-dir", t.TempDir())
	store := bucketByHand(t, s3)
	client := sdk(s3)
	versioning := func(status types.BucketVersioningStatus) {
		t.Helper()
		if _, err := client.PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{
			Bucket: aws.String("glovebox"), VersioningConfiguration: &types.VersioningConfiguration{Status: status},
		}); err != nil {
			t.Fatal(err)
		}
	}
	versions := func() (list []string) {
		t.Helper()
		out, err := client.ListObjectVersions(t.Context(), &awss3.ListObjectVersionsInput{Bucket: aws.String("glovebox"), Prefix: aws.String("tenants/")})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range out.Versions {
			list = append(list, *v.Key)
		}
		for _, m := range out.DeleteMarkers {
			list = append(list, "marker of "+*m.Key)
		}
		return list
	}
	put := func(key string) {
		t.Helper()
		if _, err := store.PutBytes(t.Context(), key, "text/plain", []byte("secret")); err != nil {
			t.Fatal(err)
		}
	}
	if versioned, err := store.Versioned(t.Context()); err != nil || versioned {
		t.Errorf("a bucket without versions: got %v, %v", versioned, err)
	}
	versioning(types.BucketVersioningStatusEnabled)
	if versioned, err := store.Versioned(t.Context()); err != nil || !versioned {
		t.Errorf("a bucket with versions: got %v, %v", versioned, err)
	}
	j := keys(t, "j1")
	for range 3 {
		put(j.Stdout(1))
	}
	put(j.Result(2))
	if _, err := client.DeleteObject(t.Context(), &awss3.DeleteObjectInput{Bucket: aws.String("glovebox"), Key: aws.String(j.Stdout(1))}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sweep(t.Context(), j.Prefix(), func(key string) bool { return strings.HasPrefix(key, j.EpochPrefix(2)) }); err != nil {
		t.Fatal(err)
	}
	if got := versions(); len(got) != 1 || got[0] != j.Result(2) {
		t.Errorf("after the losers were swept there are %q, want the winner's result", got)
	}
	versioning(types.BucketVersioningStatusSuspended) // the old versions stay, says S3
	if _, err := store.Sweep(t.Context(), j.Prefix(), nil); err != nil {
		t.Fatal(err)
	}
	if got := versions(); len(got) != 0 {
		t.Errorf("after the purge there are %q", got)
	}
	if _, err := store.GetBytes(t.Context(), j.Result(2), 100); !errors.Is(err, artifacts.ErrNotFound) {
		t.Errorf("the result: got %v, want ErrNotFound", err)
	}
}
