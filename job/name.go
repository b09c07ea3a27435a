package job

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName bounds the name of an input file or of an artifact, in bytes; S3 allows a
// key of 1,024 and ours adds a prefix of up to about 200.
const MaxName = 255

// CheckName refuses a file name that could mean anything but one file below the
// job's directory, or that could not be shown: it says why, or returns "".
// Names of inputs come from producers and names of artifacts from the job itself;
// both are hostile.
func CheckName(name string) (problem string) {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxName:
		return "is longer than 255 bytes"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.HasPrefix(name, "/"):
		return "is absolute"
	case path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return "is not a plain path below the job's directory"
	case strings.Contains(name, `\`):
		return "has a backslash"
	}
	for _, r := range name {
		// Bidirectional overrides and other format characters make a name read as another.
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return "has a control or format character"
		}
	}
	return ""
}
