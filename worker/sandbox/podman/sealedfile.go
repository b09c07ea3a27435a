package podman

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/glovebox-run/glovebox/internal/pausedisk"
)

// sealedFile is a file on a disk that only this process can read or change unseen: it is in no directory, and what it
// holds is encrypted and authenticated in pieces, with a key that is nowhere but here and for this file alone. A piece's nonce is its
// number, and the last one's says that it is the last. So pieces that are changed, moved, missing or another file's are refused.
type sealedFile struct {
	file *os.File
	aead cipher.AEAD
	disk *diskBudget
	// bytes is what it takes of the disk, and most how much that may be.
	bytes, most int64
}

const (
	// pieceSize is how much is sealed at once, bytes; the last piece has less, be it nothing.
	pieceSize = 256 << 10
	// sealSize is what sealing adds to a piece.
	sealSize = 16
)

// errSpoilt is why a sealed file is not read.
var errSpoilt = errors.New("the file on the disk is not what was written to it")

// newSealedFile makes one of so many bytes at most in the directory. What it takes is of the budget until it is closed.
func newSealedFile(dir string, disk *diskBudget, most int64) (*sealedFile, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	file, err := pausedisk.Unnamed(dir)
	if err != nil {
		return nil, err
	}
	return &sealedFile{file: file, aead: aead, disk: disk, most: most}, nil
}

// nonce is that of a piece.
func nonce(piece uint64, last bool) []byte {
	n := make([]byte, 12)
	binary.BigEndian.PutUint64(n, piece)
	if last {
		n[11] = 1
	}
	return n
}

// errTooLarge is why a file is not written on.
var errTooLarge = errors.New("a sandbox writes more than it may hold in memory")

// fill writes all of r, once. It fails with errTooLarge where that is more than the file may have, and with errNoDisk where the budget has no room for it.
func (s *sealedFile) fill(r io.Reader) error {
	piece, sealed := make([]byte, pieceSize), make([]byte, 0, pieceSize+sealSize)
	for n := uint64(0); ; n++ {
		got, err := io.ReadFull(r, piece)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("read what is to be written: %w", err)
		}
		sealed = s.aead.Seal(sealed[:0], nonce(n, last), piece[:got], nil)
		if s.bytes+int64(len(sealed)) > s.most {
			return errTooLarge
		}
		if !s.disk.take(int64(len(sealed))) {
			return errNoDisk
		}
		s.bytes += int64(len(sealed))
		if _, err := s.file.Write(sealed); err != nil {
			return fmt.Errorf("write a file without a name: %w", err)
		}
		if last {
			return nil
		}
	}
}

// copyTo writes all that the file holds. Where it fails, what was written before proves nothing.
func (s *sealedFile) copyTo(w io.Writer) error {
	r := io.NewSectionReader(s.file, 0, s.bytes+1) // one byte more than it may have
	sealed, piece := make([]byte, pieceSize+sealSize), make([]byte, 0, pieceSize)
	for n := uint64(0); ; n++ {
		got, err := io.ReadFull(r, sealed)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("read a file without a name: %w", err)
		}
		if piece, err = s.aead.Open(piece[:0], nonce(n, last), sealed[:got], nil); err != nil {
			return errSpoilt
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// close frees the file's disk.
func (s *sealedFile) close() {
	s.file.Close()
	s.disk.give(s.bytes)
	s.bytes = 0
}
