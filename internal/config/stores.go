package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/record"
	"github.com/glovebox-run/glovebox/internal/redisconn"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

// minToken keeps anyone from choosing a token that can be guessed.
const minToken = 20

// Redis reads where the records are, and how long jobs are kept.
func (r *Reader) Redis() record.Config {
	url := r.RequiredSecret("GLOVEBOX_REDIS_URL", redisconn.Forms)
	if _, err := redisconn.Parse(url); err != nil && url != "" {
		r.Fault("GLOVEBOX_REDIS_URL", "%v", err)
	}
	return record.Config{
		URL:        url,
		Replicas:   r.Int("GLOVEBOX_REDIS_WAIT_REPLICAS", 0, 0, 5),
		Retention:  r.Count("GLOVEBOX_RETENTION_SECONDS", time.Second, 7*24*60*60, 1, job.MaxRetentionSeconds),
		ResultLife: r.Count("GLOVEBOX_RESULT_SECONDS", time.Second, 60*60, 1, job.MaxRetentionSeconds),
	}
}

// S3 reads where the bucket is. Without an endpoint it is AWS's S3, and without keys
// AWS's own chain finds them.
func (r *Reader) S3() artifacts.Config {
	c := artifacts.Config{
		Endpoint:       r.String("GLOVEBOX_S3_ENDPOINT", ""),
		PublicEndpoint: r.String("GLOVEBOX_S3_PUBLIC_ENDPOINT", ""),
		Region:         r.String("GLOVEBOX_S3_REGION", "us-east-1"),
		Bucket:         r.Required("GLOVEBOX_S3_BUCKET", "the name of the bucket"),
		AccessKey:      r.Secret("GLOVEBOX_S3_ACCESS_KEY"),
		SecretKey:      r.Secret("GLOVEBOX_S3_SECRET_KEY"),
	}
	// Servers other than AWS's seldom have a name for each bucket.
	c.PathStyle = r.Bool("GLOVEBOX_S3_PATH_STYLE", c.Endpoint != "")
	r.CheckURL("GLOVEBOX_S3_ENDPOINT", c.Endpoint)
	r.CheckURL("GLOVEBOX_S3_PUBLIC_ENDPOINT", c.PublicEndpoint)
	if (c.AccessKey == "") != (c.SecretKey == "") {
		r.Fault("GLOVEBOX_S3_ACCESS_KEY", "and GLOVEBOX_S3_SECRET_KEY go together: want both or neither")
	}
	return c
}

// tokenKeys reads base64 keys, the first of which signs. A key's public id is derived
// from it, so that a rotation is one more word and nothing has to be named.
func (r *Reader) tokenKeys(name string) []artifacts.TokenKey {
	var keys []artifacts.TokenKey
	for _, word := range strings.Fields(r.RequiredSecret(name, "32 random bytes in base64")) {
		secret, err := base64.StdEncoding.DecodeString(word)
		if err != nil || len(secret) < 32 {
			r.Fault(name, "is not 32 or more bytes in base64: openssl rand -base64 32 makes one")
			continue
		}
		sum := sha256.Sum256(secret)
		keys = append(keys, artifacts.TokenKey{ID: hex.EncodeToString(sum[:4]), Secret: secret})
	}
	return keys
}

// signer reads a key to attest results with, if there is one.
func (r *Reader) signer(name string) *attest.Signer {
	seed := r.Secret(name)
	if seed == "" {
		return nil
	}
	s, err := attest.NewSigner(seed)
	if err != nil {
		r.Fault(name, "is not 32 bytes in base64: openssl rand -base64 32 makes one")
		return nil
	}
	return s
}

// secretsKeys reads the keys that open tenants' secrets, if there are any.
func (r *Reader) secretsKeys(name string) *secrets.Keys {
	words := r.Secret(name)
	if words == "" {
		return nil
	}
	keys, err := secrets.ParseKeys(words)
	if err != nil {
		r.Fault(name, "is not one or several times 32 bytes in base64: openssl rand -base64 32 makes one")
		return nil
	}
	return keys
}
