package convert

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImportBounds: what is too large, or leads elsewhere, is refused.
func TestImportBounds(t *testing.T) {
	t.Parallel()
	dir := func(change func(dir string)) string {
		at := unpack(t, []byte(smallDMOJ))
		change(at)
		return at
	}
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, filepath.Dir(secret), "secret", []byte("of the host\n"))
	for name, c := range map[string]struct{ src, want string }{
		"a bomb": {dir(func(at string) { put(t, at, "a.zip", bomb(t, "1.out", maxData+1)) }), "1.out: is larger than 67108864 bytes"},
		"many names": {dir(func(at string) {
			var b bytes.Buffer
			w := zip.NewWriter(&b)
			for i := range 90_000 {
				if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%06d", i)}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			put(t, at, "a.zip", b.Bytes())
		}), "its list of files is larger than"},
		"a link out": {dir(func(at string) {
			if err := os.Symlink(secret, filepath.Join(at, "1.in")); err != nil {
				t.Fatal(err)
			}
		}), "1.in: can't be read: path escapes"},
		"a link as the archive": {dir(func(at string) {
			if err := os.Remove(filepath.Join(at, "a.zip")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(secret, filepath.Join(at, "a.zip")); err != nil {
				t.Fatal(err)
			}
		}), "path escapes"},
		"a folder as a case": {dir(func(at string) { put(t, at, "1.in/x", nil); put(t, at, "a.zip", bomb(t, "1.out", 1)) }), "there is no file 1.in"},
		"long YAML":          {dir(func(at string) { put(t, at, dmojFile, bytes.Repeat([]byte("#"), maxDescription+1)) }), "init.yml: is larger than"},
		"much of nothing": {dir(func(at string) {
			text := "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
			for i := range 12 {
				text += fmt.Sprintf("l%d: &l%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*l%d, ", i), 10))
			}
			put(t, at, dmojFile, []byte(text+"test_cases: *l12\n"))
		}), "init.yml"},
		"many cases": {dir(func(at string) {
			put(t, at, dmojFile, []byte("archive: a.zip\ntest_cases:\n"+strings.Repeat("- {in: 1.in, out: 1.out}\n", 1001)))
		}), "test_cases: has 1001 entries; up to 1000"},
		"many in batches": {dir(func(at string) {
			put(t, at, dmojFile, []byte("archive: a.zip\ntest_cases:\n"+strings.Repeat("- {batched: ["+strings.Repeat("{in: 1.in, out: 1.out},", 600)+"]}\n", 2)))
		}), "has 1200 tests; up to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Import(c.src, filepath.Join(t.TempDir(), "made"), Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "of the host") {
				t.Error("the error has what the link leads to")
			}
		})
	}
}

// bomb is an archive with a file of zeros, a thousandth of its size, and another that is empty.
func bomb(t *testing.T, name string, size int64) []byte {
	t.Helper()
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = io.CopyN(w, zeros{}, size)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for _, f := range []struct {
		name    string
		content []byte
		size    uint64
	}{{name, packed.Bytes(), uint64(size)}, {"1.in", []byte{3, 0}, 0}} {
		if f.name == "1.in" && size == 1 {
			continue
		}
		entry, err := z.CreateRaw(&zip.FileHeader{Name: f.name, Method: zip.Deflate, CompressedSize64: uint64(len(f.content)), UncompressedSize64: f.size})
		if err == nil {
			_, err = entry.Write(f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
