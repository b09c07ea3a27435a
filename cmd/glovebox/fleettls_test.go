package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-run/glovebox/internal/gbtest"
)

// TestFleetOverTLS: the command trusts the authority that SSL_CERT_FILE names, for Sentinels and for the servers that they name,
// and nobody else.
func TestFleetOverTLS(t *testing.T) {
	t.Parallel()
	ca := gbtest.NewCA(t)
	g := gbtest.StartRedisGroup(t, gbtest.RedisGroupConfig{DownAfter: time.Minute, CA: ca})
	program := filepath.Join(build(t, podmanTags, "glovebox"), "glovebox")
	for trusted, want := range map[string]struct {
		code int
		says string
	}{
		ca.File:              {0, "no worker lives"},
		gbtest.NewCA(t).File: {exitGlovebox, "certificate signed by unknown authority"},
	} {
		cmd := exec.CommandContext(t.Context(), program, "fleet")
		cmd.Env = []string{"GLOVEBOX_REDIS_URL=" + g.Admin(), "SSL_CERT_FILE=" + trusted, "SSL_CERT_DIR=" + t.TempDir(), "HOME=" + t.TempDir()}
		out, _ := cmd.CombinedOutput() // its exit code is looked at
		if code := cmd.ProcessState.ExitCode(); code != want.code || !strings.Contains(string(out), want.says) {
			t.Errorf("got exit code %d and %s, want %d and %q", code, out, want.code, want.says)
		}
	}
}
