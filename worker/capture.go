package worker

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/glovebox-run/glovebox/attest"
	"github.com/glovebox-run/glovebox/internal/secrets"
	"github.com/glovebox-run/glovebox/job"
)

const spoolBuffer = 32 << 10

// capture keeps one output stream: its beginning in memory, and all of it in a file
// without a name once it is longer than a result may hold. Nobody else can find that file,
// and it is gone with its descriptor.
type capture struct {
	dir string
	// cuts has the stream cut off where the disk is full. Else that is an error.
	cuts bool

	mask     *secrets.Mask // nil for a job without secrets
	half     []byte        // of a character, whose rest has not come
	mu       sync.Mutex    // for the reader of from, which may find the disk full, too
	cut      bool          // it was: memory has all that is left
	head     []byte
	spool    *os.File
	buffered *bufio.Writer // of spool: a program may print byte by byte
	size     int64
	sum      hash.Hash // of every byte; nil as long as there is none
}

// write adds what the program printed, once it is certain that it is no secret, and no half of a character.
func (c *capture) write(p []byte) error {
	p = c.mask.Write(p)
	if len(c.half) > 0 {
		p = append(c.half, p...)
	}
	whole := job.WholeCharacters(p)
	c.half = bytes.Clone(p[len(whole):])
	return c.append(whole)
}

// end adds what write held back: the program prints no more. A character that output_kb has halved is left out.
func (c *capture) end(cut bool) error {
	p := append(c.half, c.mask.End()...)
	if cut {
		p = job.WholeCharacters(p)
	}
	if err := c.append(p); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.orCut(c.flush())
}

// append adds p as it is.
func (c *capture) append(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 || c.cut {
		return nil
	}
	err := c.keep(p)
	if err == nil || c.cuts && noRoom(err) {
		c.head = append(c.head, p[:min(len(p), job.InlineOutput-len(c.head))]...)
	}
	return c.orCut(err)
}

// keep adds p to all but the head.
func (c *capture) keep(p []byte) error {
	if c.spool == nil && c.size+int64(len(p)) > job.InlineOutput {
		if err := c.openSpool(); err != nil {
			return err
		}
	}
	if c.spool != nil {
		if _, err := c.buffered.Write(p); err != nil {
			return fmt.Errorf("spool output: %w", err)
		}
	}
	c.size += int64(len(p))
	if c.sum == nil {
		c.sum = sha256.New()
	}
	c.sum.Write(p)
	return nil
}

// noRoom reports whether a disk is full.
func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// orCut returns err, unless the stream is to be cut off for it: then the head is all of the stream, without a character that is halved.
func (c *capture) orCut(err error) error {
	if !c.cuts || !noRoom(err) {
		return err
	}
	if c.spool != nil {
		_ = c.spool.Close() // nothing of the file is used
	}
	c.spool, c.cut = nil, true
	c.head = job.WholeCharacters(c.head)
	c.size, c.sum = int64(len(c.head)), sha256.New()
	c.sum.Write(c.head)
	return nil
}

// flush puts all of the stream on the disk, if any of it is there.
func (c *capture) flush() error {
	if c.spool == nil {
		return nil
	}
	if err := c.buffered.Flush(); err != nil {
		return fmt.Errorf("spool output: %w", err)
	}
	return nil
}

// openSpool moves the stream to a file, which has room for all of it.
func (c *capture) openSpool() error {
	f, err := unnamedFile(c.dir)
	if err != nil {
		return err
	}
	c.spool, c.buffered = f, bufio.NewWriterSize(&sparse{file: f}, spoolBuffer)
	if _, err := c.buffered.Write(c.head); err != nil {
		return fmt.Errorf("spool output: %w", err)
	}
	return nil
}

// sparse writes to a file from its beginning on. Zeros take no room on the disk: a file of a program may be a hole of a
// GiB, which costs its sandbox nothing.
type sparse struct {
	file *os.File
	size int64
}

func (s *sparse) Write(p []byte) (n int, err error) {
	if bytes.Count(p, []byte{0}) == len(p) {
		n, err = len(p), s.file.Truncate(s.size+int64(len(p)))
	} else {
		n, err = s.file.WriteAt(p, s.size)
	}
	s.size += int64(n)
	return n, err
}

// attestation returns what is attested of the whole stream.
func (c *capture) attestation() attest.Stream {
	sum := c.sum
	if sum == nil {
		sum = sha256.New()
	}
	return attest.Stream{Size: c.size, SHA256: hex.EncodeToString(sum.Sum(nil))}
}

// text returns what a result shows: at most 64 KiB, cut between characters, valid UTF-8.
func (c *capture) text() string {
	head := c.head
	if c.spool != nil { // a character that the cut halved is left out
		head = job.WholeCharacters(head)
	}
	return strings.ToValidUTF8(string(head), "\uFFFD")
}

// inline reports whether text is the whole stream, byte by byte.
func (c *capture) inline() bool { return c.spool == nil && utf8.Valid(c.head) }

// from returns at most so many bytes of what the stream has by now, from offset on. Unlike all
// other methods it may be called while another goroutine writes.
func (c *capture) from(offset, most int64) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.orCut(c.flush()); err != nil {
		return nil, err
	}
	if offset > c.size { // it was cut off since
		return nil, nil
	}
	p := make([]byte, min(c.size-offset, most))
	if c.spool == nil {
		copy(p, c.head[offset:])
		return p, nil
	}
	if _, err := c.spool.ReadAt(p, offset); err != nil {
		return nil, fmt.Errorf("read spooled output: %w", err)
	}
	return p, nil
}

// all returns a reader of the whole stream.
func (c *capture) all() (io.Reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spool == nil {
		return strings.NewReader(string(c.head)), nil
	}
	if err := c.flush(); err != nil {
		return nil, err
	}
	if _, err := c.spool.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read spooled output: %w", err)
	}
	return io.LimitReader(c.spool, c.size), nil
}

func (c *capture) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spool == nil {
		return nil
	}
	return c.spool.Close()
}

// unnamedFile returns a file that is in no directory any more.
func unnamedFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "glovebox-output-*")
	if err != nil {
		return nil, fmt.Errorf("spool output: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("spool output: %w", err)
	}
	return f, nil
}
