package podman

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// sealed is a sealed file with so many random bytes, and these.
func sealed(t *testing.T, disk *diskBudget, n int) (*sealedFile, []byte) {
	t.Helper()
	b := make([]byte, n)
	_, _ = rand.Read(b)
	s, err := newSealedFile(t.TempDir(), disk, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if err := s.fill(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	return s, b
}

// TestSealedFile: what was written is read, whatever its length, is in no directory, and is not what lies on the disk.
func TestSealedFile(t *testing.T) {
	t.Parallel()
	disk := &diskBudget{left: 8 << 20}
	for _, n := range []int{0, 1, pieceSize - 1, pieceSize, pieceSize + 1, 3 * pieceSize, 3*pieceSize + 100} {
		s, b := sealed(t, disk, n)
		var got bytes.Buffer
		if err := s.copyTo(&got); err != nil || !bytes.Equal(got.Bytes(), b) {
			t.Errorf("%d bytes: got %d, %v", n, got.Len(), err)
		}
		raw := make([]byte, s.bytes)
		if _, err := s.file.ReadAt(raw, 0); err != nil || s.bytes <= int64(n) {
			t.Fatalf("%d bytes on the disk, %v", s.bytes, err)
		}
		if n > 16 && bytes.Contains(raw, b[:16]) {
			t.Errorf("%d bytes: they can be read on the disk", n)
		}
		s.close()
	}
	if disk.left != 8<<20 {
		t.Errorf("%d bytes of the disk are left", disk.left)
	}
	dir := t.TempDir()
	s, err := newSealedFile(dir, disk, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if names, err := filepath.Glob(dir + "/*"); err != nil || len(names) > 0 {
		t.Errorf("got %v, %v, want no name", names, err)
	}
	info, err := s.file.Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	if err := s.fill(bytes.NewReader(make([]byte, 9<<20))); !errors.Is(err, errNoDisk) {
		t.Errorf("more than the disk has: got %v", err)
	}
	s.close()
	if s, err = newSealedFile(dir, disk, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.fill(bytes.NewReader(make([]byte, 2<<20))); !errors.Is(err, errTooLarge) || s.bytes > 1<<20 {
		t.Errorf("more than the file may have: got %v, with %d bytes", err, s.bytes)
	}
	s.close()
}

// TestSpoiltSealedFile: a file that was changed in any way is refused.
func TestSpoiltSealedFile(t *testing.T) {
	t.Parallel()
	disk := &diskBudget{left: 64 << 20}
	other, _ := sealed(t, disk, 3*pieceSize)
	const piece = pieceSize + sealSize
	move := func(from, to *os.File, at, n int64) error {
		b := make([]byte, n)
		if _, err := from.ReadAt(b, at); err != nil {
			return err
		}
		_, err := to.WriteAt(b, 0)
		return err
	}
	for name, spoil := range map[string]func(s *sealedFile) error{
		"a bit": func(s *sealedFile) error {
			_, err := s.file.WriteAt([]byte{0, 0, 0, 0, 0, 0, 0, 0}, piece+77)
			return err
		},
		"a piece is missing":   func(s *sealedFile) error { return s.file.Truncate(2 * piece) },
		"the end is missing":   func(s *sealedFile) error { return s.file.Truncate(3*piece - 1) },
		"all is missing":       func(s *sealedFile) error { return s.file.Truncate(0) },
		"a byte more":          func(s *sealedFile) error { _, err := s.file.WriteAt([]byte{1}, s.bytes); return err },
		"a piece twice":        func(s *sealedFile) error { return move(s.file, s.file, piece, piece) },
		"another file's piece": func(s *sealedFile) error { return move(other.file, s.file, 0, piece) },
		"a last piece before":  func(s *sealedFile) error { return move(s.file, s.file, 3*piece, sealSize) },
	} {
		s, b := sealed(t, disk, 3*pieceSize)
		if err := spoil(s); err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := s.copyTo(&got); !errors.Is(err, errSpoilt) {
			t.Errorf("%s: got %d bytes, %v, want errSpoilt", name, got.Len(), err)
		}
		if !bytes.HasPrefix(b, got.Bytes()) {
			t.Errorf("%s: what was read is not what was written", name)
		}
	}
}
