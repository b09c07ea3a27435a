package job

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// TokenPrefix is what every tenant's token starts with: gb_<tenant>_<32 characters>.
const TokenPrefix = "gb_"

const (
	idLength    = 26 // 128 bits in base32
	tokenLength = 32 // 160 bits in base32
	batchMark   = "b-"
	runMark     = "r-"
	sessionMark = "s-"
	maxTenant   = 32
	uuidBytes   = 16
	uuidLength  = 36 // in hex with dashes
)

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// EncodeID writes bytes as ids have them: in lower-case base32 without padding.
func EncodeID(b []byte) string { return idEncoding.EncodeToString(b) }

// ValidTenant reports whether a tenant can have that name: 1 to 32 lower-case letters and digits.
func ValidTenant(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && len(name) <= maxTenant
}

// NewID returns a fresh id for a job of the tenant: its name, then the 128 bits of a random UUID (version
// 4: 122 of them are random). Glovebox makes them: a program that submits jobs never has to.
func NewID(tenant string) string {
	var b [16]byte
	rand.Read(b[:])                             // never fails: crypto/rand aborts the program instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // RFC 9562, section 5.4
	return tenant + "-" + EncodeID(b[:])
}

// UUIDOf returns the UUID in a job's id, and false for what is no job's id. It is of version 4 for what
// NewID made.
func UUIDOf(id string) (uuid string, ok bool) {
	if _, ok := TenantOf(id); !ok {
		return "", false
	}
	b, err := idEncoding.DecodeString(id[len(id)-idLength:])
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), true
}

// IDOfUUID returns the id of the tenant's job that has this UUID, in hex with dashes, and false for
// what is no UUID.
func IDOfUUID(tenant, uuid string) (id string, ok bool) {
	if len(uuid) != uuidLength || uuid[8] != '-' || uuid[13] != '-' || uuid[18] != '-' || uuid[23] != '-' {
		return "", false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || len(b) != uuidBytes {
		return "", false
	}
	return tenant + "-" + EncodeID(b), true
}

// TenantOf returns the tenant of a job, which its id begins with: <tenant>-<26 characters>.
// It returns false for what is no job's id.
func TenantOf(id string) (tenant string, ok bool) {
	tenant, random, ok := strings.Cut(id, "-")
	if !ok || !ValidTenant(tenant) || len(random) != idLength || !isBase32(random) {
		return "", false
	}
	return tenant, true
}

// NewBatchID returns a fresh id for a batch of the tenant: what a job's has, behind a "b-".
func NewBatchID(tenant string) string {
	return tenant + "-" + batchMark + strings.TrimPrefix(NewID(tenant), tenant+"-")
}

// TenantOfBatch returns the tenant of a batch, and false for what is no batch's id.
func TenantOfBatch(id string) (tenant string, ok bool) {
	tenant, rest, _ := strings.Cut(id, "-")
	random, ok := strings.CutPrefix(rest, batchMark)
	if !ok {
		return "", false
	}
	return TenantOf(tenant + "-" + random)
}

// NewSessionID returns a fresh id for a session of the tenant: what a job's has, behind an "s-".
func NewSessionID(tenant string) string {
	return tenant + "-" + sessionMark + strings.TrimPrefix(NewID(tenant), tenant+"-")
}

// TenantOfSession returns the tenant of a session, and false for what is no session's id.
func TenantOfSession(id string) (tenant string, ok bool) {
	tenant, rest, _ := strings.Cut(id, "-")
	random, ok := strings.CutPrefix(rest, sessionMark)
	if !ok {
		return "", false
	}
	return TenantOf(tenant + "-" + random)
}

// ItemID is the id of a batch's job: always the same, so that none is made twice. It
// can't be guessed, as the batch's can't.
func ItemID(batch string, index int) string {
	tenant, _ := TenantOfBatch(batch)
	sum := sha256.Sum256([]byte(batch + "." + strconv.Itoa(index)))
	return tenant + "-" + EncodeID(sum[:16])
}

// NewRunID returns a fresh id for a run of a pipeline of the tenant: what a job's has, behind an "r-".
func NewRunID(tenant string) string {
	return tenant + "-" + runMark + strings.TrimPrefix(NewID(tenant), tenant+"-")
}

// RunID is the id of a run for 16 bytes that name it: always the same.
func RunID(tenant string, name []byte) string { return tenant + "-" + runMark + EncodeID(name) }

// TenantOfRun returns the tenant of a run, and false for what is no run's id.
func TenantOfRun(id string) (tenant string, ok bool) {
	tenant, rest, _ := strings.Cut(id, "-")
	random, ok := strings.CutPrefix(rest, runMark)
	if !ok {
		return "", false
	}
	return TenantOf(tenant + "-" + random)
}

// StepJobID is the id of a job of a run: always the same for a step, index and try, so that none is made
// twice. It can't be guessed, as the run's can't.
func StepJobID(run, step string, index, try int) string {
	tenant, _ := TenantOfRun(run)
	sum := sha256.Sum256(fmt.Appendf(nil, "step\n%s\n%s\n%d\n%d", run, step, index, try))
	return tenant + "-" + EncodeID(sum[:16])
}

// ExecutionID is the id of the execution of a session that an idempotency key names. It can't be guessed, as the session's can't.
func ExecutionID(session, key string) string {
	tenant, _ := TenantOfSession(session)
	sum := sha256.Sum256(fmt.Appendf(nil, "execution\n%s\n%s", session, key))
	return tenant + "-" + EncodeID(sum[:16])
}

// TenantOfToken returns the tenant that a token names, and false for what has not the form
// of a tenant's token. Whether it is one, only Glovebox knows.
func TenantOfToken(token string) (tenant string, ok bool) {
	rest, ok := strings.CutPrefix(token, TokenPrefix)
	tenant, random, found := strings.Cut(rest, "_")
	if !ok || !found || !ValidTenant(tenant) || len(random) != tokenLength || !isBase32(random) {
		return "", false
	}
	return tenant, true
}

// ValidEventID reports whether a job's stream of events can have an event of that id: two
// numbers with a "-" between them. The highest number is none: nothing comes after it.
func ValidEventID(id string) bool {
	ms, seq, ok := strings.Cut(id, "-")
	for _, number := range []string{ms, seq} {
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || number[0] == '+' || n == math.MaxUint64 {
			return false
		}
	}
	return ok
}

func isBase32(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '2' || r > '7') {
			return false
		}
	}
	return true
}
