package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
	"github.com/glovebox-run/glovebox/internal/hookkeys"
	"github.com/glovebox-run/glovebox/producer"
	"github.com/glovebox-run/glovebox/producer/producertest"
)

// apiProcess is `glovebox api` as a process of its own, built without the race detector:
// what it uses and how fast it is counts.
type apiProcess struct {
	*producertest.Env
	*gbtest.Process
	url    string
	client *producer.Client
	argv   []string
	env    []string
}

// adminToken is the operator's.
const adminToken = "76543210fedcba9876543210"

// startAPIProcess starts one that ends with the test, with more of its environment.
func startAPIProcess(tb testing.TB, more ...string) *apiProcess {
	tb.Helper()
	return startAPIBinary(tb, build(tb, podmanTags, "glovebox")+"/glovebox", more...)
}

func startAPIBinary(tb testing.TB, bin string, more ...string) *apiProcess {
	tb.Helper()
	p := &apiProcess{Env: producertest.New(tb, ""), argv: []string{bin, "api"}}
	p.Runtimes(tb)
	key := make([]byte, 32)
	rand.Read(key)
	p.env = []string{
		"GLOVEBOX_REDIS_URL=" + p.Redis.API(), "GLOVEBOX_S3_ENDPOINT=" + p.S3.Endpoint, "GLOVEBOX_S3_REGION=" + p.S3.Region,
		"GLOVEBOX_S3_BUCKET=" + p.S3Spec.Bucket, "GLOVEBOX_S3_ACCESS_KEY=" + p.S3.AccessKey, "GLOVEBOX_S3_SECRET_KEY=" + p.S3.SecretKey,
		"GLOVEBOX_TOKEN=0123456789abcdef01234567", "GLOVEBOX_ADMIN_TOKEN=" + adminToken,
		"GLOVEBOX_WEBHOOK_KEY=" + hookkeys.New(), "GLOVEBOX_CAPABILITY_KEY=" + base64.StdEncoding.EncodeToString(key),
	}
	p.start(tb, more...)
	return p
}

// another starts one more beside it, on the same stores.
func (p *apiProcess) another(tb testing.TB, more ...string) *apiProcess {
	tb.Helper()
	other := &apiProcess{Env: p.Env, argv: p.argv, env: p.env}
	other.start(tb, more...)
	return other
}

func (p *apiProcess) start(tb testing.TB, more ...string) {
	tb.Helper()
	addr := gbtest.Addr(tb)
	p.url = "http://" + addr
	p.Process = gbtest.Start(tb, p.argv, slices.Concat(p.env, []string{"GLOVEBOX_API_ADDR=" + addr, "GLOVEBOX_PUBLIC_URL=" + p.url}, more), p.ready)
	var err error
	if p.client, err = producer.New(p.url, "0123456789abcdef01234567"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { p.client.Close() })
}

func (p *apiProcess) ready() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections() // goleak watches
	return res.StatusCode == http.StatusOK
}

// memory is what /proc says of the process now, and of the most that it ever had, in bytes.
func (p *apiProcess) memory(tb testing.TB) (now, most int64) {
	tb.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/status")
	if err != nil {
		tb.Fatal(err)
	}
	read := func(name string) int64 {
		_, rest, _ := strings.Cut(string(status), name+":")
		kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		return kb << 10
	}
	return read("VmRSS"), read("VmHWM")
}
