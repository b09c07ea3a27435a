package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/glovebox-run/glovebox/attest"
)

const sumsFile = "SHA256SUMS"

// writeSums writes what sha256sum --check reads.
func (r *release) writeSums() error {
	files, err := released(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, f := range files {
		fmt.Fprintf(&sums, "%s  %s\n", f.Digest.SHA256, f.Name)
	}
	return os.WriteFile(filepath.Join(r.out, sumsFile), []byte(sums.String()), 0o644)
}

// released are the files of a directory with their sums, in order of their names.
func released(dir string) ([]attest.Subject, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("nothing was made")
	}
	var files []attest.Subject
	for _, e := range entries {
		file, err := attest.SubjectOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// sign writes the signed statement about all files, the sums included.
func (r *release) sign(signer *attest.Signer) error {
	files, err := released(r.out)
	if err != nil {
		return err
	}
	runsc, err := versionIn(r.tree, runscVersion)
	if err != nil {
		return err
	}
	versitygw, err := versionIn(r.tree, versitygwVersion)
	if err != nil {
		return err
	}
	signed, err := signer.SignRelease(attest.Release{Subject: files, Predicate: attest.Provenance{
		BuildDefinition: attest.BuildDefinition{
			ExternalParameters: attest.ReleaseParameters{Repository: repository, Version: r.source.version},
			Dependencies: []attest.ResourceMaterial{
				{URI: "git+" + repository, Digest: map[string]string{"gitCommit": r.source.commit}},
				{URI: packageURL("gvisor.dev/gvisor", runsc)},
				{URI: packageURL("github.com/versity/versitygw", versitygw)},
				{URI: packageURL("toolchain", r.source.goVersion)},
			},
		},
		RunDetails: attest.RunDetails{Builder: attest.Builder{ID: repository + "/blob/main/docs/release.md"}},
	}})
	if err != nil {
		return err
	}
	b, err := json.Marshal(signed)
	if err != nil {
		return fmt.Errorf("write provenance: %w", err)
	}
	name := "glovebox_" + r.source.name() + ".intoto.jsonl"
	r.say("sign", fmt.Sprintf("%s, with key %s", name, signer.Key().ID))
	return os.WriteFile(filepath.Join(r.out, name), append(b, '\n'), 0o644)
}

// writeKeys writes the public key as "glovebox verify --keys" reads it.
func writeKeys(w io.Writer, signer *attest.Signer) error {
	b, err := json.Marshal(attest.KeyList{Keys: []attest.Key{signer.Key()}})
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}
