package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/glovebox-run/glovebox/job"
)

// TestHookSetKeepsItsScheme: of how a hook's requests are signed, only what a flag gives changes.
func TestHookSetKeepsItsScheme(t *testing.T) {
	t.Parallel()
	before := job.HookScheme{Signature: "X-Sig", Prefix: "sha256=", Encoding: "base64", Content: "{timestamp}.{body}", Timestamp: "X-Time", ID: "X-Id"}
	changed := before
	changed.Signature = "X-Sig-2"
	for _, tt := range []struct {
		before *job.HookScheme
		want   job.HookScheme
	}{
		{&before, changed},
		{nil, job.HookScheme{Signature: "X-Sig-2", Encoding: "hex", Content: "{body}"}},
	} {
		var o hookOptions
		cmd := &cobra.Command{}
		o.add(cmd)
		if err := cmd.Flags().Parse([]string{"--signature-header", "X-Sig-2"}); err != nil {
			t.Fatal(err)
		}
		got, err := o.settings(cmd, job.HookSettings{Scheme: tt.before})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, *got.Scheme); d != "" {
			t.Error(d)
		}
	}
	if before.Signature != "X-Sig" {
		t.Error("what was before has changed")
	}
}
