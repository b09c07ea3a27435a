package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/internal/await"
)

const (
	// guardTimeout bounds a try to find out whether the bucket is private.
	guardTimeout = 10 * time.Second
	// guardAgain is how soon it is tried again where the bucket's server didn't say.
	guardAgain = 5 * time.Second
)

// guardBucket fails where the bucket is not there for us, or anyone can read or list it: an
// api must not serve with it. It reports whether that could be found out. While the bucket's
// server is away the api serves what needs none, /readyz says so, and [guardLater] goes on trying.
func guardBucket(ctx context.Context, objects *artifacts.Store, log *slog.Logger) (private bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	if err = objects.Ping(bounded); err == nil {
		err = objects.Guard(bounded)
	}
	switch {
	case errors.Is(err, await.ErrSettings):
		return false, err
	case errors.Is(err, artifacts.ErrPublic):
		return false, &failure{exitUsage, err, "block public access to the bucket: remove the policy or ACL that lets everybody in"}
	case err != nil:
		log.Warn("the bucket is away: the api is not ready until it is back, and is private", "error", err)
		return false, nil
	}
	switch versioned, err := objects.Versioned(bounded); {
	case err != nil:
		log.Warn("whether the bucket keeps old versions is not known: if it does, what is purged or expires stays in them", "error", err)
	case versioned:
		log.Warn("the bucket keeps old versions: each version is deleted of what is purged or expires, which takes s3:ListBucketVersions and s3:DeleteObjectVersion")
	}
	return true, nil
}

// guardLater is guardBucket until it is known, or ctx ends.
func guardLater(ctx context.Context, objects *artifacts.Store, log *slog.Logger) error {
	quiet := slog.New(slog.DiscardHandler) // that it is away was said
	for {
		select {
		case <-time.After(guardAgain):
		case <-ctx.Done():
			return nil
		}
		if private, err := guardBucket(ctx, objects, quiet); err != nil || private {
			log.Info("the bucket can be looked at again", "private", private)
			return err
		}
	}
}
