package job

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTermsCheck(t *testing.T) {
	t.Parallel()
	fine := Terms{
		Quotas:   Quotas{RequestsPerMinute: maxRate, JobsQueued: maxQuota, BytesQueued: maxQuota, RunningAtOnce: maxQuota},
		Maximums: DefaultMaximums, Runtimes: []string{"python", "node", "c++", "gcc-13.2"},
		CallbackHosts: []string{"example.com", "*.example.com", "127.0.0.1", "[::1]", "xn--bcher-kva.example"},
	}
	for _, terms := range []Terms{{}, fine, {Maximums: unbounded}} {
		if err := terms.Check(); err != nil {
			t.Errorf("%+v: got %v, want it accepted", terms, err)
		}
	}
	bad := Terms{
		Quotas:   Quotas{RequestsPerMinute: maxRate + 1, JobsQueued: -1, BytesQueued: maxQuota + 1, RunningAtOnce: -1},
		Maximums: Limits{WallMS: -1, MemoryMB: unbounded.MemoryMB + 1, CPUs: math.NaN()},
		Runtimes: []string{"python", "", "python", "a b"},
		CallbackHosts: []string{
			"", "*", "*.", "EXAMPLE.com", "a.*.com", "https://example.com", "example.com:443", "example.com/", "u@example.com",
			"example.com.", "exa mple.com", "example.com?x", "[::1", "%31.example.com", strings.Repeat("a", 256),
		},
	}
	var invalid Invalid
	if err := bad.Check(); !errors.As(err, &invalid) {
		t.Fatalf("got %v, want Invalid", err)
	}
	var fields []string
	for _, f := range invalid {
		if !strings.Contains(f.Field, "callback_hosts[") {
			fields = append(fields, f.Field)
		}
	}
	want := []string{
		"terms.quotas.requests_per_minute", "terms.quotas.jobs_queued", "terms.quotas.bytes_queued", "terms.quotas.running_at_once",
		"terms.maximums.wall_ms", "terms.maximums.memory_mb", "terms.maximums.cpus",
		"terms.runtimes[1]", "terms.runtimes[2]", "terms.runtimes[3]",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
	if got := len(invalid) - len(fields); got != len(bad.CallbackHosts) {
		t.Errorf("got %d bad hosts of %d: %v", got, len(bad.CallbackHosts), invalid)
	}
	many := Terms{Runtimes: slices.Repeat([]string{"a"}, MaxTermsEntries+1)}
	if err := many.Check(); !errors.As(err, &invalid) || len(invalid) != 1 {
		t.Errorf("too many entries: got %v, want one error", err)
	}
}

func TestAllowsCallback(t *testing.T) {
	t.Parallel()
	terms := Terms{CallbackHosts: []string{"hooks.example.com", "*.example.org", "[2001:db8::1]"}}
	for url, want := range map[string]bool{
		"https://hooks.example.com/x":          true,
		"https://HOOKS.example.COM:8443/x":     true,
		"https://hooks.example.com./x":         true,
		"https://a.example.org/":               true,
		"https://a.b.example.org/":             true,
		"https://[2001:db8::1]:8443/":          true,
		"https://example.org/":                 false,
		"https://.example.org/":                false,
		"https://badexample.org/":              false,
		"https://example.com/":                 false,
		"https://x.hooks.example.com/":         false,
		"https://hooks.example.com.evil.net/":  false,
		"https://evil.net/hooks.example.com":   false,
		"https://evil.net#hooks.example.com":   false,
		"https://hooks.example.com@evil.net/":  false,
		"https://evil.net\\@hooks.example.com": false,
		"":                                     false,
	} {
		if got := terms.AllowsCallback(url); got != want {
			t.Errorf("%q: got %v, want %v", url, got, want)
		}
	}
	if !(Terms{}).AllowsCallback("https://anywhere.example/") {
		t.Error("terms without hosts: got refused, want allowed")
	}
}

func TestAllowsImage(t *testing.T) {
	t.Parallel()
	digest := "@sha256:" + strings.Repeat("a", 64)
	other := "@sha256:" + strings.Repeat("b", 64)
	terms := Terms{Images: []string{"localhost/any", "localhost/one" + digest}}
	if err := terms.Check(); err != nil {
		t.Error(err)
	}
	for image, want := range map[string]bool{
		"localhost/any" + digest: true, "localhost/any" + other: true, "localhost/one" + digest: true, "localhost/one" + other: false,
		"localhost/anyone" + digest: false, "localhost/none" + digest: false, "": false,
	} {
		if got := terms.AllowsImage(image); got != want {
			t.Errorf("%s: got %v, want %v", image, got, want)
		}
	}
	// Each list alone is the whole of what is allowed.
	if terms.AllowsRuntime("python") || (Terms{Runtimes: []string{"python"}}).AllowsImage("localhost/any"+digest) {
		t.Error("a list of one kind left the other kind open")
	}
	if !(Terms{}).AllowsImage("localhost/any"+digest) || !(Terms{}).AllowsRuntime("python") {
		t.Error("terms without lists: got refused, want allowed")
	}
	for _, bad := range []string{"", "any", "localhost/any:latest", "localhost/any@sha256:abc", "localhost/*", "@" + digest} {
		if err := (Terms{Images: []string{bad}}).Check(); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

func TestCheckLabel(t *testing.T) {
	t.Parallel()
	for label, ok := range map[string]bool{
		"": true, "ci, 2026": true, "büro": true, strings.Repeat("a", MaxLabelBytes): true,
		strings.Repeat("a", MaxLabelBytes+1): false, "a\nb": false, "\xff": false, "a\u202eb": false,
	} {
		if got := CheckLabel(label) == ""; got != ok {
			t.Errorf("%q: got %v, want %v", label, got, ok)
		}
	}
}

func TestLimitsWithin(t *testing.T) {
	t.Parallel()
	narrow := Limits{WallMS: 5000, MemoryMB: 1 << 20}.AtMost(DefaultMaximums)
	if narrow.WallMS != 5000 || narrow.MemoryMB != DefaultMaximums.MemoryMB || narrow.CPUs != DefaultMaximums.CPUs {
		t.Errorf("got %+v, want the narrower of the two in each field", narrow)
	}
	// What is asked for stays, what is left to a default is capped.
	got := Limits{MemoryMB: 512}.Within(Limits{WallMS: 20_000, DiskMB: 10}, Limits{WallMS: 5000, CPUMS: 1000, CPUs: 0.5, DiskMB: 64, FileMB: 5}.AtMost(DefaultMaximums))
	if diff := cmp.Diff(Limits{MemoryMB: 512, WallMS: 5000, CPUMS: 1000, CompileWallMS: 5000, CPUs: 0.5, FileMB: 5}, got); diff != "" {
		t.Error(diff)
	}
	if got := (Limits{}).Within(DefaultLimits, DefaultMaximums); got != (Limits{}) {
		t.Errorf("defaults within the maximums: got %+v, want nothing set", got)
	}
}
