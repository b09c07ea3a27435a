package main

import (
	"bytes"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
)

var from = source{version: "v0.1.0", commit: "545772d", goVersion: "go1.26.8", date: date}

// programs are two that share a module, of which one has it vendored, and replaces another; and one of another project.
func programs() []program {
	cobra := &debug.Module{Path: "github.com/spf13/cobra", Version: "v1.10.2", Sum: "h1:cobra="}
	old := &debug.Module{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0+incompatible"}}
	return []program{
		{"bin/glovebox", strings.Repeat("a", 64), &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{cobra}}},
		{"lib/runsc", strings.Repeat("b", 64), &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{{Path: cobra.Path, Version: cobra.Version}, old}}},
		{"lib/other", strings.Repeat("c", 64), &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/other", Version: "v1.8.0", Sum: "h1:other="}, Deps: []*debug.Module{cobra}}},
	}
}

func bill(t *testing.T, arch string) []byte {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bill")
	if err := writeBill(name, from, arch, programs()); err != nil {
		t.Fatal(err)
	}
	return read(t, name)
}

func TestBill(t *testing.T) {
	t.Parallel()
	b := bill(t, "amd64")
	if !bytes.Equal(b, bill(t, "amd64")) {
		t.Error("the same programs make different bills")
	}
	var got cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(b), cdx.BOMFileFormatJSON).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.SpecVersion != cdx.SpecVersion1_6 || got.Metadata.Timestamp != "2026-11-22T19:07:00Z" || got.Metadata.Component.Version != "v0.1.0" {
		t.Errorf("got %v of %+v", got.SpecVersion, got.Metadata)
	}
	var arm cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(bill(t, "arm64")), cdx.BOMFileFormatJSON).Decode(&arm); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.SerialNumber, "urn:uuid:") || len(got.SerialNumber) != 45 || got.SerialNumber == arm.SerialNumber {
		t.Errorf("serial numbers are %s and %s", got.SerialNumber, arm.SerialNumber)
	}

	components := map[string]string{}
	for _, c := range *got.Components {
		components[c.BOMRef] = c.PackageURL
		if c.Hashes != nil {
			components[c.BOMRef] = (*c.Hashes)[0].Value
		}
	}
	std, cobra, replaced, other := "pkg:golang/std@1.26.8", "pkg:golang/github.com/spf13/cobra@v1.10.2", "pkg:golang/example.com/new@v2.0.0%2Bincompatible", "pkg:golang/example.com/other@v1.8.0"
	if diff := cmp.Diff(map[string]string{
		"file:bin/glovebox": strings.Repeat("a", 64), "file:lib/runsc": strings.Repeat("b", 64), "file:lib/other": strings.Repeat("c", 64),
		std: std, cobra: cobra, replaced: replaced, other: other,
	}, components); diff != "" {
		t.Error(diff)
	}
	dependencies := map[string][]string{}
	for _, d := range *got.Dependencies {
		dependencies[d.Ref] = *d.Dependencies
	}
	if diff := cmp.Diff(map[string][]string{
		"glovebox":          {"file:bin/glovebox", "file:lib/runsc", "file:lib/other"},
		"file:bin/glovebox": {std, cobra},
		"file:lib/runsc":    {std, replaced, cobra},
		"file:lib/other":    {std, other, cobra},
	}, dependencies); diff != "" {
		t.Error(diff)
	}
}

// TestModulesOf: a module's checksum is kept where one of the programs has it.
func TestModulesOf(t *testing.T) {
	t.Parallel()
	got := modulesOf(programs()...)
	want := []debug.Module{{Path: "example.com/new", Version: "v2.0.0+incompatible"}, {Path: "example.com/other", Version: "v1.8.0", Sum: "h1:other="}, {Path: "github.com/spf13/cobra", Version: "v1.10.2", Sum: "h1:cobra="}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
