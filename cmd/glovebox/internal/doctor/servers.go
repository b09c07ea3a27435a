package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/producer"
)

const serverTimeout = 10 * time.Second

func (r *report) s3(ctx context.Context) {
	if r.S3.Bucket == "" {
		return // versitygw is among the tools
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	store, err := artifacts.Open(ctx, r.S3)
	if err != nil {
		r.problem("s3", err.Error(), "correct the GLOVEBOX_S3_… variables")
		return
	}
	defer store.Close()
	if err = store.Ping(ctx); err == nil { // asked once, so it says why; Check goes on trying
		err = store.Check(ctx)
	}
	switch {
	case errors.Is(err, artifacts.ErrNotTried):
		r.warning("s3", err.Error(), "start an api, which refuses a public bucket")
	case errors.Is(err, artifacts.ErrPublic):
		r.problem("s3", err.Error(), "block public access to the bucket")
	case err != nil:
		r.problem("s3", err.Error(), "create the bucket, or correct the GLOVEBOX_S3_… variables; SSL_CERT_FILE names the certificates of an authority of your own, and a clock that is wrong by minutes is refused, too")
	default:
		r.ok("s3", "bucket "+r.S3.Bucket+" is reachable, and not public")
	}
	if versioned, err := store.Versioned(ctx); err == nil && versioned {
		r.warning("s3 versions", "bucket "+r.S3.Bucket+" keeps old versions: the api deletes each version of what is purged or expires, if its key may (s3:ListBucketVersions, s3:DeleteObjectVersion)",
			"a bucket without versions")
	}
}

func (r *report) api(ctx context.Context) {
	if r.URL == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	client, err := producer.New(r.URL, r.Token)
	if err != nil {
		r.warning("api", err.Error(), "")
		return
	}
	defer client.Close()
	list, err := client.Runtimes(ctx)
	switch {
	case err != nil:
		r.warning("api", err.Error(), "glovebox dev, or correct GLOVEBOX_URL and GLOVEBOX_TOKEN")
	case len(list) == 0:
		r.warning("api", r.URL+" answers, but no worker has published a runtime", "start a worker")
	default:
		names := make([]string, len(list))
		for i, l := range list {
			names[i] = l.Name
		}
		r.ok("api", r.URL+" offers "+strings.Join(slices.Compact(names), ", "))
		r.offered(list)
		r.attestation(ctx, client)
	}
}

// attestation looks whether the workers that have been there sign results.
func (r *report) attestation(ctx context.Context, client *producer.Client) {
	keys, err := client.Keys(ctx)
	switch {
	case err != nil:
		r.warning("attestation", err.Error(), "")
	case len(keys) == 0:
		r.warning("attestation", "no worker signs results, so that nobody can verify them later", "GLOVEBOX_SIGNING_KEY=$(openssl rand -base64 32) for workers")
	default:
		r.ok("attestation", fmt.Sprintf("results are signed; keys listed: %d", len(keys)))
	}
}
