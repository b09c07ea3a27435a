package job

import (
	"math"
	"strings"
)

// InputBytes is how much the sandbox is handed, saturating.
func (s Spec) InputBytes() int64 {
	n := int64(len(s.Source)) + int64(len(s.Stdin)) + decodedBytes(s.StdinBase64)
	for _, f := range s.Files {
		n += f.InlineBytes()
	}
	return min(n, math.MaxInt64)
}

// InlineBytes is how many bytes the file has that the spec itself has, not the bucket.
func (f File) InlineBytes() int64 { return int64(len(f.Content)) + decodedBytes(f.ContentBase64) }

// decodedBytes is how many bytes a text in base64 stands for.
func decodedBytes(text string) int64 {
	return int64(len(text))*3/4 - int64(strings.Count(text[max(0, len(text)-2):], "="))
}
