package attest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"

	"github.com/glovebox-run/glovebox/job"
)

// The names that the hashes begin with, so that none can be taken for another.
const (
	inputDomain       = "glovebox/input/v1"
	imageInputDomain  = "glovebox/image-input/v1"
	outputDomain      = "glovebox/output/v1"
	environmentDomain = "glovebox/environment/v1"
	subjectDomain     = "glovebox/result/v1"
)

// fields is a SHA-256 over fields, each behind its length: eight bytes, big-endian.
type fields struct{ sum hash.Hash }

func newFields(domain string) fields {
	f := fields{sha256.New()}
	f.text(domain)
	return f
}

func (f fields) text(all ...string) {
	for _, s := range all {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(s)))
		f.sum.Write(length[:])
		f.sum.Write([]byte(s))
	}
}

func (f fields) number(n int64) { f.text(strconv.FormatInt(n, 10)) }

// optional is the number, or an empty field.
func (f fields) optional(n *int) {
	if n == nil {
		f.text("")
		return
	}
	f.number(int64(*n))
}

func (f fields) hex() string { return hex.EncodeToString(f.sum.Sum(nil)) }

// InputHash is the hash of what a job is given: source, entry point, arguments,
// environment, standard input and files; before these, where the job brings an image,
// that and its command. Whoever submitted the spec can compute it, and
// compare it with the attested one. It fails for files whose base64 is none.
func InputHash(spec job.Spec) (string, error) {
	f := newFields(inputDomain)
	if spec.Image != "" || len(spec.Command) > 0 {
		f = newFields(imageInputDomain)
		f.text(spec.Image)
		f.number(int64(len(spec.Command)))
		f.text(spec.Command...)
	}
	f.text(spec.Source, spec.Entrypoint)
	f.number(int64(len(spec.Args)))
	f.text(spec.Args...)
	f.number(int64(len(spec.Env)))
	for _, name := range slices.Sorted(maps.Keys(spec.Env)) {
		f.text(name, spec.Env[name])
	}
	f.text(spec.Stdin)
	f.number(int64(len(spec.Files)))
	files := slices.SortedFunc(slices.Values(spec.Files), func(a, b job.File) int { return cmp.Compare(a.Name, b.Name) })
	for _, file := range files {
		content, err := file.Bytes()
		if err != nil {
			return "", fmt.Errorf("hash input %.40q: %w", file.Name, err)
		}
		f.text(file.Name, string(content))
	}
	return f.hex(), nil
}

// outputHash is the hash of what came out.
func outputHash(p Predicate) string {
	f := newFields(outputDomain)
	f.text(string(p.Status), p.Signal)
	for _, s := range []Stream{p.Stdout, p.Stderr} {
		f.number(s.Size)
		f.text(s.SHA256, s.TextSHA256)
	}
	if p.Compile == nil {
		f.number(0)
	} else {
		f.number(1)
		f.number(int64(p.Compile.ExitCode))
		f.text(p.Compile.OutputSHA256)
	}
	f.number(int64(len(p.Artifacts)))
	for _, a := range p.Artifacts {
		f.text(a.Name)
		f.number(a.Size)
		f.text(a.SHA256)
	}
	return f.hex()
}

// environmentHash is the hash of what the job ran in, but the image, which has a field
// of its own in the subject.
func environmentHash(p Predicate) (string, error) {
	f := newFields(environmentDomain)
	f.text(p.Runtime.Name, p.Runtime.Version, p.Runtime.Image, p.Runtime.OCIRuntime, p.LimitsEnforced)
	limits, err := limitNumbers(p.Limits)
	if err != nil {
		return "", err
	}
	f.number(int64(len(limits)))
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		f.text(name, limits[name].String())
	}
	return f.hex(), nil
}

// limitNumbers are the limits that are not 0, as JSON names and writes them: what is
// hashed can't miss a limit that is added.
func limitNumbers(l job.Limits) (map[string]json.Number, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("write limits: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var limits map[string]json.Number
	if err := d.Decode(&limits); err != nil {
		return nil, fmt.Errorf("read limits: %w", err)
	}
	return limits, nil
}

// subjectDigest is the digest that a statement is about.
func subjectDigest(p Predicate) string {
	f := newFields(subjectDomain)
	f.text(p.Runtime.ImageDigest, p.InputHash, p.OutputHash)
	f.optional(p.ExitCode)
	f.text(p.EnvironmentHash)
	return f.hex()
}

// hashText is the SHA-256 of s in hex.
func hashText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
