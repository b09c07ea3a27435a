package judge0

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"slices"
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

// lying is a zip of a file whose size is another than it says.
func lying(tb testing.TB, content string, says uint32) []byte {
	tb.Helper()
	archive := zipOf(tb, entry{"a", content, 0})
	at := bytes.Index(archive, entryMark) + 24 // the size without compression (APPNOTE.TXT 4.3.12)
	binary.LittleEndian.PutUint32(archive[at:], says)
	return archive
}

// overlapping is a zip that lists one file many times.
func overlapping(tb testing.TB, times int) []byte {
	tb.Helper()
	content := make([]byte, 4<<10)
	for i := range content {
		content[i] = byte(i * i >> 3 * 31)
	}
	archive := zipOf(tb, entry{"a", string(content), 0})
	at := bytes.Index(archive, entryMark)
	end := bytes.LastIndex(archive, []byte("PK\x05\x06")) // APPNOTE.TXT 4.3.16
	directory := bytes.Repeat(archive[at:end], times)
	tail := slices.Clone(archive[end:])
	for _, count := range []int{8, 10} {
		binary.LittleEndian.PutUint16(tail[count:], uint16(times))
	}
	binary.LittleEndian.PutUint32(tail[12:], uint32(len(directory)))
	return slices.Concat(archive[:at], directory, tail)
}

func unpackAll(archive []byte) ([]file, error) {
	r, _, err := openArchive(archive)
	if err != nil {
		return nil, err
	}
	return unpack(r)
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
		"overlapping": {overlapping(t, 100), "", "is no zip archive"},
		"up":          {zipOf(t, entry{"../a", "1", 0}), "", "has a file whose name is not a plain path below the job's directory"},
		"up within":   {zipOf(t, entry{"d/../../a", "1", 0}), "", "has a file whose name is not a plain path below the job's directory"},
		"absolute":    {zipOf(t, entry{"/a", "1", 0}), "", "has a file whose name is absolute"},
		"backslash":   {zipOf(t, entry{`..\a`, "1", 0}), "", "has a file whose name has a backslash"},
		"a bomb":      {zipOf(t, entry{"a", strings.Repeat("a", maxExtract), 0}, entry{"b", "b", 0}), "", "holds more than 10240 kilobytes"},
		"two bombs":   {zipOf(t, entry{"a", strings.Repeat("a", maxExtract/2+1), 0}, entry{"b", strings.Repeat("a", maxExtract/2), 0}), "", "holds more than 10240 kilobytes"},
		"says less":   {lying(t, "aaaa", 3), "", "has a file that can't be unpacked"},
		"says more":   {lying(t, "aaaa", 5), "", "has a file that can't be unpacked"},
		"entries":     {bytes.Repeat(zipOf(t, entry{"a", "1", 0}), maxEntries+1), "", "has more than 1024 entries"},
		"many":        {zipOf(t, many...), "", "has more than 256 files"},
		"no zip":      {[]byte("PK"), "", "is no zip archive"},
		"cut":         {zipOf(t, entry{"a", "1", 0})[:20], "", "is no zip archive"},
		"not in UTF8": {zipOf(t, entry{"\xff", "1", 0}), "", "has a file whose name is not UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := unpackAll(tt.archive)
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
		files, err := unpackAll(archive)
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
