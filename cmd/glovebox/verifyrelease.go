package main

import (
	"errors"
	"fmt"

	"github.com/glovebox-run/glovebox/attest"
)

// verifyRelease checks files of a release of Glovebox against its provenance. It asks nobody: the
// keys of releases are no API's.
func (a *app) verifyRelease(files []string, o verifyOptions) error {
	if o.keys == "" || o.id != "" {
		return usagef("--release goes with --keys FILE, the keys that releases are signed with, and without --id")
	}
	b, err := a.readFile(o.release, attest.MaxProvenance)
	if err != nil {
		return err
	}
	signed, err := attest.ParseProvenance(b)
	if err != nil {
		return &failure{exitUsage, fmt.Errorf("%s: %w", o.release, err), ""}
	}
	keys, err := a.keysFile(o.keys)
	if err != nil {
		return err
	}
	release, key, err := attest.VerifyRelease(signed, keys)
	if err != nil {
		fmt.Fprintf(a.stdout, "REJECTED  %s\n", plain(o.release))
		return &failure{code: exitFailed, err: err}
	}
	var rejected error
	for _, file := range files {
		is, err := attest.SubjectOf(file)
		if err != nil {
			return &failure{code: exitUsage, err: err}
		}
		if err := release.Check(is.Name, is.Digest.SHA256); err != nil {
			fmt.Fprintf(a.stdout, "REJECTED  %s\n", plain(file))
			rejected = errors.Join(rejected, err)
			continue
		}
		if !o.json {
			fmt.Fprintf(a.stdout, "verified  %s\n", plain(file))
		}
	}
	if rejected != nil {
		return &failure{code: exitFailed, err: rejected}
	}
	if o.json {
		return a.printJSON(release)
	}
	parameters := release.Predicate.BuildDefinition.ExternalParameters
	fmt.Fprintf(a.stdout, "  key %s, %s of %s\n", key.ID, plain(parameters.Version), plain(parameters.Repository))
	return nil
}
