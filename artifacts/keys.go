package artifacts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

const (
	maxIDBytes = 64
	// maxComponentBytes keeps each part of a key between slashes a valid file name,
	// for stores that keep objects as files.
	maxComponentBytes = 200
	// maxNameBytes leaves room below S3's 1,024 bytes for what comes before a name.
	maxNameBytes = 700
)

// Keys names the objects of one job. Tenant and id were checked by [JobKeys], and
// names are encoded, so that no key can lead out of the job's own prefix.
type Keys struct{ prefix string }

// JobKeys returns the keys of a job. It refuses a tenant or id that is empty, longer
// than 64 bytes or holds anything but letters, digits, "-" and "_".
func JobKeys(tenant, id string) (Keys, error) {
	if !validID(tenant) {
		return Keys{}, fmt.Errorf("name object of tenant %.80q: not 1 to %d letters, digits, - or _", tenant, maxIDBytes)
	}
	if !validID(id) {
		return Keys{}, fmt.Errorf("name object of job %.80q: not 1 to %d letters, digits, - or _", id, maxIDBytes)
	}
	return Keys{tenantsPrefix + tenant + "/jobs/" + id + "/"}, nil
}

// Prefix is what every key of the job starts with.
func (k Keys) Prefix() string { return k.prefix }

// Spec holds a job's spec that is too large for Redis.
func (k Keys) Spec() string { return k.prefix + "spec.json" }

// EpochPrefix is what every key of one try at the job starts with.
func (k Keys) EpochPrefix(epoch int64) string { return k.prefix + strconv.FormatInt(epoch, 10) + "/" }

// Result holds the result of one try.
func (k Keys) Result(epoch int64) string { return k.EpochPrefix(epoch) + "result.json" }

// Submission holds what was submitted to be graded by a stored problem, so that another can grade it.
func (k Keys) Submission(epoch int64) string { return k.EpochPrefix(epoch) + "submission.json" }

// Input holds what an execution of a session was given, where that is too large for Redis.
func (k Keys) Input(epoch int64) string { return k.EpochPrefix(epoch) + "input.json" }

// Stdout holds the whole of a long standard output.
func (k Keys) Stdout(epoch int64) string { return k.EpochPrefix(epoch) + "stdout" }

// Stderr holds the whole of a long standard error.
func (k Keys) Stderr(epoch int64) string { return k.EpochPrefix(epoch) + "stderr" }

// Artifact holds a file that the job left. Different names have different keys,
// whatever bytes they are made of.
func (k Keys) Artifact(epoch int64, name string) string {
	return k.EpochPrefix(epoch) + "artifacts/" + encodeName(name)
}

// UploadKey is where a tenant's upload of that content is: sha256 in lower-case hex.
func UploadKey(tenant, sha256 string) (string, error) {
	if !validID(tenant) {
		return "", fmt.Errorf("name upload of tenant %.80q: not 1 to %d letters, digits, - or _", tenant, maxIDBytes)
	}
	if len(sha256) != 64 || strings.Trim(sha256, "0123456789abcdef") != "" {
		return "", fmt.Errorf("name upload %.80q: not a SHA-256 in lower-case hex", sha256)
	}
	return tenantsPrefix + tenant + "/inputs/" + sha256, nil
}

// encodeName makes a name plain ASCII: bytes beyond letters, digits, "-", "_" and "."
// become ~XX. Stores and proxies disagree about "+", "%", spaces, "..", "//" and
// Unicode normalization; about these characters they agree. What gets too long is
// named by its hash, after "~~", which no encoded byte starts with.
func encodeName(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = encodeComponent(part)
	}
	encoded := strings.Join(parts, "/")
	if len(encoded) > maxNameBytes {
		return "~~name-" + hexHash(name)
	}
	return encoded
}

func encodeComponent(s string) string {
	if s == "" {
		return "~~empty"
	}
	var b strings.Builder
	dots := strings.Trim(s, ".") == ""
	for _, c := range []byte(s) {
		if alphanumeric(c) || c == '-' || c == '_' || c == '.' && !dots {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "~%02X", c)
		}
	}
	if b.Len() > maxComponentBytes {
		return "~~" + hexHash(s)
	}
	return b.String()
}

func validID(s string) bool {
	for _, c := range []byte(s) {
		if !alphanumeric(c) && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= maxIDBytes
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func hexHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
