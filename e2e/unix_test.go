package e2e

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"
)

func unixTransport(socket string) *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
}

func escape(s string) string { return url.QueryEscape(s) }

func home(tb testing.TB) string {
	tb.Helper()
	dir, err := os.UserHomeDir()
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}
