package attest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/glovebox-run/glovebox/job"
)

// The names that the hashes begin with, so that none can be taken for another.
const (
	inputDomain            = "glovebox/input/v1"
	imageInputDomain       = "glovebox/image-input/v1"
	secretsInputDomain     = "glovebox/secrets-input/v1"
	gradedInputDomain      = "glovebox/graded-input/v1"
	streamsInputDomain     = "glovebox/streams-input/v1"
	interactiveInputDomain = "glovebox/interactive-input/v1"
	commandsInputDomain    = "glovebox/commands-input/v1"
	sessionInputDomain     = "glovebox/session-input/v1"
	contextInputDomain     = "glovebox/context-input/v1"
	outputDomain           = "glovebox/output/v1"
	gradedOutputDomain     = "glovebox/graded-output/v1"
	shownOutputDomain      = "glovebox/shown-output/v1"
	environmentDomain      = "glovebox/environment/v1"
	snapshotDomain         = "glovebox/snapshot-environment/v1"
	subjectDomain          = "glovebox/result/v1"
	executionDomain        = "glovebox/execution-result/v1"
	isolationDomain        = "glovebox/isolation-environment/v1"
)

// InputHash is the hash of what a job is given: source, entry point, arguments,
// environment, standard input and files; before these, where the job brings an image,
// that and its command; before these its commands, and how its streams are taken; before all of it the names of its stored secrets, never what they are, and
// before these, where it is graded, its tests, checker and groups. Whoever submitted the spec can compute it, and
// compare it with the attested one. It fails for files whose base64 is none. A file that
// is kept elsewhere counts like any other: put its content into the spec, or use [Input].
func InputHash(spec job.Spec) (string, error) {
	in := NewInput(spec)
	for _, file := range in.files {
		content, err := file.Bytes()
		if err != nil {
			return "", fmt.Errorf("hash input %.40q: %w", file.Name, err)
		}
		if err := in.Begin(file.Name, int64(len(content))); err != nil {
			return "", err
		}
		if _, err := in.Write(content); err != nil {
			return "", err
		}
	}
	return in.Sum()
}

// Input is an [InputHash] for a caller that has files as streams: each is begun, in the order of
// their names, and its content written.
type Input struct {
	fields fields
	files  []job.File // by name
	begun  int
	left   int64 // of the file that was begun last
	// digest is of that file's content, and counts in its place where digests is set.
	digest  hash.Hash
	digests bool
}

// NewInput returns the Input of a job, into which its files go.
func NewInput(spec job.Spec) *Input { return newInput(fields{sha256.New()}, spec) }

// NewExecutionInput returns the Input of a session's execution, into which its files go. The session, its number there and its interpreter's, and previous,
// the subject's digest of the execution before it, come before all else, and before these the context and its language, unless it is the main one: so it stands for all that the session has executed. previous is "" for the first. The spec is that of [job.SessionSettings.Spec].
// Of a file its SHA-256 is hashed: a reader that has the digest alone computes the same.
func NewExecutionInput(spec job.Spec, at job.ExecutionState, previous string) *Input {
	f := newFields(sessionInputDomain)
	if at.Context != "" || at.Language != "" { // one of the main context has a language where its code is a command about files
		f = newFields(contextInputDomain)
		f.text(at.Context, at.Language)
	}
	f.text(at.ID)
	f.number(at.Sequence)
	f.number(int64(at.Generation))
	f.text(previous)
	in := newInput(f, spec)
	in.digests = true
	return in
}

// ExecutionInputHash is the hash of what an execution was given, there in its session: see [NewExecutionInput]. A file that is kept
// elsewhere counts by the SHA-256 that it names. It fails for files whose base64 is none.
func ExecutionInputHash(given job.ExecutionInput, at job.ExecutionState, previous string) (string, error) {
	in := NewExecutionInput(given.Spec(), at, previous)
	for _, file := range in.files {
		size, sum := file.Size, file.SHA256
		if !file.Kept() {
			content, err := file.Bytes()
			if err != nil {
				return "", fmt.Errorf("hash input %.40q: %w", file.Name, err)
			}
			size, sum = int64(len(content)), hashText(string(content))
		}
		in.begun++
		in.fields.text(file.Name)
		in.fields.number(size)
		in.fields.text(sum)
	}
	return in.Sum()
}

