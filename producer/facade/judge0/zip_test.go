package judge0

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/glovebox-run/glovebox/job"
)

// entry is one of a zip's.
type entry struct {
	name, content string
	mode          fs.FileMode
}

func zipOf(tb testing.TB, entries ...entry) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		header.SetMode(e.mode | 0o644)
		f, err := w.CreateHeader(header)
		if err == nil {
			_, err = f.Write([]byte(e.content))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	many := make([]entry, job.MaxFiles+1)
	for i := range many {
		many[i].name = fmt.Sprint(i)
	}
	for name, tt := range map[string]struct {
		archive []byte
		want    string // the files, or
		problem string
	}{
		"files":       {zipOf(t, entry{"a", "1", 0}, entry{"d/b", "2", 0}, entry{"./c", "3", 0}), "[{a 1} {d/b 2} {c 3}]", ""},
		"none":        {zipOf(t), "[]", ""},
		"folders":     {zipOf(t, entry{"d/", "", fs.ModeDir}), "[]", ""},
		"a link":      {zipOf(t, entry{"l", "/etc/passwd", fs.ModeSymlink}), "[]", ""},
		"twice":       {zipOf(t, entry{"a", "1", 0}, entry{"a", "2", 0}), "[{a 2}]", ""},
		"up":          {zipOf(t, entry{"../a", "1", 0}), "", "has a file whose name is not a plain path below the job's directory"},
		"up within":   {zipOf(t, entry{"d/../../a", "1", 0}), "", "has a file whose name is not a plain path below the job's directory"},
		"absolute":    {zipOf(t, entry{"/a", "1", 0}), "", "has a file whose name is absolute"},
		"backslash":   {zipOf(t, entry{`..\a`, "1", 0}), "", "has a file whose name has a backslash"},
		"a bomb":      {zipOf(t, entry{"a", strings.Repeat("a", maxExtract), 0}, entry{"b", "b", 0}), "", "holds more than 10240 kilobytes"},
		"many":        {zipOf(t, many...), "", "has more than 256 files"},
		"no zip":      {[]byte("PK"), "", "is no zip archive"},
		"cut":         {zipOf(t, entry{"a", "1", 0})[:20], "", "is no zip archive"},
		"not in UTF8": {zipOf(t, entry{"\xff", "1", 0}), "", "has a file whose name is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := unpack(tt.archive)
			if err != nil || tt.problem != "" {
				if err == nil || err.Error() != tt.problem {
					t.Errorf("got %.200v, %v, want %q", files, err, tt.problem)
				}
				return
			}
			list := []string{}
			for _, f := range files {
				list = append(list, fmt.Sprintf("{%s %s}", f.name, f.content))
			}
			if got := "[" + strings.Join(list, " ") + "]"; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// FuzzUnpack: whatever a zip says, its files are few, small together, and where they belong.
func FuzzUnpack(f *testing.F) {
	f.Add(zipOf(f, entry{"a", "1", 0}, entry{"d/b", strings.Repeat("x", 1000), 0}))
	f.Add(zipOf(f, entry{"../a", "1", 0}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		files, err := unpack(archive)
		if err != nil && files != nil {
			t.Errorf("got %d files and %v", len(files), err)
		}
		total, names := 0, map[string]bool{}
		for _, f := range files {
			total += len(f.content)
			if problem := job.CheckName(f.name); problem != "" || names[f.name] {
				t.Errorf("%q %s, or appears more than once", f.name, problem)
			}
			names[f.name] = true
		}
		if total > maxExtract || len(files) > job.MaxFiles {
			t.Errorf("got %d files of %d bytes", len(files), total)
		}
	})
}
