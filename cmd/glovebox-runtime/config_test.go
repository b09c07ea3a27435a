package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadConfig(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, config string
		refused      string // part of the error
	}{
		{name: "podman's own annotations", config: `{"annotations":{"io.container.manager":"libpod","io.kubernetes.cri-o.Created":"2026","org.opencontainers.image.base.name":"x","io.podman.annotations.init":"FALSE"}}`},
		{name: "none", config: `{}`},
		{name: "a file of the host", config: `{"annotations":{"dev.gvisor.tar.rootfs.upper":"/etc/passwd"}}`, refused: "dev.gvisor.tar.rootfs.upper"},
		{name: "a flag", config: `{"annotations":{"dev.gvisor.flag.host-uds":"all"}}`, refused: "dev.gvisor.flag.host-uds"},
		{name: "another's sandbox", config: `{"annotations":{"io.kubernetes.cri.sandbox-id":"abc"}}`, refused: "io.kubernetes.cri.sandbox-id"},
		{name: "no JSON", config: `{`, refused: "read configuration"},
		{name: "no number", config: `{"linux":{"resources":{"memory":{"limit":"max"}}}}`, refused: "read configuration"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bundle := t.TempDir()
			if err := os.WriteFile(filepath.Join(bundle, "config.json"), []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := readConfig(bundle)
			if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("got %v, want an error with %q", err, tt.refused)
			}
		})
	}
	if _, err := readConfig(t.TempDir()); err == nil {
		t.Error("no config.json: got no error")
	}
}

func TestBundleOf(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"create --bundle /b --pid-file /p abc": "/b", "create --pid-file /p --bundle=/b abc": "/b", "create -b /b abc": "/b",
		"create -bundle /b abc": "/b", "create abc": ".", "create bundle": ".",
	} {
		if got := bundleOf(strings.Fields(args)); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}