func newInput(f fields, spec job.Spec) *Input {
	image := spec.Image != "" || len(spec.Command) > 0
	domain := inputDomain
	if image {
		domain = imageInputDomain
	}
	if spec.Graded() || spec.Checker != nil || len(spec.Groups) > 0 {
		f.text(gradedInputDomain)
		f.grading(spec)
	}
	if len(spec.Secrets) > 0 {
		f.text(secretsInputDomain)
		f.number(int64(len(spec.Secrets)))
		f.text(slices.Sorted(slices.Values(spec.Secrets))...)
	}
	if spec.Interactive {
		f.text(interactiveInputDomain)
	}
	if spec.MergeStderr || spec.TruncateOutput {
		f.text(streamsInputDomain)
		f.flag(spec.MergeStderr)
		f.flag(spec.TruncateOutput)
	}
	if spec.Commands != nil {
		f.text(commandsInputDomain, spec.Commands.Compile, spec.Commands.Run)
	}
	f.text(domain)
	if image {
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
	stdin, err := job.File{ContentBase64: spec.StdinBase64}.Bytes()
	if err != nil { // Check refuses it
		stdin = []byte(spec.StdinBase64)
	}
	f.text(spec.Stdin + string(stdin)) // one of them
	f.number(int64(len(spec.Files)))
	files := slices.SortedFunc(slices.Values(spec.Files), func(a, b job.File) int { return cmp.Compare(a.Name, b.Name) })
	return &Input{fields: f, files: files}
}

// digest is the SHA-256 of what a test reads or expects, in hex; "" for what is no base64, which
// Check refuses.
func digest(f job.File) string {
	if f.Upload != "" {
		return f.Upload
	}
	content, err := f.Bytes()
	if err != nil {
		return ""
	}
	return hashText(string(content))
}

// Files are the job's files in the order in which Begin wants them.
func (in *Input) Files() []job.File { return in.files }

// Begin says that the content of the next file follows, size bytes.
func (in *Input) Begin(name string, size int64) error {
	if in.begun == len(in.files) || in.files[in.begun].Name != name || in.left != 0 || size < 0 {
		return fmt.Errorf("hash input %.40q: it is not its turn", name)
	}
	in.begun, in.left = in.begun+1, size
	in.fields.text(name)
	if !in.digests {
		in.fields.length(size)
		return nil
	}
	in.fields.number(size)
	in.digest = sha256.New()
	in.counted()
	return nil
}

// Write adds content to the file that was begun last.
func (in *Input) Write(p []byte) (int, error) {
	if int64(len(p)) > in.left {
		return 0, errors.New("hash input: more content than announced")
	}
	if len(p) == 0 {
		return 0, nil // the file may be complete
	}
	in.left -= int64(len(p))
	if !in.digests {
		return in.fields.sum.Write(p)
	}
	n, err := in.digest.Write(p)
	in.counted()
	return n, err
}

// counted adds the digest of a file that is complete.
func (in *Input) counted() {
	if in.left == 0 && in.digest != nil {
		in.fields.text(hex.EncodeToString(in.digest.Sum(nil)))
		in.digest = nil
	}
}

// Complete reports whether all of each file was written.
func (in *Input) Complete() bool { return in.begun == len(in.files) && in.left == 0 }

// Sum is the hash in hex. It fails unless the Input is complete.
func (in *Input) Sum() (string, error) {
	if !in.Complete() {
		return "", fmt.Errorf("hash input: %d of %d files were written, %d bytes are missing", in.begun, len(in.files), in.left)
	}
	return in.fields.hex(), nil
}

// outputHash is the hash of what came out.
func outputHash(p Predicate) string {
	f := fields{sha256.New()}
	if p.Shown != nil {
		f.text(shownOutputDomain)
		f.json(p.Shown)
	}
	if p.Grading != nil {
		f.text(gradedOutputDomain)
		f.json(p.Grading)
	} else {
		f.text(outputDomain)
	}
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
	f := fields{sha256.New()}
	if p.Runtime.Isolation != "" {
		f.text(isolationDomain, string(p.Runtime.Isolation))
	}
	if p.Runtime.Snapshot != "" {
		f.text(snapshotDomain, p.Runtime.Snapshot)
	} else {
		f.text(environmentDomain)
	}
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
	if p.Session != nil {
		f = newFields(executionDomain)
		f.json(p.Session)
	}
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
