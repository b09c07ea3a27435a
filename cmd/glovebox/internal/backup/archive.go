package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"github.com/glovebox-run/glovebox/artifacts"
)

// ErrDamaged means that a file is no backup, or not all of one, or was changed.
var ErrDamaged = errors.New("this is not a whole and unchanged backup")

const (
	format     = 1
	headName   = "head.json"
	redisName  = "redis.rdb"
	objectsDir = "objects/"
	endName    = "end.json"
	// maxNote bounds head.json and end.json.
	maxNote = 64 << 10
	// maxKey is S3's own limit for the name of an object.
	maxKey = 1024
	// blockSize is that of a tar archive, and of a header without extensions.
	blockSize = 512

	typeRecord        = "GLOVEBOX.type"
	dispositionRecord = "GLOVEBOX.disposition"
	sumRecord         = "GLOVEBOX.sha256"
)

// Head is what a backup says of itself.
type Head struct {
	Format  int       `json:"format"`
	MadeAt  time.Time `json:"made_at"`
	Version string    `json:"glovebox_version"`
	// Redis is the version of the server that the records were in. Every Valkey calls itself a Redis 7.2.4.
	Redis string `json:"redis_version"`
	// Valkey is its version where it is one.
	Valkey string `json:"valkey_version,omitempty"`
	// DB is the number of the database that they were in.
	DB int `json:"db"`
}

// Server is the kind and version of the server that the records were in.
func (h Head) Server() string {
	if h.Valkey != "" {
		return "Valkey " + h.Valkey
	}
	return "Redis " + h.Redis
}

type end struct {
	Objects int    `json:"objects"`
	SHA256  string `json:"sha256"`
}

// writer writes an archive, and hashes it.
type writer struct {
	tar     *tar.Writer
	hash    hash.Hash
	madeAt  time.Time
	objects int
}

func newWriter(w io.Writer, h Head) (*writer, error) {
	a := &writer{hash: sha256.New(), madeAt: h.MadeAt}
	a.tar = tar.NewWriter(io.MultiWriter(w, a.hash))
	return a, a.note(headName, h)
}

func (a *writer) begin(name string, size int64, records map[string]string) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: a.madeAt.Truncate(time.Second), PAXRecords: records, Format: tar.FormatPAX}
	if records == nil && size < 8<<30 { // a plain header, of one block
		h.Format = tar.FormatUSTAR
	}
	return a.tar.WriteHeader(h)
}

func (a *writer) note(name string, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		err = a.begin(name, int64(len(b)), nil)
	}
	if err == nil {
		_, err = a.tar.Write(b)
	}
	return err
}

// object begins an object, whose bytes the caller writes to tar.
func (a *writer) object(c artifacts.Copy) error {
	a.objects++
	return a.begin(objectsDir+c.Key, c.Size, map[string]string{typeRecord: c.MediaType, dispositionRecord: c.Disposition, sumRecord: c.SHA256})
}

// close writes the end, and returns the SHA-256 by which the backup is known.
func (a *writer) close() (string, error) {
	if err := a.tar.Flush(); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(a.hash.Sum(nil))
	if err := a.note(endName, end{a.objects, sum}); err != nil {
		return "", err
	}
	return sum, a.tar.Close()
}

// hashing hashes what is read, except for the last block: when the archive's end is read, that is
// its header.
type hashing struct {
	r    io.Reader
	hash hash.Hash
	last []byte
}

func (h *hashing) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.last = append(h.last, p[:n]...)
	if more := len(h.last) - blockSize; more > 0 {
		h.hash.Write(h.last[:more])
		h.last = append(h.last[:0], h.last[more:]...)
	}
	return n, err
}

// visitor is what is done with the parts of an archive, in their order. What it doesn't read is passed over.
type visitor struct {
	redis  func(h Head, r io.Reader) error
	object func(c artifacts.Copy, r io.Reader) error
}

// read reads an archive to its end, and checks that it is one, whole and unchanged.
func read(r io.Reader, v visitor) (Head, int, string, error) {
	h := &hashing{r: r, hash: sha256.New()}
	in := tar.NewReader(h)
	var head Head
	objects := 0
	for part := 0; ; part++ {
		entry, err := in.Next()
		if err != nil { // io.EOF, too: there has to be an end
			return head, 0, "", fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err := plain(entry); err != nil {
			return head, 0, "", err
		}
		switch {
		case part == 0 && entry.Name == headName:
			err = readNote(in, entry, &head)
			if err == nil && head.Format != format {
				err = fmt.Errorf("it is of format %d, and this version of Glovebox reads %d", head.Format, format)
			}
		case part == 1 && entry.Name == redisName:
			err = v.redis(head, in)
		case part > 1 && entry.Name == endName:
			var e end
			sum := hex.EncodeToString(h.hash.Sum(nil)) // before anything more is read
			if err := readNote(in, entry, &e); err != nil {
				return head, 0, "", err
			}
			if e.SHA256 != sum || e.Objects != objects {
				return head, 0, "", fmt.Errorf("%w: it has %d objects and the SHA-256 %s, and says %d and %.64q", ErrDamaged, objects, sum, e.Objects, e.SHA256)
			}
			return head, objects, sum, nil
		case part > 1 && strings.HasPrefix(entry.Name, objectsDir):
			objects++
			err = v.object(copyOf(entry), in)
		default:
			err = fmt.Errorf("%w: part %d is %.200q", ErrDamaged, part+1, entry.Name)
		}
		if err != nil {
			return head, 0, "", err
		}
	}
}

// plain refuses entries that are anything but a file as it is: sparse ones say of themselves how large they are.
func plain(h *tar.Header) error {
	if h.Typeflag != tar.TypeReg || len(h.Name) > len(objectsDir)+maxKey {
		return fmt.Errorf("%w: %.200q is not a plain file", ErrDamaged, h.Name)
	}
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse") {
			return fmt.Errorf("%w: %.200q is not a plain file", ErrDamaged, h.Name)
		}
	}
	return nil
}

func copyOf(h *tar.Header) artifacts.Copy {
	c := artifacts.Copy{Disposition: h.PAXRecords[dispositionRecord]}
	c.Key, c.Size = strings.TrimPrefix(h.Name, objectsDir), h.Size
	c.MediaType, c.SHA256 = h.PAXRecords[typeRecord], h.PAXRecords[sumRecord]
	return c
}

func readNote(r io.Reader, h *tar.Header, v any) error {
	if h.Size > maxNote {
		return fmt.Errorf("%w: %s has %d bytes", ErrDamaged, h.Name, h.Size)
	}
	b, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, h.Name, err)
	}
	return nil
}
