package attest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/glovebox-run/glovebox/job"
)

// What the statement about a release calls itself: SLSA's provenance, of the build that
// docs/release.md describes.
const (
	ProvenanceType   = "https://slsa.dev/provenance/v1"
	ReleaseBuildType = "https://github.com/glovebox-run/glovebox/release/v1"
)

// MaxProvenance bounds what [ParseProvenance] reads.
const MaxProvenance = 1 << 20

// Release says which files a release of Glovebox has, and what they were built from: an in-toto
// statement whose predicate is SLSA's provenance. It holds no time and no name of a machine, so
// whoever builds the same commit makes the same one.
type Release struct {
	Type string `json:"_type"`
	// Subject are the files, by name.
	Subject       []Subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     Provenance `json:"predicate"`
}

// Provenance is the part of SLSA's provenance that a release has.
type Provenance struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// BuildDefinition says what was built, and from what.
type BuildDefinition struct {
	BuildType          string             `json:"buildType"`
	ExternalParameters ReleaseParameters  `json:"externalParameters"`
	Dependencies       []ResourceMaterial `json:"resolvedDependencies"`
}

// ReleaseParameters are what a release's builder was told.
type ReleaseParameters struct {
	Repository string `json:"repository"`
	Version    string `json:"version"`
}

// ResourceMaterial is something that the build took: the tree, Go, gVisor.
type ResourceMaterial struct {
	URI string `json:"uri"`
	// Digest is {"gitCommit": …} of a tree; what the module of a version holds, Go's checksum
	// database says.
	Digest map[string]string `json:"digest,omitempty"`
}

// RunDetails say who built it.
type RunDetails struct {
	Builder Builder `json:"builder"`
}

// Builder names the builder by what it does.
type Builder struct {
	ID string `json:"id"`
}

// SubjectOf returns what a statement says of a file: its name without directories, and its digest.
func SubjectOf(path string) (Subject, error) {
	f, err := os.Open(path)
	if err != nil {
		return Subject{}, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return Subject{}, fmt.Errorf("read %s: %w", path, err)
	}
	return Subject{Name: filepath.Base(path), Digest: Digest{SHA256: hex.EncodeToString(sum.Sum(nil))}}, nil
}

// SignRelease returns the signed statement about a release. Its types are filled in.
func (s *Signer) SignRelease(r Release) (*job.Attestation, error) {
	r.Type, r.PredicateType, r.Predicate.BuildDefinition.BuildType = StatementType, ProvenanceType, ReleaseBuildType
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("sign release: %w", err)
	}
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("sign release: %w", err)
	}
	a := seal(s, PayloadType, payload)
	return &a, nil
}

// ParseProvenance reads the file that a release has its signed statement in.
func ParseProvenance(b []byte) (job.Attestation, error) {
	var a job.Attestation
	if len(b) > MaxProvenance {
		return a, fmt.Errorf("read provenance: larger than %d MiB", MaxProvenance>>20)
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("read provenance: %w", err)
	}
	if a.Payload == "" {
		return a, errors.New(`read provenance: it has no payload: want {"payloadType", "payload", "signatures"}`)
	}
	return a, nil
}

// VerifyRelease checks that one of the keys signed the statement, and that it is about a release.
// It fails with an error that wraps ErrMalformed, ErrUnknownKey or ErrSignature. Whether files are
// those of the release, [Release.Check] says.
func VerifyRelease(a job.Attestation, keys []Key) (Release, Key, error) {
	payload, key, err := open(a, keys)
	if err != nil {
		return Release{}, Key{}, err
	}
	var r Release
	if err := json.Unmarshal(payload, &r); err != nil {
		return Release{}, Key{}, fmt.Errorf("%w: its statement: %w", ErrMalformed, err)
	}
	if r.Type != StatementType || r.PredicateType != ProvenanceType || r.Predicate.BuildDefinition.BuildType != ReleaseBuildType {
		return Release{}, Key{}, fmt.Errorf("%w: it states %.80q of build type %.80q, want %q of %q", ErrMalformed,
			r.PredicateType, r.Predicate.BuildDefinition.BuildType, ProvenanceType, ReleaseBuildType)
	}
	if err := r.check(); err != nil {
		return Release{}, Key{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return r, key, nil
}

// check refuses a statement that says nothing of a file, or two things.
func (r Release) check() error {
	if r.Predicate.BuildDefinition.ExternalParameters.Version == "" {
		return errors.New("the release has no version")
	}
	if len(r.Subject) == 0 {
		return errors.New("the release has no file")
	}
	seen := map[string]bool{}
	for _, s := range r.Subject {
		switch {
		case s.Name == "" || strings.ContainsAny(s.Name, "/\\"):
			return fmt.Errorf("a file of the release is called %.80q, want a name without directories", s.Name)
		case !job.IsSHA256(s.Digest.SHA256):
			return fmt.Errorf("the SHA-256 of %.80q is %.80q, want 64 digits of hex", s.Name, s.Digest.SHA256)
		case seen[s.Name]:
			return fmt.Errorf("the file %.80q appears more than once", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

// Check reports whether a file of that name and SHA-256, in hex, is the release's. Its error wraps
// ErrNotReleased. A file under another name than its own is refused, too: it would be taken for
// what it isn't.
func (r Release) Check(name, sha256 string) error {
	other := ""
	for _, s := range r.Subject {
		switch {
		case s.Name == name && s.Digest.SHA256 == sha256:
			return nil
		case s.Name == name:
			return fmt.Errorf("%w: %s has SHA-256 %s, the release's has %s", ErrNotReleased, name, sha256, s.Digest.SHA256)
		case s.Digest.SHA256 == sha256:
			other = s.Name
		}
	}
	if other != "" {
		return fmt.Errorf("%w: %s is the release's %s, under another name", ErrNotReleased, name, other)
	}
	return fmt.Errorf("%w: the release has no %s", ErrNotReleased, name)
}
