package record

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
)

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

const idLength = 26 // 128 bits in base32

// NewID returns a fresh job id for tenant: the tenant, then 128 random bits.
func NewID(tenant string) string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return tenant + "-" + idEncoding.EncodeToString(b[:])
}

// Tenant returns the tenant of a job id, and false for what is no job id.
func Tenant(id string) (string, bool) {
	tenant, random, ok := strings.Cut(id, "-")
	if !ok || !ValidTenant(tenant) || len(random) != idLength || !lowerBase32(random) {
		return "", false
	}
	return tenant, true
}

// ValidTenant reports whether s is 1 to 32 lower-case letters and digits.
func ValidTenant(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

func lowerBase32(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '2' || r > '7') {
			return false
		}
	}
	return true
}

// DeliveryID is the webhook message id of (job, event, endpoint): always the same.
func DeliveryID(jobID, event, url string) string {
	h := sha256.New()
	for _, part := range []string{jobID, event, url} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return "msg_" + idEncoding.EncodeToString(h.Sum(nil)[:16])
}
