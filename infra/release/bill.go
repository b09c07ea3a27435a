package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// repository is where the sources are.
const repository = "https://github.com/glovebox-run/glovebox"

// writeBill writes the bill of materials of an architecture's programs: which modules, of which
// version, the linker put into each.
func writeBill(name string, from source, arch string, programs []program) error {
	bill := cdx.NewBOM()
	whole := cdx.Component{
		BOMRef: "glovebox", Type: cdx.ComponentTypeApplication, Name: "glovebox", Version: from.version,
		PackageURL:         packageURL("github.com/glovebox-run/glovebox", from.version),
		Licenses:           &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		ExternalReferences: &[]cdx.ExternalReference{{Type: cdx.ERTypeVCS, URL: repository, Comment: "commit " + from.commit}},
		Properties:         &[]cdx.Property{{Name: "glovebox:platform", Value: "linux/" + arch}},
	}
	bill.Metadata = &cdx.Metadata{Timestamp: from.date.UTC().Format(time.RFC3339), Component: &whole}
	bill.SerialNumber = serial(from, arch)

	components, dependencies := []cdx.Component{}, []cdx.Dependency{}
	contents := []string{}
	for _, p := range programs {
		ref := "file:" + p.path
		contents = append(contents, ref)
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeFile, Name: path.Base(p.path), Version: from.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.sha256}},
		})
		links := []string{packageURL("std", p.info.GoVersion)}
		for _, m := range modulesOf(p) {
			links = append(links, packageURL(m.Path, m.Version))
		}
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &links})
	}
	dependencies = append([]cdx.Dependency{{Ref: whole.BOMRef, Dependencies: &contents}}, dependencies...)

	modules := append([]debug.Module{{Path: "std", Version: from.goVersion}}, modulesOf(programs...)...)
	for _, m := range modules {
		c := cdx.Component{BOMRef: packageURL(m.Path, m.Version), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: packageURL(m.Path, m.Version)}
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "golang:sum", Value: m.Sum}} // as go.sum has it
		}
		components = append(components, c)
	}
	bill.Components, bill.Dependencies = &components, &dependencies

	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cdx.SpecVersion1_6); err != nil {
		f.Close()
		return fmt.Errorf("write bill of materials: %w", err)
	}
	return f.Close()
}

// packageURL names a version of a module, as package-url.github.io does for Go.
func packageURL(module, version string) string {
	return "pkg:golang/" + module + "@" + strings.ReplaceAll(strings.TrimPrefix(version, "go"), "+", "%2B")
}

// serial is a UUID that is always the same for a commit and an architecture: version 8 of RFC 9562.
func serial(from source, arch string) string {
	id := sha256.Sum256([]byte(strings.Join([]string{"glovebox/bill/v1", from.version, from.commit, arch}, "\n")))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}
