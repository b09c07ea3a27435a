// Package version tells which build of Glovebox a program is. It links the standard library
// only, so that every program can.
//
// What it tells was noted by the linker: Go stamps the tag or the commit of the tree that a
// program is built in. There is nothing to set, and nothing that a script could set wrongly.
package version

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Build says what a program was built from.
type Build struct {
	// Version is a release's tag, such as v0.1.0; a pseudo-version of Go's between two releases;
	// "(devel)" or "unknown" where Go knows of no commit.
	Version string `json:"version"`
	// Commit is that of the tree, in full. Modified says that the tree had changes beside it.
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	// Date is the commit's, in UTC, as RFC 3339 writes it: a build of it on another day is the same.
	Date string `json:"date,omitempty"`
	// Go is the version of Go that compiled it, Platform the system it was compiled for: linux/amd64.
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns what this program was built from.
func Read() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(info)
}

func of(info *debug.BuildInfo) Build {
	b := Build{Version: info.Main.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b.Version == "" {
		b.Version = "unknown"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// Write writes the build of the named program to w: some lines for people, or JSON.
func (b Build) Write(w io.Writer, program string, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(b)
	}
	_, err := io.WriteString(w, b.Text(program))
	return err
}

// Text returns the lines for people.
func (b Build) Text(program string) string {
	text := fmt.Sprintf("%s %s\n", program, b.Version)
	if b.Commit != "" {
		text += "commit   " + b.Commit
		if b.Modified {
			text += ", and changes"
		}
		text += "\n"
	}
	if b.Date != "" {
		text += "date     " + b.Date + "\n"
	}
	return text + fmt.Sprintf("go       %s %s\n", b.Go, b.Platform)
}

// Asked reports whether a program's arguments ask for its version and nothing else, and whether
// as JSON: "version" or "--version", and "--json" after it.
func Asked(args []string) (asked, asJSON bool) {
	if len(args) == 0 || len(args) > 2 || args[0] != "version" && args[0] != "--version" {
		return false, false
	}
	asJSON = len(args) == 2
	return !asJSON || args[1] == "--json", asJSON
}
